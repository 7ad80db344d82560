"""Selectors of style sheets (CSS Selectors 4), as far as what they select can be told for certain.

Tags, classes, ids and the elements around are looked at. For anything else a selector counts as one
that may select an element: then it is not certain.
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
"""What nothing is when a mail is opened."""

_ALWAYS: Final = frozenset({"link", "any-link"})
_INSERTED: Final = frozenset({"before", "after"})
_JOINTS: Final = frozenset({">", "+", "~", "||"})


class Names(NamedTuple):
    """What selectors ask about an element."""

    tag: str
    ids: frozenset[str]
    classes: frozenset[str]


class Compound(NamedTuple):
    """The part of a selector that is about one element.

    Attributes:
        child: Whether that is a child of the one that the part before is about.
        tag: Its name, or "".
        ids: What its id has to be.
        classes: Which classes it needs.
    """

    child: bool
    tag: str
    ids: frozenset[str]
    classes: frozenset[str]

    def fits(self, names: Names) -> bool:
        """Say whether an element is one of these, what stands around it aside."""
        return (
            (not self.tag or self.tag == names.tag)
            and self.ids <= names.ids
            and self.classes <= names.classes
        )


class Selector(NamedTuple):
    """A selector.

    Attributes:
        compounds: Its parts, the last one about the elements that it selects.
        certain: Whether they say all of it.
        inserted: Whether it is about text that a sheet inserts before or after them.
    """

    compounds: tuple[Compound, ...]
    certain: bool
    inserted: bool

    @property
    def specificity(self) -> tuple[int, int, int]:
        """Which of several selectors wins."""
        return (
            sum(len(one.ids) for one in self.compounds),
            sum(len(one.classes) for one in self.compounds),
            sum(bool(one.tag) for one in self.compounds),
        )

    def matches_around(self, path: Sequence[Names]) -> bool:
        """Say whether all but its last compound fit elements around another one.

        Args:
            path: The elements that one stands in and itself, the outermost first.
        """
        # How many compounds were matched, by elements so far out, and by the one before exactly.
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
    """Return what selectors ask about an element."""
    identity, classes = element.get("id"), element.get("class")
    return Names(
        element.tag.lower(),
        frozenset((identity.strip().lower(),)) if identity else frozenset(),
        # Without a doctype, as most mail is, case is ignored.
        frozenset(classes[:_LONGEST_CLASSES].lower().split()) if classes else frozenset(),
    )


def read_selectors(tokens: Sequence[Node]) -> Iterator[Selector | None]:
    """Yield the selectors of a list; None for one that selects nothing when a mail is opened."""
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
            # Anything, or an attribute, a namespace, and what is no selector at all.
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
            # What stands beside an element is not looked at.
            self._compounds, self._certain = [], False
