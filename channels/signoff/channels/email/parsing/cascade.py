"""Finds the style declarations of an element in an HTML mail (part of CSS Cascade 4).

Mail programs differ in what they support, so there are several cascades: without style sheets, with
unconditional rules, and also with conditional rules (a narrow screen, dark mode, a selector that is
not resolved here). If text is visible in one of them and hidden in another, its visibility is
uncertain.

The work is limited: above a limit nothing is guessed, and `Cascade.exhausted` is set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import tinycss2
from tinycss2.ast import AtRule, Node

from signoff.channels.email.parsing.selectors import Names, Selector, read_selectors

_DEEPEST_BLOCK: Final = 4

_OTHER_MEDIA: Final = frozenset({"print", "speech", "aural", "braille", "tv", "projection"})
_COLORS: Final = frozenset({"color", "background", "background-color", "text-fill-color"})
_SCREENS: Final = frozenset({"all", "screen", "only"})


class Level(IntEnum):
    """The rules that a mail program applies; each level includes the lower ones."""

    NONE = 0
    """Nothing."""
    CERTAIN = 1
    """Unconditional rules."""
    CONDITIONAL = 2
    """Rules with a condition, or for elements that cannot be determined."""


class Declaration(NamedTuple):
    """A property and its value.

    Attributes:
        name: The property in lower case, without a vendor's prefix.
        value: The tokens of its value, without white space.
        important: Whether it is marked as important.
    """

    name: str
    value: tuple[Node, ...]
    important: bool = False


class _Rule(NamedTuple):
    selector: Selector
    order: tuple[int, int, int, int]
    level: Level
    declarations: tuple[Declaration, ...]


@dataclass(slots=True)
class Budget:
    """The remaining budget for the HTML pages of one mail.

    Attributes:
        markup: Characters of HTML.
        elements: Elements to lay out.
        sheets: Characters of style sheets.
        rules: Selectors in the style sheets.
        steps: Comparisons of a selector with an element.
        styles: Different style attributes.
        style: Characters in style attributes.
    """

    markup: int = 384 * 1024
    elements: int = 6_000
    sheets: int = 32 * 1024
    rules: int = 500
    steps: int = 20_000
    styles: int = 400
    style: int = 24 * 1024


class Cascade:
    """The style sheets of a page.

    Args:
        sheets: The contents of its style elements.
        wanted: The properties to read; all others are ignored.
        budget: The budget for reading it.

    Attributes:
        exhausted: Whether the budget is spent; the result is then uncertain.
        levels: The levels at which styles may differ.
        plain: Whether there are no rules for any element.
    """

    def __init__(
        self, sheets: Sequence[str], wanted: frozenset[str], budget: Budget | None = None
    ) -> None:
        self._budget = budget or Budget()
        self._budget.sheets -= sum(map(len, sheets))
        self.exhausted = self._budget.sheets < 0
        self._wanted = wanted
        self._variables = False
        self._rules: dict[str, list[_Rule]] = {}
        self._count = 0
        self._inline: dict[str, tuple[Declaration, ...]] = {}
        self._combined: dict[tuple[object, ...], tuple[Declaration, ...]] = {}
        if not self.exhausted:
            for sheet in sheets:
                self._add(_stylesheet(sheet), Level.CERTAIN, depth=0)
        self.plain = not self._rules
        levels = {rule.level for rules in self._rules.values() for rule in rules}
        self.levels: tuple[Level, ...] = (Level.NONE, *sorted(levels))

    def applied(self, path: Sequence[Names], style: str, level: Level) -> tuple[Declaration, ...]:
        """Return the declarations for an element; later ones take precedence.

        Args:
            path: The names of all enclosing elements, and then those of the element.
            style: Its style attribute.
            level: The level of rules to apply.

        Returns:
            The same tuple for the same declarations.
        """
        own = self._of_attribute(style) if style else ()
        found = list(self._matching(path, level)) if self._rules and level else []
        if not found:
            return own
        found.sort(key=lambda rule: rule.order)
        key = (*(rule.order[-1] for rule in found), style)
        known = self._combined.get(key)
        if known is None:
            ordered = [*(one for rule in found for one in rule.declarations), *own]
            known = self._combined[key] = _important_last(ordered)
        return known

    def _of_attribute(self, style: str) -> tuple[Declaration, ...]:
        known = self._inline.get(style)
        if known is None:
            self._budget.style -= len(style)
            self._budget.styles -= 1
            if self._budget.style < 0 or self._budget.styles < 0:
                self.exhausted = True
                return ()
            known = self._inline[style] = _important_last(self._declarations(style))
        return known

    def _declarations(self, content: str | Sequence[Node]) -> tuple[Declaration, ...]:
        declarations = []
        nodes = tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True)
        for node in nodes:
            if node.type in ("qualified-rule", "at-rule"):
                # Some programs apply nested rules (CSS Nesting).
                self.exhausted = True
            if node.type != "declaration":
                continue
            self._variables = self._variables or node.name.startswith("--")
            name = _unprefixed(node.lower_name)
            value = tuple(one for one in node.value if one.type not in ("whitespace", "comment"))
            if name in self._wanted and (self._variables or not any(map(_is_unset, value))):
                declarations.append(Declaration(name, value, node.important))
        return tuple(declarations)

    def _matching(self, path: Sequence[Names], level: Level) -> Iterator[_Rule]:
        names = path[-1]
        keys = [
            *(f"#{one}" for one in names.ids),
            *(f".{one}" for one in names.classes),
            names.tag,
            "*",
        ]
        for key in keys:
            for rule in self._rules.get(key, ()):
                self._budget.steps -= 1
                if rule.level > level or not rule.selector.compounds[-1].fits(names):
                    continue
                if len(rule.selector.compounds) > 1:
                    self._budget.steps -= len(path)
                    if self._budget.steps < 0:
                        break
                    if not rule.selector.matches_around(path):
                        continue
                yield rule
        self.exhausted = self.exhausted or self._budget.steps < 0

    def _add(self, nodes: Sequence[Node], level: Level, *, depth: int) -> None:
        for node in nodes:
            if self._budget.rules < 0:
                self.exhausted = True
                return
            if node.type == "qualified-rule":
                declarations = self._declarations(node.content)
                for selector in read_selectors(node.prelude):
                    self._budget.rules -= 1
                    if selector is not None and declarations:
                        self._add_rule(selector, declarations, level)
            elif node.type == "at-rule" and node.content is not None:
                self._add_group(node, level, depth=depth)
            elif node.type == "at-rule" and node.lower_at_keyword == "import":
                # The imported sheet is not read, but Apple Mail would fetch it.
                self.exhausted = "font" not in tinycss2.serialize(node.prelude).lower()

    def _add_group(self, node: AtRule, level: Level, *, depth: int) -> None:
        """Add the rules of an @media or another group, except those for other media."""
        keyword = node.lower_at_keyword
        if keyword in ("font-face", "page", "keyframes", "-webkit-keyframes", "list"):
            return
        words = {one.lower_value for one in node.prelude if one.type == "ident"}
        if keyword == "media" and words and words <= _OTHER_MEDIA:
            return
        if depth >= _DEEPEST_BLOCK:
            self.exhausted = True
            return
        bare = all(one.type in ("ident", "whitespace", "comment") for one in node.prelude)
        if not (keyword == "media" and bare and words <= _SCREENS):
            level = Level.CONDITIONAL
        if "prefers-color-scheme" in tinycss2.serialize(node.prelude).lower():
            # In dark mode, programs choose their own colors.
            wanted, self._wanted = self._wanted, self._wanted - _COLORS
            self._add(_stylesheet(node.content), level, depth=depth + 1)
            self._wanted = wanted
            return
        self._add(_stylesheet(node.content), level, depth=depth + 1)

    def _add_rule(
        self, selector: Selector, declarations: tuple[Declaration, ...], level: Level
    ) -> None:
        if selector.inserted:
            declarations = tuple(
                one._replace(name="inserted") for one in declarations if one.name == "content"
            )
        last = selector.compounds[-1]
        keys = [*(f"#{one}" for one in last.ids), *(f".{one}" for one in last.classes)]
        self._count += 1
        rule = _Rule(
            selector,
            (*selector.specificity, self._count),
            level if selector.certain else Level.CONDITIONAL,
            declarations,
        )
        self._rules.setdefault(keys[0] if keys else last.tag or "*", []).append(rule)


def _stylesheet(text: str | Sequence[Node]) -> Sequence[Node]:
    nodes: Sequence[Node] = tinycss2.parse_stylesheet(
        text, skip_comments=True, skip_whitespace=True
    )
    return nodes


def _important_last(declarations: Sequence[Declaration]) -> tuple[Declaration, ...]:
    return tuple(sorted(declarations, key=lambda one: one.important))


def _is_unset(token: Node) -> bool:
    """Return whether a token is a variable with an empty fallback."""
    return (
        token.type == "function"
        and token.lower_name == "var"
        and not any(one.type == "literal" and one.value == "," for one in token.arguments)
    )


def _unprefixed(name: str) -> str:
    if name.startswith(("-webkit-", "-moz-", "-ms-", "-o-")):
        return name.split("-", 2)[2]
    return name
