"""Judges by the styles of its elements whether a reader of an HTML mail sees a text.

Every mail program supports a few properties that certainly hide text. There are many more ways to
hide text (the color of the background, a font of one pixel, a box that clips, a place off the page,
a filter), and programs differ in their support. They have no use in a line that a person wrote, so
the visibility of such text counts as uncertain.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple

from lxml import etree
from tinycss2.ast import Node
from tinycss2.color4 import parse_color

from signoff.channels.email.parsing.cascade import Declaration

_FAINTEST: Final = 1.5
"""The contrast to the background (WCAG 2, 1.4.3) from which text counts as visible."""

_LONGEST_COLOR: Final = 64
_PAGE: Final = 600.0
_FARTHEST: Final = 50.0
"""The most pixels by which text may be moved; Word's lists move it by half of that."""

_FARTHEST_ON_PAGE: Final = 1_500.0
"""The same for moves that only enlarge the page."""

_SMALLEST: Final = 5.0
_PALEST: Final = 0.35
_PIXELS: Final = {
    "px": 1.0,
    "pt": 4 / 3,
    "pc": 16.0,
    "in": 96.0,
    "cm": 96 / 2.54,
    "mm": 9.6 / 2.54,
    "q": 2.4 / 2.54,
    "rem": 16.0,
    "vw": 8.0,
    "vh": 8.0,
    "vmin": 8.0,
    "vmax": 8.0,
}
_OF_FONT: Final = {"em": 1.0, "ex": 0.5, "ch": 0.5, "lh": 1.2, "%": 0.01}
_SIZES: Final = {
    "xx-small": 9.0,
    "x-small": 10.0,
    "small": 13.0,
    "medium": 16.0,
    "large": 18.0,
    "x-large": 24.0,
    "xx-large": 32.0,
    "xxx-large": 48.0,
}
_FONT_TAG_SIZES: Final = (10.0, 13.0, 16.0, 18.0, 24.0, 32.0, 48.0)
_SMALLER_TAGS: Final = frozenset({"small", "sub", "sup"})
_SMALLER: Final = 5 / 6
_STRUCK_TAGS: Final = frozenset({"s", "strike", "del"})

_SYSTEM_COLORS: Final = {
    **dict.fromkeys(("windowtext", "canvastext", "buttontext", "infotext", "menutext"), "black"),
    **dict.fromkeys(("window", "canvas", "field", "infobackground"), "white"),
}
_GLOBAL: Final = frozenset(
    {"inherit", "initial", "unset", "revert", "revert-layer", "auto", "none"}
)
_HARMLESS: Final = {
    **dict.fromkeys(
        (
            *("transform", "translate", "rotate", "clip", "clip-path", "mask", "mask-image"),
            *("filter", "animation", "animation-name", "text-security", "box-reflect", "mso-hide"),
            *("line-clamp", "offset-path", "mask-box-image", "shape-inside"),
        ),
        frozenset[str](),
    ),
    "scale": frozenset({"1"}),
    "mix-blend-mode": frozenset({"normal"}),
    "content-visibility": frozenset({"visible"}),
    "unicode-bidi": frozenset({"normal", "embed", "isolate", "plaintext"}),
    "writing-mode": frozenset({"horizontal-tb", "lr", "lr-tb"}),
    "flex-direction": frozenset({"row", "column"}),
    "flex-flow": frozenset({"row", "column", "wrap", "nowrap"}),
    "order": frozenset({"0"}),
    "content": frozenset({"normal"}),
    "inserted": frozenset({"normal", '""', "open-quote", "close-quote", "no-close-quote"}),
    "position": frozenset({"static", "relative", "sticky"}),
}
"""The harmless values of properties whose other values hide or reorder text."""

_LINED: Final = frozenset(
    {"solid", "double", "dashed", "dotted", "groove", "ridge", "inset", "outset"}
)
_SIDES: Final = ("top", "right", "bottom", "left")
_SIDE_NAMES: Final = {
    **{side: side for side in _SIDES},
    "inline-start": "left",
    "inline-end": "right",
    "block-start": "top",
    "block-end": "bottom",
}
_PLACES: Final = ((0, 0, 0, 0), (0, 1, 0, 1), (0, 1, 2, 1), (0, 1, 2, 3))
_BORDERS: Final = frozenset(
    {
        *("border", "border-style", "border-width"),
        *(f"border-{side}{kind}" for side in _SIDE_NAMES for kind in ("", "-style", "-width")),
    }
)
_BLOCKS: Final = frozenset({"block", "list-item", "table", "flex", "grid", "flow-root"})
_DISPLAYS: Final = _BLOCKS | frozenset(
    {
        *("inline", "inline-block", "inline-table", "inline-flex", "inline-grid", "contents"),
        *("table-row", "table-cell", "table-row-group", "table-header-group", "table-caption"),
        *("table-footer-group", "ruby", "run-in", "-webkit-box", "inherit", "initial", "unset"),
    }
)
_SYMBOL_FONTS: Final = ("wingdings", "webdings", "symbol", "marlett", "zapfdingbats")

_MARGINS: Final = frozenset(
    {
        *("margin", "margin-top", "margin-right", "margin-bottom", "margin-left"),
        *("margin-inline-start", "margin-block-start"),
    }
)

RGB = tuple[float, float, float]
_BLACK: Final[RGB] = (0.0, 0.0, 0.0)
_WHITE: Final[RGB] = (1.0, 1.0, 1.0)
_YELLOW: Final[RGB] = (1.0, 1.0, 0.0)
_LINK: Final[RGB] = (0.0, 0.0, 0.93)


class Sight(Enum):
    """Whether text is visible."""

    SEEN = auto()
    UNSURE = auto()
    """It depends on the reader's program, or is uncertain."""
    HIDDEN = auto()


class Look(NamedTuple):
    """The look of the text in an element, which inner elements inherit.

    Attributes:
        color: The color of the text.
        paper: The background color.
        link: The color of links.
        size: The font size in pixels.
        opacity: The opacity, from 0 to 1.
        visible: Whether `visibility` shows it.
        unsure: Whether something may hide it.
        gone: Whether something certainly hides it.
        keeps_lines: Whether its line ends are preserved.
        symbols: Whether its font shows symbols instead of letters.
    """

    color: RGB = _BLACK
    paper: RGB = _WHITE
    link: RGB = _LINK
    size: float = 16.0
    opacity: float = 1.0
    visible: Sight = Sight.SEEN
    unsure: bool = False
    gone: bool = False
    keeps_lines: bool = False
    symbols: bool = False

    @property
    def sight(self) -> Sight:
        """Whether text in the element is visible."""
        if self.gone or self.visible is Sight.HIDDEN:
            return Sight.HIDDEN
        faint = self.size < _SMALLEST or self.opacity < _PALEST
        if self.unsure or faint or self.visible is Sight.UNSURE:
            return Sight.UNSURE
        return Sight.SEEN if _contrast(self.color, self.paper) >= _FAINTEST else Sight.UNSURE


class Box(NamedTuple):
    """The box of an element on the page.

    Attributes:
        block: Whether it begins a line; None if its tag decides.
        flush: Whether it lacks space above and below.
        edged: Whether it has a border at its left or right side, but not around it.
        framed: Whether it is indented, with a border or a background of its own.
        inserts: Whether a style sheet inserts words into it.
        topped: Whether it has a border at its top, but not around it.
        bottomed: Whether it has a border at its bottom, but not around it.
    """

    block: bool | None = None
    flush: bool = False
    edged: bool = False
    framed: bool = False
    inserts: bool = False
    topped: bool = False
    bottomed: bool = False


STYLED_TAGS: Final = _SMALLER_TAGS | _STRUCK_TAGS | {"mark", "pre", "listing", "details", "summary"}
"""Elements with their own look."""

Hints = tuple[tuple[str, str], ...]
"""The attributes of an element that affect its look."""

_HINTS: Final = (
    *("color", "size", "face", "bgcolor", "background", "hidden", "popover"),
    *("text", "link", "href"),
)


def hints_of(element: etree._Element) -> Hints:
    """Return the attributes of an element that affect its look."""
    given = element.attrib
    return tuple((name, given[name]) for name in _HINTS if name in given) if given else ()


def look_of(
    tag: str, hints: Hints, declarations: Sequence[Declaration], around: Look
) -> tuple[Look, Box]:
    """Return the look and the box of an element.

    Args:
        tag: The tag.
        hints: Its attributes that affect the look.
        declarations: Its style; later declarations take precedence.
        around: The look of the enclosing element.
    """
    judged = _Judgement(around)
    judged.hints(tag, dict(hints))
    for name, value, _ in declarations:
        judged.read(name, value)
    return judged.look(), judged.box()


class _Judgement:
    """Reads the style of one element."""

    def __init__(self, around: Look) -> None:
        self._around = around
        self._color, self._paper, self._link = around.color, around.paper, around.link
        self._size, self._opacity, self._visible = around.size, around.opacity, around.visible
        self._unsure = around.unsure
        # By `display`, by the attribute `hidden`, and by strike-through.
        self._undisplayed = self._hidden = self._struck = False
        self._keeps_lines, self._symbols = around.keeps_lines, around.symbols
        self._block: bool | None = None
        self._clips = self._sized = self._narrow = self._nowrap = False
        self._shadowed = self._inserts = False
        self._indent = self._inset = 0.0
        self._margins = dict.fromkeys(("top", "bottom"), 16.0)
        self._lined = dict.fromkeys(_SIDES, False)
        self._wide = dict.fromkeys(_SIDES, True)

    def look(self) -> Look:
        """Return the look of its text."""
        clipped = self._clips and (self._sized or (self._narrow and self._nowrap))
        moved = self._indent + self._inset
        outdented = not -_FARTHEST <= moved <= _FARTHEST_ON_PAGE
        return Look(
            self._color,
            self._paper,
            self._link,
            self._size,
            self._opacity,
            self._visible,
            self._unsure or clipped or outdented,
            self._around.gone or self._undisplayed or self._hidden or self._struck,
            self._keeps_lines,
            self._symbols,
        )

    def box(self) -> Box:
        """Return its box."""
        top, right, bottom, left = (self._lined[side] and self._wide[side] for side in _SIDES)
        return Box(
            self._block,
            flush=all(margin < 1 for margin in self._margins.values()),
            edged=left != right and not (top and bottom),
            framed=self._shadowed
            or (
                self._inset > 0
                and (self._paper != self._around.paper or (top and right and bottom and left))
            ),
            inserts=self._inserts,
            topped=top and not (bottom or left or right),
            bottomed=bottom and not (top or left or right),
        )

    def hints(self, tag: str, given: Mapping[str, str]) -> None:
        """Apply a tag and its attributes."""
        if tag in _SMALLER_TAGS:
            self._size = self._size * _SMALLER
        elif tag in ("pre", "listing"):
            self._keeps_lines = True
        elif tag in _STRUCK_TAGS:
            self._struck = True
        elif tag == "mark":
            self._color, self._paper = _BLACK, _YELLOW
        elif tag == "a" and "href" in given:
            self._color = self._link
        elif tag == "font":
            self._font_tag(given)
        elif tag == "body":
            self._color = self._legacy_color(given.get("text", ""), self._color)
            self._link = self._legacy_color(given.get("link", ""), self._link)
        if "bgcolor" in given:
            self._paper = self._legacy_color(given["bgcolor"], self._paper)
        if "background" in given and tag != "body":
            self._doubt()
        if "hidden" in given:
            self._hidden = True
        if "popover" in given:
            self._doubt()

    def read(self, name: str, value: Sequence[Node]) -> None:
        """Read a declaration."""
        words = [_word(one) for one in value]
        if any(word == "var(" for word in words):
            # The value of the variable is set elsewhere.
            self._doubt()
            return
        harmless = _HARMLESS.get(name)
        if name == "inserted":
            self._inserts = not all(
                one in _HARMLESS[name] or one in _GLOBAL or _is_ornament(token)
                for token, one in zip(value, words, strict=True)
            )
        if harmless is not None:
            if not all(word in harmless or word in _GLOBAL for word in words):
                self._doubt()
        elif name in _BORDERS and value:
            self._border(name, value, words)
        elif name.startswith("margin"):
            self._margin(name, value)
        else:
            handler = _HANDLERS.get(name)
            if handler is not None and value:
                handler(self, value, words)

    def display(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `display`."""
        if words == ["none"]:
            self._undisplayed = True
        elif words[0] in _DISPLAYS and not self._hidden:
            self._undisplayed, self._block = False, words[0] in _BLOCKS
        else:
            # An unknown value, or one that only some programs prefer to the attribute `hidden`.
            self._undisplayed = self._hidden = False
            self._doubt()

    def visibility(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `visibility`, which inner elements may override."""
        known = {"visible": Sight.SEEN, "hidden": Sight.HIDDEN, "collapse": Sight.HIDDEN}
        if words[0] in known:
            self._visible = known[words[0]]
        elif words[0] not in _GLOBAL:
            self._visible = Sight.UNSURE

    def opacity(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `opacity`."""
        amount = _number(value[0])
        if amount is None and words[0] not in _GLOBAL:
            self._doubt()
        elif amount is not None:
            self._opacity = self._around.opacity * min(1.0, max(0.0, amount))

    def zoom(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `zoom`."""
        amount = _number(value[0])
        if amount is not None:
            self._size = self._size * amount
        elif words[0] not in _GLOBAL and words[0] != "normal":
            self._doubt()

    def color(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `color`, and the color of outlined letters."""
        if len(words) == 1 and words[0] in _GLOBAL:
            self._color = self._around.color if words[0] != "initial" else _BLACK
            return
        color = _color(value[0], self._paper)
        if color is not None:
            self._color = color
        elif words[0].endswith("("):
            self._doubt()

    def background(self, value: Sequence[Node], words: list[str]) -> None:
        """Read a background; the content of an image is not known."""
        for token, word in zip(value, words, strict=True):
            color = _color(token, self._around.paper)
            if color is not None:
                self._paper = color
            elif word.endswith("(") or token.type == "url":
                self._doubt()

    def font(self, value: Sequence[Node], words: list[str]) -> None:
        """Read the size in `font`: the first of its lengths."""
        for at, (token, word) in enumerate(zip(value, words, strict=True)):
            weight = token.type == "number" and _number(token) not in (0, None) and at == 0
            if (
                token.type in ("dimension", "percentage", "number") and not weight
            ) or word in _SIZES:
                self.font_size(value[at:], words[at:])
                break
        self.font_family(value, words)

    def font_size(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `font-size`."""
        base, word = self._around.size, words[0]
        size = _length(value[0], base)
        if size is not None:
            self._size = size
        elif word in _SIZES:
            self._size = _SIZES[word]
        elif word in ("smaller", "larger"):
            self._size = base * _SMALLER if word == "smaller" else base / _SMALLER
        elif word.endswith("("):
            self._doubt()

    def font_family(self, value: Sequence[Node], words: list[str]) -> None:
        """Read the first font of `font-family`."""
        first = next((one.value for one in value if one.type in ("ident", "string")), "")
        self._symbols = str(first).lower().startswith(_SYMBOL_FONTS)

    def line_height(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `line-height`; lines without height overlap."""
        token = value[0]
        amount = _number(token) if token.type == "number" else None
        height = amount * self._size if amount is not None else _length(token, self._size)
        plain = height is None or _SMALLEST <= height <= _FARTHEST_ON_PAGE
        if words[0].endswith("(") or not plain:
            self._doubt()

    def spacing(self, value: Sequence[Node], words: list[str]) -> None:
        """Read the space between letters or words."""
        space = _length(value[0], self._size)
        if words[0].endswith("(") or (space is not None and not -2 <= space <= 60):
            self._doubt()

    def indent(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `text-indent`, which lists balance with a margin."""
        length = _distance(value[0], self._size)
        if words[0].endswith("("):
            self._doubt()
        self._indent = length or 0.0

    def padding(self, value: Sequence[Node], words: list[str]) -> None:
        """Read the padding on the left, or on all sides."""
        lengths = [_distance(one, self._size) or 0.0 for one in value]
        if any(length > _FARTHEST_ON_PAGE for length in lengths):
            self._doubt()
        self._inset += lengths[-1] if len(lengths) in (1, 4) else lengths[min(1, len(lengths) - 1)]

    def padding_top(self, value: Sequence[Node], words: list[str]) -> None:
        """Read the padding above."""
        if (_distance(value[0], self._size) or 0.0) > _FARTHEST_ON_PAGE:
            self._doubt()

    def shadow(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `box-shadow`, which may draw a border at a side."""
        self._shadowed = any(word not in _GLOBAL for word in words)

    def offset(self, value: Sequence[Node], words: list[str]) -> None:
        """Read the distance by which it is moved."""
        for token, word in zip(value, words, strict=True):
            length = _distance(token, self._size)
            if word.endswith("(") or (length is not None and abs(length) > _FARTHEST):
                self._doubt()

    def white_space(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `white-space`."""
        if words[0] not in _GLOBAL:
            self._keeps_lines = words[0].startswith(("pre", "break-spaces"))
            self._nowrap = words[0] in ("nowrap", "pre")

    def decoration(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `text-decoration`; struck-through text does not count."""
        self._struck = "line-through" in words

    def overflow(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `overflow`."""
        self._clips = self._clips or any(word not in _GLOBAL | {"visible"} for word in words)

    def height(self, value: Sequence[Node], words: list[str]) -> None:
        """Read a height."""
        length = _length(value[0], self._size)
        self._sized = self._sized or length is not None or words[0].endswith("(")
        if length is not None and length <= 0:
            self._doubt()

    def width(self, value: Sequence[Node], words: list[str]) -> None:
        """Read a width."""
        length = _length(value[0], self._size)
        if value[0].type != "percentage" or length == 0:
            self._narrow = self._narrow or length is not None
            self._sized = self._sized or (length is not None and length < 40)

    def all(self, value: Sequence[Node], words: list[str]) -> None:
        """Read `all`, which resets inherited properties."""
        if words[0] in ("initial", "revert"):
            self._doubt()

    def _margin(self, name: str, value: Sequence[Node]) -> None:
        lengths = [_distance(one, self._size) or 0.0 for one in value]
        if not lengths:
            return
        if not all(-_FARTHEST <= length <= _FARTHEST_ON_PAGE for length in lengths):
            self._doubt()
        if name == "margin":
            self._margins["top"] = lengths[0]
            self._margins["bottom"] = lengths[2] if len(lengths) > 2 else lengths[0]
            self._inset += lengths[3] if len(lengths) == 4 else lengths[min(1, len(lengths) - 1)]
        elif name in ("margin-left", "margin-inline-start"):
            self._inset += lengths[0]
        else:
            self._margins[_SIDE_NAMES.get(name.removeprefix("margin-"), "top")] = lengths[0]

    def _border(self, name: str, value: Sequence[Node], words: list[str]) -> None:
        rest = name.removeprefix("border").strip("-")
        kind = next((kind for kind in ("style", "width") if rest.endswith(kind)), "")
        side = rest.removesuffix(kind).strip("-")
        for at, place in enumerate(_SIDES):
            if side and _SIDE_NAMES[side] != place:
                continue
            # A property for all sides has one to four values.
            each = kind and not side
            if kind != "width":
                told = [words[_PLACES[len(words) - 1][at]]] if each and len(words) < 5 else words
                self._lined[place] = any(word in _LINED for word in told)
            if kind != "style":
                widths = [value[_PLACES[len(value) - 1][at]]] if each and len(value) < 5 else value
                self._wide[place] = all(_length(one, self._size) != 0 for one in widths)

    def _font_tag(self, given: Mapping[str, str]) -> None:
        if "color" in given:
            self._color = self._legacy_color(given["color"], self._color)
        size = given.get("size", "").strip()
        if size.lstrip("+-").isdecimal() and len(size) < 5:
            steps = int(size) + (3 if size[0] in "+-" else 0)
            self._size = _FONT_TAG_SIZES[min(7, max(1, steps)) - 1]
        self._symbols = given.get("face", "").strip().lower().startswith(_SYMBOL_FONTS)

    def _legacy_color(self, value: str, known: RGB) -> RGB:
        """Return the color in an attribute, or the known color if it is invalid."""
        value = value[:_LONGEST_COLOR].strip()
        color = _color(value, self._around.paper) or _color(f"#{value}", self._around.paper)
        if color is None and value and value.lower() not in ("transparent", "inherit"):
            self._doubt()
        return color or known

    def _doubt(self) -> None:
        self._unsure = True


_HANDLERS: Final[dict[str, Callable[[_Judgement, Sequence[Node], list[str]], None]]] = {
    "display": _Judgement.display,
    "visibility": _Judgement.visibility,
    "opacity": _Judgement.opacity,
    "zoom": _Judgement.zoom,
    "color": _Judgement.color,
    "text-fill-color": _Judgement.color,
    **dict.fromkeys(("background", "background-color", "background-image"), _Judgement.background),
    "font": _Judgement.font,
    "font-size": _Judgement.font_size,
    "font-family": _Judgement.font_family,
    "line-height": _Judgement.line_height,
    **dict.fromkeys(("letter-spacing", "word-spacing"), _Judgement.spacing),
    "text-indent": _Judgement.indent,
    **dict.fromkeys(("padding", "padding-left", "padding-inline-start"), _Judgement.padding),
    **dict.fromkeys(("padding-top", "padding-block-start"), _Judgement.padding_top),
    "box-shadow": _Judgement.shadow,
    **dict.fromkeys(
        ("top", "left", "right", "bottom", "inset", "inset-inline-start", "inset-block-start"),
        _Judgement.offset,
    ),
    "white-space": _Judgement.white_space,
    **dict.fromkeys(("text-decoration", "text-decoration-line"), _Judgement.decoration),
    **dict.fromkeys(("overflow", "overflow-x", "overflow-y"), _Judgement.overflow),
    **dict.fromkeys(("height", "max-height", "block-size", "max-block-size"), _Judgement.height),
    **dict.fromkeys(("width", "max-width", "inline-size", "max-inline-size"), _Judgement.width),
    "all": _Judgement.all,
}

PROPERTIES: Final = frozenset(_HARMLESS) | _BORDERS | _MARGINS | frozenset(_HANDLERS)
"""The properties that are read."""


def _word(token: Node) -> str:
    """Return a token as a word for comparison: "none", "rgb(", "12px", '""'."""
    kind = token.type
    if kind == "ident":
        return str(token.lower_value)
    if kind == "function":
        return f"{token.lower_name}("
    return (
        str(token.serialize()) if kind in ("number", "percentage", "dimension", "string") else kind
    )


def _is_ornament(token: Node) -> bool:
    """Return whether a token is a string without letters and digits."""
    return token.type == "string" and not any(map(str.isalnum, token.value))


def _number(token: Node) -> float | None:
    """Return a number, or a percentage as a fraction."""
    if token.type == "percentage":
        return float(token.value) / 100
    return float(token.value) if token.type == "number" else None


def _distance(token: Node, size: float) -> float | None:
    """Return a length in pixels; a percentage is relative to the page."""
    return _length(token, _PAGE if token.type == "percentage" else size)


def _length(token: Node, size: float) -> float | None:
    """Return a length in pixels for a font size; None if it is not a simple length."""
    kind = token.type
    if kind == "number":
        return float(token.value)
    if kind == "percentage":
        return float(token.value) / 100 * size
    if kind != "dimension":
        return None
    unit = token.lower_unit
    factor = _PIXELS.get(unit) or _OF_FONT.get(unit, 0.0) * size
    return float(token.value) * factor if factor else None


def _color(value: str | Node, paper: RGB) -> RGB | None:
    """Return a color on a background color; None if it is not a color."""
    name = value if isinstance(value, str) else getattr(value, "lower_value", "")
    try:
        found = parse_color(_SYSTEM_COLORS.get(str(name).lower(), value))
        if found is None or isinstance(found, str):
            return None
        red, green, blue, alpha = found.to("srgb")
    except (NotImplementedError, ValueError, TypeError, ArithmeticError):
        return None
    mixed = (
        (one or 0.0) * alpha + under * (1 - alpha)
        for one, under in zip((red, green, blue), paper, strict=True)
    )
    first, second, third = (min(1.0, max(0.0, one)) for one in mixed)
    return first, second, third


@lru_cache(maxsize=512)
def _contrast(one: RGB, other: RGB) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: RGB) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
