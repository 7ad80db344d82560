"""Converts HTML mail to the lines that a reader sees, and marks uncertain lines.

lxml parses the markup as browsers do. The text is laid out in one pass over the tree: an element
begins a line or is inside one. Lengths, widths and margins have no effect, so that a mail cannot
make the layout large. A quotation by the author's program becomes one line with ">". Content above
a limit is not read, and a line says so.
"""

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Final, NamedTuple

from lxml import etree

from signoff.channels.email.parsing.cascade import Budget, Cascade, Level
from signoff.channels.email.parsing.quote_markers import follows_attribution
from signoff.channels.email.parsing.quoting import HIDDEN, TOO_LONG, Line, has_words
from signoff.channels.email.parsing.selectors import Names, names_of
from signoff.channels.email.parsing.visibility import (
    PROPERTIES,
    STYLED_TAGS,
    Box,
    Look,
    Sight,
    hints_of,
    look_of,
)

_MOST_LINES: Final = 2_000
_MOST_ATTRIBUTIONS: Final = 50
_LONGEST_TEXT: Final = 256 * 1024
_BOXES: Final = frozenset({"checkbox", "radio"})
_LONGEST_ALT: Final = 16
_LONGEST_COMMENT: Final = 4_000

_NEVER_SHOWN: Final = frozenset({"head", "script", "style", "title", "template", "datalist"})
_SHOWN_BY_SOME: Final = frozenset(
    {
        *("textarea", "select", "noscript", "svg", "object", "iframe", "button", "math", "audio"),
        *("video", "canvas", "xmp", "noframes", "noembed", "applet", "dialog", "bdo", "plaintext"),
        *("meter", "progress", "rp"),
    }
)
"""Elements whose text some programs drop, show, or show in another order."""

_BLOCKS: Final = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "caption",
            "center",
            "dd",
            "details",
        ),
        *("dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "hgroup", "html", "legend", "li", "listing", "main"),
        *("menu", "nav", "ol", "p", "pre", "search", "section", "summary", "table", "tbody"),
        *("tfoot", "thead", "tr", "ul"),
    }
)
_SPACED: Final = frozenset({"p", "figure", "h1", "h2", "h3", "h4", "h5", "h6"})
_CELLS: Final = frozenset({"td", "th"})

_MOST_ERRORS: Final = 100
"""How many errors of one page lxml keeps."""
_FORMATTING: Final = frozenset({"a", "b", "big", "font", "i", "s", "small", "strike", "tt", "u"})
"""Elements that the parser ends before a block, and browsers do not."""

_QUOTE_NAMES: Final = frozenset(
    {
        *("gmail_quote", "gmail_quote_container", "gmail_attr", "yahoo_quoted", "protonmail_quote"),
        *("moz-cite-prefix", "moz-forward-container", "zmail_extra", "tutanota_quote", "cm_quote"),
        *("outlookmessageheader", "hey-quote", "freshdesk_quote", "front-blockquote", "nh_quote"),
        *("zimbra_quote", "ms-outlook-mobile-reference-message", "gmx_quote", "quote", "nh_extra"),
        *("messagereplysection", "missive_quote", "edo-original", "aqm-original", "aqm-cite"),
        *("isreplycontent", "replycontent", "history_container", "__aliyun_previous_quote"),
        *("lark-mail-quote", "history-quote-wrapper", "cite2", "clean_bq", "mailcontainer_quote"),
        *("zm_quote", "zoho_quote", "oriquote", "qt_quote", "rc-quote", "quotedtext", "crm_quote"),
        *("gmail_quote_attribution", "yahoo-quoted-begin", "ecxgmail_quote", "mb_quote"),
        *("reply_quote", "spark_quote", "replyheader", "mailru-quote", "intercom-quote"),
    }
)
_CUT_IDS: Final = frozenset(
    {
        *("divrplyfwdmsg", "appendonsend", "olk_src_body_section", "reply-intro"),
        *("isforwardcontent", "mail-editor-reference-message-container", "stopspelling"),
        *("outlookmessageheader", "ms-outlook-mobile-body-separator-line", "originalmessage"),
    }
)
_TABLE_PARTS: Final = frozenset({"table", "tbody", "thead", "tfoot", "tr", "td", "th"})
_MOST_CELLS: Final = 8
_ATTRIBUTION: Final = 12


def lines_of_html(markup: str, budget: Budget | None = None) -> list[Line]:
    """Return the lines of an HTML mail as its reader sees them.

    A quotation leaves a line with ">", which separates it from the person's text below it.

    Args:
        markup: The HTML.
        budget: The budget for reading it, which is reduced here.
    """
    budget = budget or Budget()
    read = markup[: max(0, budget.markup)]
    budget.markup -= len(markup)
    parser, tree = _parsed(read)
    if tree is None:
        return [Line("", doubt=TOO_LONG)] if len(read) < len(markup) else []
    layout = _Layout(tree, budget, _misnested(parser))
    whole = layout.run()
    broken_off = any(error.type_name == "ERR_RESOURCE_LIMIT" for error in parser.error_log)
    if whole and (broken_off or len(read) < len(markup)):
        layout.page.put(Line("", doubt=TOO_LONG))
    return layout.page.lines


def words_of_html(markup: str) -> str:
    """Return all text in an HTML mail, quoted or not, visible or not."""
    _, tree = _parsed(markup[: Budget().markup])
    return "" if tree is None else " ".join(tree.itertext("*"))


def _misnested(parser: etree.HTMLParser) -> frozenset[str] | None:
    """Return the tags of elements that the parser may have ended earlier than browsers do.

    In "<s><p>ok</p></s>" and "<p><s>ok</p><p>no</p>", only browsers strike all words through.

    Returns:
        None if it may be any tag, because there were more errors than lxml keeps.
    """
    if len(parser.error_log) >= _MOST_ERRORS:
        return None
    errors = (one for one in parser.error_log if one.type_name == "ERR_TAG_NAME_MISMATCH")
    return frozenset(one.message.rpartition(" ")[2].lower() for one in errors)


def _parsed(markup: str) -> tuple[etree.HTMLParser, etree._Element | None]:
    # Without huge_tree, lxml drops everything from the 256th level on.
    parser = etree.HTMLParser(encoding="utf-8", remove_pis=True, huge_tree=True)
    try:
        return parser, etree.fromstring(markup.replace("\0", "").encode("utf-8", "replace"), parser)
    except (etree.LxmlError, AssertionError):
        # The document has no elements.
        return parser, None


class _Place(NamedTuple):
    """The position of text in the tree.

    Attributes:
        looks: The look at each level of rules.
        box: The box of its element.
        names: The names of the enclosing elements for selectors, the innermost last.
        apart: Whether it may be quoted.
        counter: The number of the last item in a numbered list.
        skipped: Whether the element is skipped.
    """

    looks: tuple[Look, ...]
    box: Box = Box()
    names: tuple[Names, ...] = ()
    apart: bool = False
    counter: list[int] | None = None
    skipped: bool = False


_INLINE: Final = Box()


class _Page:
    """The lines of the layout so far."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.length = 0
        self._parts: list[str] = []
        self._doubt = ""
        self._apart = False

    def add(self, text: str, *, apart: bool = False, keeps_lines: bool = False) -> None:
        """Add text to the current line."""
        self.length += len(text)
        first, *others = text.split("\n", _MOST_LINES) if keeps_lines else (text,)
        self._add(first, apart=apart)
        for line in others:
            self.end_line(blank=True)
            self._add(line, apart=apart)

    def doubt(self) -> None:
        """Mark the current line as possibly incomplete."""
        self._doubt = HIDDEN

    def end_line(self, *, blank: bool = False) -> None:
        """End the current line.

        Args:
            blank: Whether it counts as a line even if it is empty.
        """
        whole = "".join(self._parts)
        text = " ".join(whole.split())
        # Word's blank lines contain a no-break space.
        if text or blank or self._doubt or "\N{NO-BREAK SPACE}" in whole:
            self.lines.append(Line(text, self._doubt, apart=self._apart))
        self._parts.clear()
        self._doubt, self._apart = "", False

    def gap(self) -> None:
        """Add a blank line, unless there is one already."""
        self.end_line()
        if self.lines and self.lines[-1].text:
            self.lines.append(Line(""))

    def put(self, line: Line) -> None:
        """Add a separate line."""
        self.end_line()
        self.lines.append(line)

    def _add(self, text: str, *, apart: bool) -> None:
        self._parts.append(text)
        self._apart = self._apart or (apart and not text.isspace())


class _Walk:
    """The elements and comments of a page, in document order.

    ``lxml.etree.iterwalk`` is quadratic in the number of adjacent comments.
    """

    def __init__(self, tree: etree._Element) -> None:
        self._tree = tree
        self._skips = False

    def skip_subtree(self) -> None:
        """Skip the content of the element that began last."""
        self._skips = True

    def __iter__(self) -> Iterator[tuple[str, etree._Element]]:
        """Yield each element when it begins (start) and ends (end), and each comment (comment)."""
        inside: list[tuple[etree._Element, Iterator[etree._Element]]] = []
        node: etree._Element | None = self._tree
        while node is not None or inside:
            if node is None:
                ended, _ = inside.pop()
                yield "end", ended
            elif node.tag is etree.Comment:
                yield "comment", node
            elif isinstance(node.tag, str):
                self._skips = False
                yield "start", node
                inside.append((node, iter(()) if self._skips else node.iterchildren()))
            node = next(inside[-1][1], None) if inside else None


class _Layout:
    """Lays a page out."""

    def __init__(
        self, tree: etree._Element, budget: Budget, misnested: frozenset[str] | None
    ) -> None:
        self.page = _Page()
        self._misnested = misnested
        self._budget = budget
        self._cascade = Cascade(list(_sheets(tree)), PROPERTIES, budget)
        # The level that determines the layout.
        self._certain = int(Level.CERTAIN in self._cascade.levels)
        # There may be comments before and after the root element.
        for beside in (*tree.itersiblings(preceding=True), *tree.itersiblings()):
            self._doubt_comment(beside)
        self._walk = _Walk(tree)
        looks = (Look(),) * len(self._cascade.levels)
        self._places = [_Place(looks)]
        self._cited = 0
        self._judged: dict[tuple[object, ...], tuple[Look, Box]] = {}

    def run(self) -> bool:
        """Lay out the page, and return whether it was read to its end."""
        page = self.page
        for event, node in self._walk:
            self._budget.elements -= event != "end"
            if (
                self._budget.elements < 0
                or page.length > _LONGEST_TEXT
                or len(page.lines) > _MOST_LINES
            ):
                page.put(Line("", doubt=TOO_LONG))
                return False
            if event == "start":
                if not self._start(node):
                    self.page.end_line()
                    return False
            elif event == "end":
                self._end(node)
            else:
                self._comment(node)
        self.page.end_line()
        return True

    def _start(self, element: etree._Element) -> bool:
        """Begin an element; return False if the author's words certainly end here."""
        tag = element.tag.lower()
        if tag in _NEVER_SHOWN:
            return self._skip()
        around = self._places[-1]
        place = _Place(around.looks, _INLINE, around.names, apart=around.apart)
        if element.attrib or tag in STYLED_TAGS or not self._cascade.plain:
            names = names_of(element)
            known = _known_names(element, names)
            if not _CUT_IDS.isdisjoint(known):
                return False
            if any(map(_is_warning, known)):
                return self._skip()
            if not _QUOTE_NAMES.isdisjoint(known):
                return self._quote()
            place = self._judge(element, (*around.names, names), place)
        early = self._misnested is None or tag in self._misnested
        early = early or (tag in _FORMATTING and _is_empty(element))
        if early and _hides(place.looks) and not _hides(around.looks):
            self.page.doubt()
        if all(look.gone for look in place.looks):
            return self._skip()
        return self._enter(element, tag, place)

    def _enter(self, element: etree._Element, tag: str, place: _Place) -> bool:
        """Begin a visible element."""
        edged = place.box.edged and _is_alone(element)
        if tag == "blockquote" and (edged or self._is_cited(element)):
            return self._quote()
        if tag in _SHOWN_BY_SOME:
            if any(map(has_words, (*element.itertext(), element.get("srcdoc") or ""))):
                self.page.doubt()
            return self._skip()
        self._break(tag, place.box)
        if tag == "hr" or (place.box.topped and tag not in _TABLE_PARTS):
            self.page.put(Line("", rule=True))
        if place.box.inserts:
            self.page.doubt()
        if tag in ("blockquote", "fieldset") or edged or _is_framed(element, tag, place.box):
            place = place._replace(apart=True)
        if tag == "ol":
            place = place._replace(counter=[_start_of(element)])
        self._mark(element, tag)
        self._places.append(place)
        if element.text:
            self._text(element.text, place)
        return True

    def _end(self, element: etree._Element) -> None:
        place = self._places.pop()
        tag = element.tag.lower()
        if not place.skipped:
            if tag in _CELLS:
                self.page.add(" ")
            elif tag == "q":
                self.page.add('"')
            else:
                self._break(tag, place.box)
            if place.box.bottomed and tag not in _TABLE_PARTS:
                self.page.put(Line("", rule=True))
        if element.tail:
            self._text(element.tail, self._places[-1])

    def _break(self, tag: str, box: Box) -> None:
        """Begin a new line before or after an element if it is a block."""
        if box.block is False or (box.block is None and tag not in _BLOCKS):
            return
        if tag in _SPACED and not box.flush:
            self.page.gap()
        else:
            self.page.end_line()

    def _comment(self, comment: etree._Comment) -> None:
        self._doubt_comment(comment)
        if comment.tail:
            self._text(comment.tail, self._places[-1])

    def _doubt_comment(self, comment: etree._Comment) -> None:
        """Mark text that only some programs treat as a comment: "<!--[if mso]>"."""
        text = (comment.text or "")[:_LONGEST_COMMENT].lstrip()
        condition, _, inside = text.partition("]>")
        # "supportFields" comments contain Word's field codes, not text.
        conditional = condition.startswith("[if") and "supportfields" not in condition.lower()
        if conditional and has_words(_without_tags(inside)):
            self.page.doubt()

    def _skip(self) -> bool:
        self._walk.skip_subtree()
        self._places.append(self._places[-1]._replace(skipped=True))
        return True

    def _quote(self) -> bool:
        self.page.put(Line(">"))
        return self._skip()

    def _is_cited(self, element: etree._Element) -> bool:
        """Return whether a block is a quotation, and not the author's indented text."""
        if (element.get("type") or "").lower() == "cite" or element.get("cite"):
            return True
        self.page.end_line()
        above = [line.text for line in self.page.lines[-_ATTRIBUTION:]]
        last = next((text for text in reversed(above) if text), "")
        if not last.endswith((":", "\N{FULLWIDTH COLON}", ">")) or self._cited > _MOST_ATTRIBUTIONS:
            return False
        self._cited += 1
        return follows_attribution(above)

    def _mark(self, element: etree._Element, tag: str) -> None:
        """Add what a reader sees of an element besides its text."""
        page, around = self.page, self._places[-1]
        if tag == "br":
            page.end_line(blank=True)
        elif tag == "li" and around.counter is not None:
            around.counter[0] += 1
            page.add(f"{around.counter[0]}. ")
        elif tag == "li":
            page.add("* ")
        elif tag == "q":
            page.add('"')
        elif tag == "img":
            alt = element.get("alt") or ""
            if 0 < len(alt) <= _LONGEST_ALT and not any(map(str.isalnum, alt)):
                # Gmail sends emoji as pictures.
                self._text(alt, around)
        elif tag == "input" and (element.get("type") or "").lower() in _BOXES:
            page.add("\N{BALLOT BOX} ")
        elif tag == "input" and has_words(element.get("value") or ""):
            page.doubt()

    def _text(self, text: str, place: _Place) -> None:
        look = place.looks[self._certain]
        if text.isspace():
            self.page.add(text, keeps_lines=look.keeps_lines)
            return
        sights = {one.sight for one in place.looks}
        if sights == {Sight.HIDDEN}:
            return
        if sights != {Sight.SEEN} or self._cascade.exhausted or (look.symbols and _is_word(text)):
            if has_words(text):
                self.page.doubt()
            return
        self.page.add(text, apart=place.apart, keeps_lines=look.keeps_lines)

    def _judge(self, element: etree._Element, path: tuple[Names, ...], place: _Place) -> _Place:
        """Return a place with the style of an element applied."""
        tag, style = path[-1].tag, element.get("style") or ""
        around = place.looks
        if tag == "summary" and len(path) > 1 and path[-2].tag == "details":
            around = self._places[-2].looks
        hints = hints_of(element)
        looks, boxes = [], []
        for level, look in zip(self._cascade.levels, around, strict=True):
            declarations = self._cascade.applied(path, style, level)
            judged = look, _INLINE
            if declarations or hints or tag in STYLED_TAGS:
                key = (tag, hints, id(declarations), look)
                if key not in self._judged:
                    self._judged[key] = look_of(tag, hints, declarations, look)
                judged = self._judged[key]
            looks.append(judged[0])
            boxes.append(judged[1])
        if "\\" in style or "/*" in style:
            # Programs interpret these differently.
            doubted = zip(looks, around, strict=True)
            looks = [look._replace(unsure=True, gone=before.gone) for look, before in doubted]
        if tag == "details" and element.get("open") is None:
            looks = [look._replace(unsure=True) for look in looks]
        box = boxes[self._certain]._replace(
            edged=any(box.edged for box in boxes),
            topped=any(box.topped for box in boxes),
            bottomed=any(box.bottomed for box in boxes),
            framed=any(box.framed for box in boxes),
            inserts=any(box.inserts for box in boxes),
        )
        return place._replace(looks=tuple(looks), box=box, names=path)


def _sheets(tree: etree._Element) -> Iterator[str]:
    """Yield the style sheets, each in its media condition."""
    for element in tree.iter("style"):
        if any(name.startswith("amp") for name in element.attrib):
            # Such a style hides a page only until its script runs.
            continue
        text, media = element.text or "", element.get("media")
        yield f"@media {media} {{{text}}}" if media else text
    for element in tree.iter("link"):
        if (element.get("href") or "").lstrip()[:5].lower() == "data:":
            yield "@import url()"


def _known_names(element: etree._Element, names: Names) -> frozenset[str]:
    """Return the words in the class, id and name; GMX uses a name."""
    words = names.classes | names.ids
    named = element.get("name")
    if named:
        words |= frozenset(named[:200].lower().split())
    if any(word.startswith("x_") for word in words):
        # Outlook adds this prefix to the classes and ids of quoted elements.
        words = frozenset(word.removeprefix("x_") for word in words)
    return words


def _is_warning(name: str) -> bool:
    """Return whether a name belongs to a warning that a mail system inserted."""
    return name.startswith(("pfptbanner", "zjqcmqr"))


def _is_alone(element: etree._Element) -> bool:
    """Return whether a cell is alone in its row; a line between cells belongs to a signature."""
    row = element.getparent()
    if element.tag not in _CELLS or row is None:
        return True
    cells = list(islice(row, _MOST_CELLS + 1))
    return len(cells) <= _MOST_CELLS and not any(
        has_words(text) for cell in cells if cell is not element for text in cell.itertext()
    )


def _is_framed(element: etree._Element, tag: str, box: Box) -> bool:
    """Return whether a block's frame, or a bar in the cell before it, may mark a quotation."""
    if box.framed and (box.block or tag in _BLOCKS or tag in _CELLS) and tag != "body":
        return True
    before = element.getprevious() if tag in _CELLS else None
    if before is None or before.tag not in _CELLS or any(map(has_words, before.itertext())):
        return False
    style = (before.get("style") or "").lower()
    return before.get("bgcolor") is not None or "background" in style or "border" in style


def _is_empty(element: etree._Element) -> bool:
    return not len(element) and not element.text


def _hides(looks: tuple[Look, ...]) -> bool:
    """Return whether some programs may not show text with these looks."""
    return any(look.gone or look.sight is not Sight.SEEN for look in looks)


def _start_of(element: etree._Element) -> int:
    start = (element.get("start") or "1").strip()
    return int(start) - 1 if start.isdecimal() and len(start) < 7 else 0


def _without_tags(text: str) -> str:
    return "".join(piece.partition(">")[2] for piece in f">{text}".split("<"))


def _is_word(text: str) -> bool:
    """Return whether two letters are adjacent; symbols of a symbol font are single."""
    return any(one.isalpha() and other.isalpha() for one, other in pairwise(text))
