"""Selectors of style sheets (CSS Selectors 4), with a note if their match is uncertain.

Tags, classes, ids and enclosing elements are evaluated. A selector with anything else may match an
element, so its match is uncertain.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lxml import etree
from tinycss2.ast import Node

_LONGEST_CLASSES: Final = 2_000

_NEVER: Final = frozenset(
    {
        *("hover", "active", "focus", "focus-within", "focus-visible", "visited", "target"),
        *("selection", "placeholder", "marker", "backdrop"),
    }
)
"""States that no element has when a mail is opened."""

_ALWAYS: Final = frozenset({"link", "any-link"})
_INSERTED: Final = frozenset({"before", "after"})
_JOINTS: Final = frozenset({">", "+", "~", "||"})


class Names(NamedTuple):
    """The properties of an element that selectors check."""

    tag: str
    ids: frozenset[str]
    classes: frozenset[str]


class Compound(NamedTuple):
    """The part of a selector for one element.

    Attributes:
        child: Whether the element is a child of the previous part's element.
        tag: The tag, or "".
        ids: The ids that the element must have.
        classes: The classes that it must have.
    """

    child: bool
    tag: str
    ids: frozenset[str]
    classes: frozenset[str]

    def fits(self, names: Names) -> bool:
        """Return whether an element matches, regardless of its enclosing elements."""
        return (
            (not self.tag or self.tag == names.tag)
            and self.ids <= names.ids
            and self.classes <= names.classes
        )


class Selector(NamedTuple):
    """A selector.

    Attributes:
        compounds: Its parts; the last one is for the selected elements.
        certain: Whether the parts describe the whole selector.
        inserted: Whether it selects text that a sheet inserts before or after elements.
    """

    compounds: tuple[Compound, ...]
    certain: bool
    inserted: bool

    @property
    def specificity(self) -> tuple[int, int, int]:
        """The precedence among several selectors."""
        return (
            sum(len(one.ids) for one in self.compounds),
            sum(len(one.classes) for one in self.compounds),
            sum(bool(one.tag) for one in self.compounds),
        )

    def matches_around(self, path: Sequence[Names]) -> bool:
        """Return whether all compounds but the last match enclosing elements.

        Args:
            path: The enclosing elements and the element itself, the outermost first.
        """
        # The numbers of matched compounds: by all elements so far, and exactly by the previous one.
        reached, before, last = {0}, set[int](), len(self.compounds) - 1
        for names in path[:-1]:
            before = {
                at + 1
                for at in reached
                if at < last
                and (not self.compounds[at].child or at in before or at == 0)
                and self.compounds[at].fits(names)
            }
            reached = reached | before
        return last in (before if self.compounds[last].child else reached)


def names_of(element: etree._Element) -> Names:
    """Return the properties of an element that selectors check."""
    identity, classes = element.get("id"), element.get("class")
    return Names(
        element.tag.lower(),
        frozenset((identity.strip().lower(),)) if identity else frozenset(),
        # Without a doctype, as in most mail, case is ignored.
        frozenset(classes[:_LONGEST_CLASSES].lower().split()) if classes else frozenset(),
    )


def read_selectors(tokens: Sequence[Node]) -> Iterator[Selector | None]:
    """Yield the selectors of a list; None for one that matches nothing in an opened mail."""
    piece: list[Node] = []
    for token in tokens:
        if token.type == "literal" and token.value == ",":
            yield _Reading().read(piece)
            piece = []
        else:
            piece.append(token)
    yield _Reading().read(piece)


class _Reading:
    """Reads one selector."""

    def __init__(self) -> None:
        self._compounds: list[Compound] = []
        self._certain, self._inserted, self._never = True, False, False
        self._child = False
        self._tag = ""
        self._ids: set[str] = set()
        self._classes: set[str] = set()

    def read(self, tokens: Sequence[Node]) -> Selector | None:
        """Read it from its tokens."""
        before = ""
        for token in tokens:
            mark = token.value if token.type == "literal" else ""
            if token.type in ("whitespace", "comment") or mark in _JOINTS:
                self._close(mark)
            elif mark not in (".", ":"):
                self._simple(token, before)
            before = mark
        self._close("")
        if self._never or not self._compounds:
            return None
        return Selector(tuple(self._compounds), self._certain, self._inserted)

    def _simple(self, token: Node, before: str) -> None:
        """Read a class, an id, a tag, or something else about the same element."""
        if token.type == "hash":
            self._ids.add(token.value.lower())
        elif token.type == "ident" and before == ".":
            self._classes.add(token.lower_value)
        elif before == ":" and token.type in ("ident", "function"):
            self._pseudo(token.lower_value if token.type == "ident" else token.lower_name)
        elif token.type == "ident":
            self._tag = token.lower_value
        else:
            # A universal selector, an attribute, a namespace, or an invalid selector.
            self._tag = self._tag or "*"
            self._certain = self._certain and token.type == "literal" and token.value == "*"

    def _pseudo(self, name: str) -> None:
        self._tag = self._tag or "*"
        if name == "root":
            self._tag = "html"
        elif name in _NEVER:
            self._never = True
        elif name in _INSERTED:
            self._inserted, self._certain = True, False
        elif name not in _ALWAYS:
            self._certain = False

    def _close(self, joint: str) -> None:
        if self._tag or self._ids or self._classes:
            tag = "" if self._tag == "*" else self._tag
            compound = Compound(self._child, tag, frozenset(self._ids), frozenset(self._classes))
            self._compounds.append(compound)
            self._child = False
        self._tag, self._ids, self._classes = "", set(), set()
        if joint == ">":
            self._child = True
        elif joint:
            # Siblings are not evaluated.
            self._compounds, self._certain = [], False
