"""Lists that are read in pages: in either order, by their own scores or another index's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import MARA, RILEY, asked_approval, make_approval, make_origin, people, present
from signoff.broker.ledger import listing
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.listing import Page, Place, part

LATIN = st.text("abcdefghijklmnopqrstuvwxyz_-.0123456789", min_size=1, max_size=40)


async def filled(ledger: Ledger, index: str, **scores: int) -> None:
    """Put members with scores into an index."""
    change = Change().put_raw(f"record:{index}", "x")
    for member, score in scores.items():
        change.index(index, member, score)
    await ledger.commit(change)


async def whole(ledger: Ledger, index: str, *, rising: bool = False, by: str = "") -> list[str]:
    """Return the members of an index, read in pages of three."""
    seen: list[str] = []
    before = None
    while rows := await ledger.store.behind(index, before=before, limit=3, rising=rising, by=by):
        seen += [member for _, member in rows]
        before = rows[-1]
    return seen


async def test_either_order(ledger: Ledger) -> None:
    """The lowest score first is the reverse order, ties included."""
    await filled(ledger, "some", a=5, b=1, c=5, d=5, e=9, f=5, g=5, h=0)
    falling = await whole(ledger, "some")
    assert falling == ["e", "g", "f", "d", "c", "a", "b", "h"]
    assert await whole(ledger, "some", rising=True) == falling[::-1]


async def test_by_the_scores_of_another_index(ledger: Ledger) -> None:
    """Only members of both indexes are listed, once each, in the order of the other one."""
    await filled(ledger, "some", **dict.fromkeys("abcdefgh", 1))
    await filled(ledger, "due", a=30, b=20, c=20, d=20, e=20, f=10, z=1)
    assert await whole(ledger, "some", by="due", rising=True) == ["f", "b", "c", "d", "e", "a"]
    assert await whole(ledger, "some", by="due") == ["a", "e", "d", "c", "b", "f"]
    assert await whole(ledger, "nothing", by="due") == []


async def test_requests_of_a_person_are_listed_under_every_name(ledger: Ledger) -> None:
    """Requests under an id and under an address are one list without those of other people."""
    for number, user in enumerate(("riley", "R.Voss@example.net", "nora", "riley", "RILEY")):
        origin = make_origin(session=f"s_{number}", user=user)
        one = (asked_approval if number % 2 else make_approval)(origin=origin)
        if number == 3:
            one, _ = one.reject(MARA, people(), channel="cli", now=one.opened_at)
        await ledger.commit(Change().put(one, was=None))
    seen, before = [], None
    while rows := await listing.requests(ledger, RILEY, before=before, limit=2):
        seen += [present(one).origin.user for _, one in rows]
        before = rows[-1][0]
    assert sorted(seen) == ["R.Voss@example.net", "RILEY", "riley", "riley"]


async def _numbers(*, before: Place | None, limit: int) -> list[tuple[Place, int | None]]:
    start = before.score + 1 if before is not None else 0
    return [(Place(one, "x"), one) for one in range(start, min(start + limit, 300))]


@pytest.mark.parametrize("limit", [1, 7, 25, 400])
async def test_parts_are_bounded_and_contain_every_match_once(limit: int) -> None:
    """Each part looks at a limited number; together they contain every match once."""
    seen: list[int] = []
    before, parts = None, list[Page[int]]()
    while not parts or parts[-1].then is not None:
        found = await part(_numbers, lambda one: one % 3 == 0, before=before, limit=limit, most=100)
        parts.append(found)
        seen += found.found
        before = found.then
    assert seen == list(range(0, 300, 3))
    assert all(one.looked <= 100 and len(one.found) <= limit for one in parts)


@given(st.integers(0, 10**16 - 1), LATIN)
def test_a_cursor_round_trips_and_is_safe_in_a_url(score: int, member: str) -> None:
    """A place that is encoded as a cursor reads back the same, and is safe in a URL."""
    place = Place(score, member)
    assert Place.of(place.cursor) == place
    assert place.cursor.replace("-", "").replace("_", "").isalnum()


@given(st.text(max_size=60))
def test_an_invalid_cursor_raises_a_value_error(text: str) -> None:
    """Any other text is a ValueError, and no other error."""
    try:
        Place.of(text)
    except ValueError:
        return


@pytest.mark.parametrize("rising", [True, False])
async def test_pages_of_a_filtered_list_are_complete_and_ordered(
    ledger: Ledger, rising: bool
) -> None:
    """Pages miss and repeat nothing, even if members leave the index meanwhile."""
    due = {f"m{n:04}": n // 7 for n in range(1_500)}
    await filled(ledger, "due", **due)
    some = {one: 1 for n, one in enumerate(due) if n % 3 == 0}
    await filled(ledger, "some", **some)
    order = sorted(some, key=lambda one: (due[one], one), reverse=not rising)
    seen: list[str] = []
    before: tuple[int, str] | None = None
    while rows := await ledger.store.behind(
        "some", before=before, limit=20, rising=rising, by="due"
    ):
        seen += [member for _, member in rows]
        before = rows[-1]
        # The next page begins at a member that is gone.
        drop = [("due", rows[-1][1], 0)]
        await ledger.commit(Change().put_raw(f"gone:{rows[-1][1]}", "x", drop=drop))
    assert seen == order


async def test_the_last_of_a_longer_list(ledger: Ledger) -> None:
    """Members are also found if all of them are at the end of the order."""
    await filled(ledger, "due", **{f"m{n:04}": n for n in range(3_000)})
    last = [f"m{n:04}" for n in range(2_400, 3_000)]
    await filled(ledger, "some", **dict.fromkeys(last, 1))
    rows = await ledger.store.behind("some", limit=2, rising=True, by="due")
    assert [member for _, member in rows] == last[:2]
