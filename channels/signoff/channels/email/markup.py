"""HTML mail as the plain text that a person sees, without what their mail programme quotes.

Not a browser, and not the standard library's parser, whose time grows with the square of some
inputs: one index that only moves forwards. Whatever is left open (a comment, a tag, a quotation)
swallows the rest, and what was swallowed is asked for again.
"""

import html
from typing import Final

_LINE: Final = frozenset(
    {
        *("address", "article", "aside", "center", "dd", "div", "dl", "dt", "footer", "form", "h1"),
        *("h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "ol", "pre", "section"),
        *("table", "tbody", "td", "tr", "ul"),
    }
)
_VOID: Final = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"}
)
_RAW: Final = frozenset(
    {"script", "style", "title", "textarea", "xmp", "noscript", "template", "svg"}
)
_QUOTE_CLASSES: Final = frozenset(
    {
        *("gmail_quote", "gmail_quote_container", "gmail_attr", "yahoo_quoted", "protonmail_quote"),
        *("moz-cite-prefix", "moz-forward-container", "zmail_extra", "tutanota_quote"),
        *("outlookmessageheader", "hey-quote", "freshdesk_quote", "front-blockquote"),
    }
)
_CUT_IDS: Final = frozenset(
    {
        *("divrplyfwdmsg", "appendonsend", "olk_src_body_section", "reply-intro"),
        *("isforwardcontent", "mail-editor-reference-message-container"),
    }
)
_HIDDEN: Final = ("display:none", "visibility:hidden", "mso-hide:all")
_ASCII_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_LONGEST_TAG: Final = 8_192


def text_of_html(markup: str) -> str:
    """Return the visible text of an HTML mail, one line a paragraph.

    A quotation leaves a line with ">" behind, which tells what the person wrote below it from it.
    """
    return _Reader(markup).read()


class _Reader:
    """One forward walk over the markup."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        # Same length as the markup, unlike str.lower, so that both can be indexed alike.
        self._lower = markup.translate(_ASCII_LOWER)
        self._at = 0
        self._text: list[str] = []
        self._skipped = ""
        self._depth = 0

    def read(self) -> str:
        """Walk to the end and return the text."""
        while 0 <= self._at < len(self._markup):
            opened = self._markup.find("<", self._at)
            self._write(self._markup[self._at : opened if opened >= 0 else len(self._markup)])
            if opened < 0:
                break
            self._at = self._construct(opened)
        lines = "".join(self._text).split("\n")
        return "\n".join(" ".join(line.split()) for line in lines)

    def _construct(self, at: int) -> int:
        """Handle what begins with "<" and return where the text goes on, or -1 for nowhere."""
        if self._markup.startswith("<!--", at):
            end = self._markup.find("-->", at + 4)
            return end + 3 if end >= 0 else -1
        following = self._markup[at + 1 : at + 2]
        if not (following.isalpha() or following in tuple("/!?")):
            self._write("<")
            return at + 1
        end = self._end_of_tag(at + 1)
        if end < 0:
            return -1
        tag = self._lower[at + 1 : min(end, at + _LONGEST_TAG)]
        name = tag.lstrip("/").split(None, 1)[0].rstrip("/") if tag.strip("/ \t\r\n") else ""
        if name in _RAW and not tag.startswith("/"):
            closing = self._lower.find(f"</{name}", end)
            return closing if closing >= 0 else -1
        return self._tag(name, tag, end + 1)

    def _end_of_tag(self, at: int) -> int:
        """Return where the tag closes; a ">" inside a quoted attribute does not close it."""
        quote = ""
        for place in range(at, len(self._markup)):
            mark = self._markup[place]
            if quote:
                quote = "" if mark == quote else quote
            elif mark == ">":
                return place
            elif mark in "\"'" and self._markup[place - 1] in "= ":
                quote = mark
        return -1

    def _tag(self, name: str, tag: str, after: int) -> int:
        closing = tag.startswith("/")
        if self._depth:
            if name == self._skipped and not tag.endswith("/"):
                self._depth += -1 if closing else 1
            return after
        if not closing and name not in _VOID:
            words = _words(tag)
            if not _CUT_IDS.isdisjoint(words):
                return -1
            quotes = name == "blockquote" or not _QUOTE_CLASSES.isdisjoint(words)
            if quotes or _is_hidden(tag):
                self._skipped, self._depth = name, 1
                self._text.append("\n>\n" if quotes else "")
                return after
        if name == "br":
            self._text.append("\n")
        elif name == "p":
            self._break(2)
        elif name in _LINE:
            self._break(1)
        return after

    def _write(self, text: str) -> None:
        if text and not self._depth:
            self._text.append(html.unescape(text).replace("\n", " ").replace("\r", " "))

    def _break(self, wanted: int) -> None:
        """End the line, and leave a blank one where two breaks are wanted."""
        have = 0
        for piece in reversed(self._text[-4:]):
            if piece.strip(" \t\xa0\n"):
                break
            have += piece.count("\n")
        self._text.append("\n" * max(0, wanted - have))


def _words(tag: str) -> set[str]:
    # Outlook puts "x_" before the classes and ids of what it quotes.
    words = tag.replace('"', " ").replace("'", " ").replace("=", " ").split()
    return {word.removeprefix("x_") for word in words}


def _is_hidden(tag: str) -> bool:
    close = tag.replace(" ", "")
    return any(sign in close for sign in _HIDDEN) or "hidden" in tag.split()[1:]
