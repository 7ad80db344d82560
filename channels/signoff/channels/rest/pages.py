"""Pagination: a cursor is a position in an index, so new items do not shift the pages."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from signoff.broker.ledger.listing import SCANNED, List, Place, part
from signoff.channels.web.problems import Problem

T = TypeVar("T")


class Paging(BaseModel):
    """The requested page of a list.

    Attributes:
        cursor: The `next` of the previous page. The default is the first page.
        limit: The largest number of items on a page.
    """

    model_config = ConfigDict(frozen=True)

    cursor: str = Field("", max_length=256, description="The `next` of the previous page.")
    limit: int = Field(50, ge=1, le=100, description="The largest number of items on a page.")


async def page(
    listed: List[T], keep: Callable[[T], bool], wanted: Paging
) -> tuple[Sequence[T], str | None]:
    """Return a page of the items to keep, and the cursor of the next page; None at the end.

    Raises:
        Problem: The cursor is invalid.
    """
    try:
        before = Place.of(wanted.cursor) if wanted.cursor else None
    except ValueError as error:
        detail = "Pass the `next` of a page as it is, or nothing."
        raise Problem(422, "cursor", "The cursor is not valid", detail) from error
    found = await part(listed, keep, before=before, limit=wanted.limit, most=SCANNED)
    return found.found, found.then.cursor if found.then is not None else None
