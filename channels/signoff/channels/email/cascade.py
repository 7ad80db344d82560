"""Which style declarations apply to an element of an HTML mail: CSS Cascade 4, as far as mail needs.

Mail programs differ in what they support, so there are several cascades: with no style sheet at
all, with the rules that hold everywhere, and with those that hold under some condition as well (a
narrow screen, dark mode, a selector that is not resolved here). What is shown in one of them and
not in another cannot be told.

The work is capped: over a cap nothing is guessed, `Cascade.exhausted` says so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, NamedTuple

import tinycss2
from lxml import etree

_DEEPEST_BLOCK: Final = 4

_NEVER: Final = frozenset(
    {
        *("hover", "active", "focus", "focus-within", "focus-visible", "visited", "target"),
        *("selection", "placeholder", "marker", "backdrop"),
    }
)
_ALWAYS: Final = frozenset({"link", "any-link"})
_INSERTED: Final = frozenset({"before", "after"})
_OTHER_MEDIA: Final = frozenset({"print", "speech", "aural", "braille", "tv", "projection"})
_COLORS: Final = frozenset({"color", "background", "background-color", "text-fill-color"})
_SCREENS: Final = frozenset({"all", "screen", "only"})

Tokens = Sequence[Any]
"""Component values of tinycss2, which has no types."""


class Level(IntEnum):
    """What a mail program takes from style sheets; each level has what those below it have."""

    NONE = 0
    """Nothing."""
    CERTAIN = 1
    """Rules without any condition."""
    CONDITIONAL = 2
    """Rules that hold under a condition, or for elements that are not known for certain."""


class Declaration(NamedTuple):
    """A property and its value.

    Attributes:
        name: The property in lower case, without a vendor's prefix.
        value: The tokens of its value, without white space.
        important: Whether it is marked so.
    """

    name: str
    value: tuple[Any, ...]
    important: bool = False


class _Compound(NamedTuple):
    """The part of a selector that is about one element, and how it is joined to the part before."""

    child: bool
    tag: str
    ids: frozenset[str]
    classes: frozenset[str]


class _Rule(NamedTuple):
    compounds: tuple[_Compound, ...]
    specificity: tuple[int, int, int, int]
    level: Level
    declarations: tuple[Declaration, ...]


class Names(NamedTuple):
    """What selectors ask about an element."""

    tag: str
    ids: frozenset[str]
    classes: frozenset[str]


@dataclass(slots=True)
class Budget:
    """What may still be spent on the pages of one mail.

    Attributes:
        markup: Characters of HTML.
        elements: Elements that are laid out.
        sheets: Characters of style sheets.
        rules: Selectors in them.
        steps: Comparisons of a selector with an element.
        styles: Different style attributes.
        style: Characters in these.
    """

    markup: int = 384 * 1024
    elements: int = 8_000
    sheets: int = 48 * 1024
    rules: int = 600
    steps: int = 60_000
    styles: int = 400
    style: int = 24 * 1024


class Cascade:
    """The style sheets of a page.

    Args:
        sheets: The content of its style elements.
        wanted: The properties that are asked about; all others are left out.
        budget: What reading it may cost.

    Attributes:
        exhausted: Whether that was spent: what applies is not known from then on.
        levels: The levels at which something may differ.
        plain: Whether no rule applies to any element.
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
        self._combined: dict[tuple[int | str, ...], tuple[Declaration, ...]] = {}
        if not self.exhausted:
            for sheet in sheets:
                self._add(_stylesheet(sheet), Level.CERTAIN, depth=0)
        self.plain = not self._rules
        levels = {rule.level for rules in self._rules.values() for rule in rules}
        self.levels: tuple[Level, ...] = (Level.NONE, *sorted(levels))

    def applied(self, path: Sequence[Names], style: str, level: Level) -> tuple[Declaration, ...]:
        """Return the declarations for an element, those that win last.

        Args:
            path: The names of the element, and before it those of all elements it stands in.
            style: Its style attribute.
            level: What is taken from style sheets.

        Returns:
            The same tuple for the same declarations.
        """
        own = self._of_attribute(style) if style else ()
        found = list(self._matching(path, level)) if self._rules and level else []
        if not found:
            return own
        found.sort(key=lambda rule: rule.specificity)
        key = (*(rule.specificity[-1] for rule in found), style)
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

    def _declarations(self, content: Any) -> tuple[Declaration, ...]:
        declarations = []
        nodes = tinycss2.parse_blocks_contents(content, skip_comments=True, skip_whitespace=True)
        for node in nodes:
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
                if rule.level > level or not _fits(rule.compounds[-1], names):
                    continue
                if len(rule.compounds) > 1:
                    self._budget.steps -= len(path)
                    if self._budget.steps < 0:
                        break
                    if not _match(rule.compounds, path):
                        continue
                yield rule
        self.exhausted = self.exhausted or self._budget.steps < 0

    def _add(self, nodes: Tokens, level: Level, *, depth: int) -> None:
        for node in nodes:
            if self._budget.rules < 0:
                self.exhausted = True
                return
            if node.type == "qualified-rule":
                declarations = self._declarations(node.content)
                for selector in _split(node.prelude, ","):
                    self._count += 1
                    self._budget.rules -= 1
                    self._add_rule(selector, declarations, level)
            elif node.type == "at-rule" and node.content is not None:
                self._add_group(node, level, depth=depth)
            elif node.type == "at-rule" and node.lower_at_keyword == "import":
                # What stands there is not read; Apple Mail would fetch it.
                self.exhausted = "font" not in tinycss2.serialize(node.prelude).lower()

    def _add_group(self, node: Any, level: Level, *, depth: int) -> None:
        """Add the rules of an @media or another group; what is for other media is left out."""
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
            # In dark mode programs choose colors of their own.
            wanted, self._wanted = self._wanted, self._wanted - _COLORS
            self._add(_stylesheet(node.content), level, depth=depth + 1)
            self._wanted = wanted
            return
        self._add(_stylesheet(node.content), level, depth=depth + 1)

    def _add_rule(
        self, selector: Tokens, declarations: tuple[Declaration, ...], level: Level
    ) -> None:
        read = _read_selector(selector)
        if read is None or not declarations:
            return
        compounds, certain, inserted = read
        if inserted:
            declarations = tuple(
                one._replace(name="inserted") for one in declarations if one.name == "content"
            )
            if not declarations:
                return
        if not certain:
            level = Level.CONDITIONAL
        last = compounds[-1]
        key = next(
            (
                f"{sign}{name}"
                for sign, names in (("#", last.ids), (".", last.classes))
                for name in names
            ),
            last.tag or "*",
        )
        specificity = (
            sum(len(one.ids) for one in compounds),
            sum(len(one.classes) for one in compounds),
            sum(bool(one.tag) for one in compounds),
            self._count,
        )
        rule = _Rule(compounds, specificity, level, declarations)
        self._rules.setdefault(key, []).append(rule)


def names_of(element: etree._Element) -> Names:
    """Return what selectors ask about an element."""
    identity = element.get("id")
    classes = element.get("class")
    return Names(
        element.tag.lower(),
        frozenset((identity.strip().lower(),)) if identity else frozenset(),
        # Without a doctype, as most mail is, case is ignored.
        frozenset(classes[:2_000].lower().split()) if classes else frozenset(),
    )


def _stylesheet(text: Any) -> Tokens:
    nodes: Tokens = tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)
    return nodes


def _important_last(declarations: Sequence[Declaration]) -> tuple[Declaration, ...]:
    return tuple(sorted(declarations, key=lambda one: one.important))


def _is_unset(token: Any) -> bool:
    """Say whether a token is a variable with nothing in its place where it is not set."""
    return (
        token.type == "function"
        and token.lower_name == "var"
        and not any(one.type == "literal" and one.value == "," for one in token.arguments)
    )


def _unprefixed(name: str) -> str:
    if name.startswith(("-webkit-", "-moz-", "-ms-", "-o-")):
        return name.split("-", 2)[2]
    return name


def _split(tokens: Tokens, mark: str) -> Iterator[Tokens]:
    piece: list[Any] = []
    for token in tokens:
        if token.type == "literal" and token.value == mark:
            yield piece
            piece = []
        else:
            piece.append(token)
    yield piece


def _read_selector(
    tokens: Tokens,
) -> tuple[tuple[_Compound, ...], bool, bool] | None:
    """Read a selector.

    Returns:
        Its compounds, whether they say for certain what it selects, and whether it is about text
        that the sheet inserts; None if it selects nothing that is seen at first.
    """
    compounds: list[_Compound] = []
    certain, inserted, child, colon = True, False, False, False
    tag, ids, classes = "", set[str](), set[str]()
    dot = False

    def close() -> None:
        nonlocal tag, ids, classes, child
        if tag or ids or classes:
            name = "" if tag == "*" else tag
            compounds.append(_Compound(child, name, frozenset(ids), frozenset(classes)))
            child = False
        tag, ids, classes = "", set(), set()

    for token in tokens:
        kind = token.type
        if kind in ("whitespace", "comment"):
            close()
        elif kind == "literal" and token.value in (">", "+", "~", "||"):
            close()
            child = token.value == ">"
            if not child:
                # What stands beside it is not looked at.
                compounds, certain = [], False
        elif kind == "literal" and token.value == "*":
            tag = "*"
        elif kind == "literal" and token.value == ".":
            dot = True
            continue
        elif kind == "literal" and token.value == ":":
            colon = True
            continue
        elif kind == "hash":
            ids.add(token.value.lower())
        elif kind == "ident" and dot:
            classes.add(token.lower_value)
        elif colon and kind in ("ident", "function"):
            name = token.lower_value if kind == "ident" else token.lower_name
            tag = tag or "*"
            if name in _NEVER:
                return None
            if name in _INSERTED:
                inserted, certain = True, False
            elif name == "root":
                tag = "html"
            elif name not in _ALWAYS:
                certain = False
        elif kind == "ident":
            tag = token.lower_value
        else:
            # An attribute, a namespace, or something that is no selector at all.
            tag, certain = tag or "*", False
        dot = colon = False
    close()
    return (tuple(compounds), certain, inserted) if compounds else None


def _match(compounds: tuple[_Compound, ...], path: Sequence[Names]) -> bool:
    """Say whether the compounds but the last match elements of a path above its last, in order."""
    # How far from the left the compounds were matched by elements down to each one of the path.
    reached = {0}
    before: set[int] = set()
    last = len(compounds) - 1
    for names in path[:-1]:
        now = {
            at + 1
            for at in reached
            if at < last
            and (not compounds[at].child or at in before or at == 0)
            and _fits(compounds[at], names)
        }
        before = now
        reached |= now
    return last in (before if compounds[last].child else reached)


def _fits(compound: _Compound, names: Names) -> bool:
    return (
        (not compound.tag or compound.tag == names.tag)
        and compound.ids <= names.ids
        and compound.classes <= names.classes
    )
