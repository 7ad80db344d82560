"""Reads dates as people write them, if they can mean only one day.

"03/04/2026" is in April for one reader and in March for another, and "Nov 21" has no year: such
text is refused. ISO 8601, day.month.year and names of months are unambiguous.
"""

import datetime as dt
from typing import Final

from signoff.core.base.text import unaccented

_MONTHS: Final = (
    *(("jan", "ene", "gen", "janv"), ("feb", "fev", "fevr"), ("mar", "maerz", "mart", "mars")),
    *(("apr", "abr", "avr"), ("may", "mai", "mag", "mei"), ("jun", "giu", "juin")),
    *(("jul", "lug", "juil"), ("aug", "ago", "aou", "aout"), ("sep", "set", "sept")),
    *(("oct", "okt", "ott", "out"), ("nov",), ("dec", "dez", "dic")),
)
_NAMES: Final = (
    *("january janvier januar enero janeiro gennaio januari", "february fevrier februar febrero"),
    *("march marz maerz mars marzo marco maart", "april avril abril aprile", "may mai mayo maio"),
    *("june juin juni junio junho giugno", "july juillet juli julio julho luglio"),
    *("august aout agosto augustus", "september septembre septiembre setembro settembre"),
    *("october oktober octobre octubre outubro ottobre", "november novembre noviembre novembro"),
    *("december dezember decembre diciembre dezembro dicembre",),
)
_MORE: Final = {"fevereiro": 2, "febbraio": 2, "februari": 2, "maggio": 5, "augusti": 8}
_LONGEST: Final = 40
_MOST_DIGITS: Final = 9


def _numbers_of_months() -> dict[str, int]:
    found = dict(_MORE)
    for number, (names, short) in enumerate(zip(_NAMES, _MONTHS, strict=True), 1):
        found |= dict.fromkeys((*names.split(), *short), number)
    return found


_BY_NAME: Final = _numbers_of_months()
_FILLERS: Final = frozenset(
    {*("de", "of", "del", "the", "st", "nd", "rd", "th", "er"), *"年月日년월일"}
)


def is_iso_date(text: str) -> bool:
    """Say whether text is a date of the form 2026-11-21."""
    parts = text.split("-")
    digits = all(part.isascii() and part.isdigit() for part in parts)
    if [len(part) for part in parts] != [4, 2, 2] or not digits:
        return False
    return _date(*map(int, parts)) is not None


def read_date(text: str) -> dt.date | None:
    """Return the day that text in plain form means, None if it is ambiguous or not a date.

    These forms are read: 2026-11-21, 2026/11/21, 2026年11月21日, 2026. 11. 21., 21.11.2026,
    21/11/2026 if only one of the two can be the month, and 21 Nov 2026 in any order in seven
    languages.
    """
    if len(text) > _LONGEST:
        return None
    pieces = _pieces(unaccented(text.casefold()))
    months = [_BY_NAME[piece] for piece in pieces if piece in _BY_NAME]
    numbers = [int(piece) for piece in pieces if piece.isascii() and piece.isdigit()]
    if len(pieces) != 3 or len(months) + len(numbers) != 3:
        return None
    if any(number >= 10**_MOST_DIGITS for number in numbers):
        return None
    if len(months) == 1:
        return _named(pieces, numbers, months[0])
    return _numbered(text, pieces, numbers) if not months else None


def _named(pieces: list[str], numbers: list[int], month: int) -> dt.date | None:
    years = [number for number in numbers if number > 1000]
    days = [number for number in numbers if number <= 31]
    if len(years) != 1 or len(days) != 1:
        return None
    return _date(years[0], month, days[0])


def _numbered(text: str, pieces: list[str], numbers: list[int]) -> dt.date | None:
    if len(pieces[0]) == 4:
        return _date(*numbers)
    if len(pieces[2]) != 4:
        return None
    first, second, year = numbers
    # With points, the order is always day, month, year.
    if "." in text and "/" not in text and "-" not in text:
        return _date(year, second, first)
    if first > 12 or first == second:
        return _date(year, second, first)
    return _date(year, first, second) if second > 12 else None


def _pieces(text: str) -> list[str]:
    """Split into runs of digits and runs of letters, without the words between them."""
    pieces: list[str] = []
    before = ""
    for mark in text:
        kind = "digit" if mark.isdigit() else "letter" if mark.isalpha() else ""
        if kind and kind == before:
            pieces[-1] += mark
        elif kind:
            pieces.append(mark)
        elif mark not in " .,/-":
            return []
        before = kind
    return [piece for piece in pieces if piece not in _FILLERS]


def _date(year: int, month: int, day: int) -> dt.date | None:
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None
