"""Reads other formats in which a mail may repeat its text: enriched text and RTF.

Hardly any program shows them if plain text or HTML exists, so only their line ends are kept.
"""

from typing import Final

ENRICHED: Final = frozenset({"text/enriched", "text/richtext"})
RTF: Final = frozenset({"text/rtf", "application/rtf", "text/x-rtf", "application/x-rtf"})
HTML: Final = frozenset(
    {"text/html", "text/x-amp-html", "text/watch-html", "application/xhtml+xml"}
)

_ENRICHED_UNSHOWN: Final = frozenset({"param", "comment"})
_ENRICHED_BREAKS: Final = frozenset({"nl", "np", "paragraph"})
_RTF_UNSHOWN: Final = frozenset(
    {
        *("fonttbl", "colortbl", "stylesheet", "info", "pict", "object", "listtable", "generator"),
        *("listoverridetable", "rsidtbl", "xmlnstbl", "themedata", "datastore", "header", "footer"),
        *("mmathpr", "filetbl", "revtbl", "fldinst"),
    }
)
_RTF_MARKS: Final = {
    "par": "\n",
    "line": "\n",
    "sect": "\n",
    "page": "\n",
    "row": "\n",
    "tab": " ",
    "cell": " ",
    "emdash": "—",
    "endash": "–",
    "lquote": "‘",
    "rquote": "’",
    "ldblquote": "“",
    "rdblquote": "”",
    "bullet": "•",
}
_RTF_SIGNS: Final = {"~": " ", "_": "-", "\n": "\n", "\r": "\n"}
_LONGEST: Final = 128 * 1024
_DEEPEST: Final = 200


def text_of_enriched(text: str) -> str:
    """Return enriched text (RFC 1896) as plain text: "<<" is a bracket, one line end a space."""
    shown: list[str] = []
    hidden = 0
    pieces = text[:_LONGEST].replace("\r\n", "\n").replace("<<", "\0").split("<")
    for at, piece in enumerate(pieces):
        name, closed, rest = piece.partition(">") if at else ("", "", piece)
        name = name.strip().casefold()
        if name.lstrip("/") in _ENRICHED_UNSHOWN:
            hidden = max(0, hidden + (-1 if name.startswith("/") else 1))
        elif name in _ENRICHED_BREAKS:
            shown.append("\n\n")
        elif name == "lt":
            shown.append("<")
        if not hidden:
            shown.append(rest if closed or not at else "")
    lines = "".join(shown).replace("\0", "<").split("\n\n")
    return "\n".join(" ".join(line.split("\n")) for line in lines)


def text_of_rtf(text: str) -> str | None:
    """Return Rich Text Format as plain text; None if it is invalid or exceeds a limit."""
    if not text.lstrip().startswith("{\\rtf") or len(text) > _LONGEST:
        return None
    return _Rtf().read(text[text.index("{") :])


class _Rtf:
    """Reads Rich Text Format."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        # Whether each open group is shown, the innermost last.
        self._groups = [True]
        # The number of fallback characters after a numbered character, for old programs.
        self._stand_ins, self._skipped = 1, 0

    def read(self, text: str) -> str | None:
        """Return its text, or None if it is nested too deeply."""
        at = 0
        while at < len(text):
            mark = text[at]
            at += 1
            if mark == "{":
                self._groups.append(self._groups[-1])
            elif mark == "}" and len(self._groups) < 3:
                break
            elif mark == "}":
                self._groups.pop()
            elif mark == "\\":
                word, number, at = _control(text, at)
                self._obey(word, number)
            elif mark not in "\r\n":
                self._show(mark)
            if len(self._groups) > _DEEPEST:
                return None
        # Emoji are written as surrogate halves.
        halves = "".join(self._shown).encode("utf-16", "surrogatepass")
        return halves.decode("utf-16", "replace")

    def _obey(self, word: str, number: str) -> None:
        if word == "uc" and number.isdecimal():
            self._stand_ins = int(number)
        elif word in _RTF_UNSHOWN or word == "*" or (word == "v" and number != "0"):
            self._groups[-1] = False
        elif word == "'":
            self._show(_shown(word, number))
        elif self._groups[-1]:
            self._shown.append(_shown(word, number))
            self._skipped = self._stand_ins if word == "u" else self._skipped

    def _show(self, mark: str) -> None:
        if self._skipped:
            self._skipped -= 1
        elif self._groups[-1]:
            self._shown.append(mark)


def _control(text: str, at: int) -> tuple[str, str, int]:
    """Return the control word that begins here, its number, and its end."""
    if not text[at : at + 1].isalpha():
        if text[at : at + 1] == "'":
            return "'", text[at + 1 : at + 3], at + 3
        return text[at : at + 1], "", at + 1
    end = at
    while end < len(text) and text[end].isascii() and text[end].isalpha() and end - at < 32:
        end += 1
    word, start = text[at:end], end
    while end < len(text) and (text[end].isdecimal() or (end == start and text[end] == "-")):
        if end - start > 10:
            break
        end += 1
    number = text[start:end]
    return word, number, end + (text[end : end + 1] == " ")


def _shown(word: str, number: str) -> str:
    if word == "'":
        try:
            return bytes.fromhex(number).decode("cp1252", "replace")
        except ValueError:
            return ""
    if word == "u" and number.lstrip("-").isdecimal():
        return chr(int(number) % 0x10000)
    if word in ("\\", "{", "}"):
        return word
    return _RTF_MARKS.get(word) or _RTF_SIGNS.get(word, "")
