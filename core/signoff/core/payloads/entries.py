"""Finds the values for a payload template in a person's reply.

The values are on the line that approves (``approve 3``, ``approve with days=3, note=x``) or on the
lines below it (``days: 3``). They are still text; ``payload.parse_values`` converts them.
"""

import difflib
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.core.base.dates import is_iso_date, read_date
from signoff.core.base.text import brief
from signoff.core.lexicon.languages import leads_values
from signoff.core.payloads.payload import fields_of, find_field

_LONGEST_NAME: Final = 64
_MOST_NAMES: Final = 100
_NEAR: Final = 0.75
_MINUS: Final = "\N{MINUS SIGN}"


class Entries(NamedTuple):
    """The names and raw texts that were found, and the problem, if there is one."""

    found: tuple[tuple[str, str], ...] = ()
    problem: str = ""


def entries_on_line(body: str, template: JsonValue) -> Entries:
    """Read the values on the line that approves.

    Args:
        body: The text after the word that approves, in plain form and without the separator.
        template: The payload template of the request.

    Returns:
        The values, empty if the words are not values.
    """
    head, _, tail = body.partition(" ")
    given = tail if leads_values(head) else body
    fields = fields_of(template)
    if not fields:
        return Entries()
    if assignment(given, template):
        return _assignments(given, template)
    if len(fields) > 1:
        return Entries()
    name, start = next(iter(fields.items()))
    number = isinstance(start, int | float) and not isinstance(start, bool)
    day = isinstance(start, str) and is_iso_date(start)
    digits = (number or day) and given[:1] in tuple(f"+-{_MINUS}0123456789")
    # A text value needs quotes: "approve nothing" must not approve with the note "nothing".
    quoted = isinstance(start, str) and len(given) > 2 and given[0] == given[-1] == '"'
    dated = day and read_date(given.rstrip(".")) is not None
    return Entries(((name, given),)) if digits or quoted or dated else Entries()


def assignment(piece: str, template: JsonValue) -> tuple[str, str] | None:
    """Return the field and the raw text of ``name = text`` or ``name: text``, or None."""
    name, text = _split(piece)
    field = find_field(template, name.strip(" *_`")) if name else None
    return (field, text) if field is not None else None


def _split(piece: str) -> tuple[str, str]:
    places = [at for at in (piece.find("="), piece.find(":")) if 0 < at <= _LONGEST_NAME]
    if not places:
        return "", ""
    return piece[: min(places)], piece[min(places) + 1 :].strip()


def _assignments(given: str, template: JsonValue) -> Entries:
    """Read ``a=1, b=two, three``: a piece without a field belongs to the value before it."""
    found: list[tuple[str, str]] = []
    for piece in given.split(","):
        pair = assignment(piece, template)
        if pair:
            found.append(pair)
            continue
        stray = piece.partition("=")[0].strip()
        if "=" in piece and stray.isidentifier():
            names = ", ".join(fields_of(template))
            problem = f'"{brief(stray)}" is not a field of this request. Its fields: {names}.'
            return Entries(problem=problem)
        name, text = found[-1]
        found[-1] = (name, f"{text},{piece}")
    for name, text in found:
        # "note=x amount=9" would otherwise put the amount into the note and approve another amount.
        words = text.replace(" =", "=").replace(" :", ":").split(" ")
        if any(assignment(word, template) for word in words[1:]):
            problem = f'I read "{brief(text)}" for "{name}". Put a comma between two values.'
            return Entries(problem=problem)
    return Entries(tuple(found))


def misspelt(line: str, template: JsonValue) -> str:
    """Return the field whose name is similar to the name on a line, or ""."""
    name = _split(line)[0].strip(" *_`").casefold().replace(" ", "_")
    known = {field.casefold()[:_LONGEST_NAME]: field for field in fields_of(template)}
    if not name or assignment(line, template):
        return ""
    near = difflib.get_close_matches(name, list(known)[:_MOST_NAMES], n=1, cutoff=_NEAR)
    return known[near[0]] if near else ""
