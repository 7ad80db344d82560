"""HTML mail as the plain text that a person sees, without what their mail programme quotes.

lxml reads the markup as browsers do and stops at 256 levels; inscriptis lays the text out. Its time
grows with the square of the cells of a table row, so no more elements reach it than a reply can
need. What is hidden is left out, and what is over a cap is cut off: it is asked for again.
"""

from typing import Final

from inscriptis import Inscriptis
from inscriptis.model.config import ParserConfig
from lxml import etree, html

_MOST_ELEMENTS: Final = 4_000
_DEEPEST: Final = 120
_LONGEST_MARKUP: Final = 384 * 1024
_LONGEST_TEXT: Final = 256 * 1024

_UNREAD: Final = frozenset(
    {
        *("head", "script", "style", "title", "textarea", "select", "template", "noscript", "svg"),
        *("object", "iframe", "button", "math", "audio", "video", "canvas", "xmp"),
        # What is struck out is not said.
        *("s", "strike", "del"),
    }
)
_QUOTE_CLASSES: Final = frozenset(
    {
        *("gmail_quote", "gmail_quote_container", "gmail_attr", "yahoo_quoted", "protonmail_quote"),
        *("moz-cite-prefix", "moz-forward-container", "zmail_extra", "tutanota_quote"),
        *("outlookmessageheader", "hey-quote", "freshdesk_quote", "front-blockquote"),
        *("zimbra_quote", "ms-outlook-mobile-reference-message", "gmx_quote", "quote"),
    }
)
_CUT_IDS: Final = frozenset(
    {
        *("divrplyfwdmsg", "appendonsend", "olk_src_body_section", "reply-intro"),
        *("isforwardcontent", "mail-editor-reference-message-container", "stopspelling"),
        *("outlookmessageheader", "ms-outlook-mobile-body-separator-line"),
    }
)
_HIDDEN: Final = (
    *("display:none", "visibility:hidden", "mso-hide:all", "opacity:0;", "max-height:0;"),
    *("max-height:0px;", "font-size:0;", "font-size:0px;", "font-size:0pt;", "font-size:1px;"),
    *("font-size:0.0", "font-size:0.1", "opacity:0.0", "line-height:0;", "left:-9999"),
    *("text-indent:-9999", "text-decoration:line-through", "height:0;overflow:hidden;"),
    *("height:0px;overflow:hidden;", "width:0;overflow:hidden;", "clip:rect(0"),
)
_WHITE: Final = (
    "color:transparent;",
    "color:#fff;",
    "color:#ffffff;",
    "color:white;",
    "color:rgb(255,255,255);",
)
_BACKGROUNDS: Final = ("background:", "background-color:", "background-image:")


def text_of_html(markup: str) -> str:
    """Return the visible text of an HTML mail, one line a paragraph.

    A quotation leaves a line with ">" behind, which tells what the person wrote below it from it.
    """
    encoded = markup[:_LONGEST_MARKUP].replace("\0", "").encode("utf-8", "replace")
    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        tree = html.document_fromstring(encoded, parser=parser)
    except (etree.LxmlError, AssertionError):
        # There is no element in it.
        return ""
    _prune(tree)
    _cut(tree)
    text = Inscriptis(tree, ParserConfig(display_links=False, display_images=False)).get_text()
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def _cut(tree: html.HtmlElement) -> None:
    """Take out what is quoted, hidden or never shown, and all below the mark of a quotation."""
    for element in [one for one in tree.iter() if isinstance(one.tag, str)]:
        if element.getparent() is None or element.tag == "body":
            # The whole, or part of what was taken out already.
            continue
        names = _names(element)
        if not _CUT_IDS.isdisjoint(names):
            _drop_from(element)
            return
        if element.tag == "blockquote" or not _QUOTE_CLASSES.isdisjoint(names):
            _replace(element, ">")
        elif element.tag in _UNREAD or _is_hidden(element):
            _replace(element, "")


def _prune(tree: html.HtmlElement) -> None:
    """Cut off what is too deep, and everything after the most elements and text there may be."""
    length, depth = 0, 0
    for seen, (event, element) in enumerate(etree.iterwalk(tree, events=("start", "end"))):
        depth += 1 if event == "start" else -1
        length += len((element.text if event == "start" else element.tail) or "")
        if seen > 2 * _MOST_ELEMENTS or length > _LONGEST_TEXT or depth > _DEEPEST:
            _drop_from(element, itself=event == "start")
            return


def _replace(element: html.HtmlElement, text: str) -> None:
    """Put a line with this text in the place of an element; what follows it stays."""
    tail = element.tail
    element.clear()
    element.tag, element.text, element.tail = "div", text, tail
    if not text:
        element.tag = "span"


def _drop_from(element: html.HtmlElement, *, itself: bool = True) -> None:
    """Take out everything in the document after an element, and mostly the element itself."""
    at: html.HtmlElement | None = element
    kept = 0 if itself else 1
    while at is not None and (parent := at.getparent()) is not None:
        at.tail = None
        del parent[parent.index(at) + kept :]
        at, kept = parent, 1


def _names(element: html.HtmlElement) -> set[str]:
    # Outlook puts "x_" before the classes and ids of what it quotes; GMX has a name.
    words = " ".join(element.get(key) or "" for key in ("class", "id", "name"))[:2_000]
    return {word.removeprefix("x_") for word in words.casefold().split()}


def _is_hidden(element: html.HtmlElement) -> bool:
    if element.get("hidden") is not None:
        return True
    style = _style(element)
    if any(sign in style for sign in _HIDDEN):
        return True
    white = any(style.startswith(sign) or f";{sign}" in style for sign in _WHITE)
    white = white or (element.get("color") or "").casefold() in ("white", "#fff", "#ffffff")
    return white and not any(map(_has_background, (element, *element.iterancestors())))


def _has_background(element: html.HtmlElement) -> bool:
    style = _style(element)
    return bool(element.get("bgcolor")) or any(sign in style for sign in _BACKGROUNDS)


def _style(element: html.HtmlElement) -> str:
    style = "".join((element.get("style") or "")[:8_192].split()).casefold()
    return f"{style.replace('!important', '')};" if style else ""
