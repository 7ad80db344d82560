"""Values for a payload template, as people write them around the word that approves.

On the line itself (``approve 3``, ``approve with days=3, note=x``) or on the lines right below it
(``days: 3``). What this module returns is still text; ``payload.parse_values`` gives it a type.
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
    """Names and raw text as found, and what is wrong, if anything."""

    found: tuple[tuple[str, str], ...] = ()
    problem: str = ""


def entries_on_line(body: str, template: JsonValue) -> Entries:
    """Read the values that stand on the command line, after the word that approves.

    Args:
        body: What follows that word, in plain form and without the separator.
        template: The payload template of the request.

    Returns:
        The values; nothing where the words are not values at all.
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
    # Bare words are never a text value: "approve nothing" must not approve with the note "nothing".
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
    """Read ``a=1, b=two, three``: a piece that names no field belongs to the value before it."""
    found: list[tuple[str, str]] = []
    for piece in given.split(","):
        pair = assignment(piece, template)
        if pair:
            found.append(pair)
            continue
        stray = piece.partition("=")[0].strip()
        if "=" in piece and stray.isidentifier():
            problem = f'"{brief(stray)}" is not a field of this request. {_names(template)}'
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
    """Return the field that the name on a line nearly is, or ""."""
    name = _split(line)[0].strip(" *_`").casefold().replace(" ", "_")
    known = {field.casefold()[:_LONGEST_NAME]: field for field in fields_of(template)}
    if not name or assignment(line, template):
        return ""
    near = difflib.get_close_matches(name, list(known)[:_MOST_NAMES], n=1, cutoff=_NEAR)
    return known[near[0]] if near else ""


def _names(template: JsonValue) -> str:
    return f"Its fields: {', '.join(fields_of(template))}."
