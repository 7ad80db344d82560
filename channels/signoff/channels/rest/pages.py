"""Lists in pages: the cursor is a place in an index, so what is added above moves nothing."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from signoff.broker.listing import Place
from signoff.channels.http import Problem

T = TypeVar("T")

SCANNED: Final = 500
"""How many records one request looks at: a page with few that fit ends here, and goes on."""

_FORM: Final = re.compile(r"(\d{1,16}) ([A-Za-z0-9._:-]{1,128})")


class Paging(BaseModel):
    """Which part of a list is wanted.

    Attributes:
        cursor: The `next` of the page before; without it, the first.
        limit: The most items of a page.
    """

    model_config = ConfigDict(frozen=True)

    cursor: str = Field("", max_length=256, description="The `next` of the page before.")
    limit: int = Field(50, ge=1, le=100, description="The most items of a page.")


List = Callable[[Place | None, int], Awaitable[list[tuple[Place, T | None]]]]
"""Returns records with their places from behind a place on; None beside one that is gone."""


async def page(
    listed: List[T], keep: Callable[[T], bool], wanted: Paging
) -> tuple[Sequence[T], str | None]:
    """Return a page of what is to be kept, and the cursor behind it; None at the end.

    Raises:
        Problem: The cursor is none of ours.
    """
    place, found, left = _place(wanted.cursor), list[T](), SCANNED
    while left > 0:
        batch = min(left, max(2 * wanted.limit, 50))
        rows = await listed(place, batch)
        for place, one in rows:
            if one is not None and keep(one):
                found.append(one)
                if len(found) == wanted.limit:
                    return found, _cursor(place)
        if len(rows) < batch:
            return found, None
        left -= batch
    return found, None if place is None else _cursor(place)


def _cursor(place: Place) -> str:
    text = f"{place.score} {place.member}".encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _place(cursor: str) -> Place | None:
    if not cursor:
        return None
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        form = _FORM.fullmatch(base64.b64decode(padded, altchars=b"-_", validate=True).decode())
    except (binascii.Error, ValueError):
        form = None
    if form is None:
        detail = "Pass the `next` of a page as it is, or nothing."
        raise Problem(422, "cursor", "The cursor is none", detail)
    return Place(int(form[1]), form[2])
