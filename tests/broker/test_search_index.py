"""The search index misses nothing: records that it does not contain are searched directly."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import MARA, NOON, asked_approval, make_approval, make_origin, people
from signoff.broker.ledger import listing, search_index
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.listing import Place
from signoff.broker.ledger.rebuild import rebuild
from signoff.broker.ledger.search_index import (
    BITS,
    MARGIN,
    PER_BYTE,
    Head,
    SearchIndex,
    places_in,
    slices_of,
)
from signoff.broker.ledger.store import Store
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lists.search import Search, text_of, words_of
from signoff.core.approvals.parts import ToolCall
from signoff.core.base.model import stored_json

BATCH = 28
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def small(ledger: Ledger, *, margin: timedelta = MARGIN) -> SearchIndex:
    """Return an index with steps and segments that a test can fill."""
    return SearchIndex(ledger, margin=margin, step=BATCH, segment=2 * BATCH)


def approval_of(number: int, purpose: str, *, hide: tuple[str, ...] = ()) -> Approval:
    """Return an approval that was opened this many seconds after noon."""
    call = ToolCall(id=f"fc-{number}", name="reimburse", args={"purpose": purpose})
    origin = make_origin(session=f"s_{number}", confirmation=f"c_{number}")
    made = asked_approval(call=call, origin=origin)
    assert made.terms is not None
    terms = made.terms.model_copy(update={"hide": hide})
    at = NOON + timedelta(seconds=number)
    return made.model_copy(update={"terms": terms, "opened_at": at})


async def fill(ledger: Ledger, *approvals: Approval) -> None:
    """Put approvals into a ledger."""
    changes = [Change().put(one, was=None) for one in approvals]
    assert not any(await ledger.commit_all(changes))


@given(st.lists(_TEXT, min_size=1, max_size=4), st.data())
def test_any_part_of_an_approval_text_finds_its_row(
    purposes: list[str], data: st.DataObject
) -> None:
    """Any part of an approval's text finds its row, in every script."""
    approvals = [approval_of(number, one) for number, one in enumerate(purposes)]
    records = [(1, stored_json(one, exclude="version")) for one in approvals]
    slices = slices_of(records)
    assert all(one.isascii() for one in slices)
    row = data.draw(st.integers(0, len(approvals) - 1))
    text = text_of(approvals[row])
    start = data.draw(st.integers(0, len(text) - 3))
    piece = text[start : start + data.draw(st.integers(3, 12))]
    wanted = [slices[place].encode() for place in places_in(piece)]
    assert all(one[row // PER_BYTE] >> row % PER_BYTE & 1 for one in wanted)
    assert piece in words_of(approvals[row], people())


async def test_a_search_covers_indexed_and_newer_approvals(ledger: Ledger) -> None:
    """It returns the approvals with the word, and all that are newer than the index."""
    old = [approval_of(n, "hovercraft" if n in {3, 40, 71} else f"trip {n}") for n in range(80)]
    await fill(ledger, *old)
    index = small(ledger)
    assert await index.candidates(["hovercraft"]) is None
    assert await index.extend() == 56
    assert await index.extend() == 0
    found = await index.candidates(["hovercraft"]) or []
    assert {old[3].id, old[40].id, old[71].id, *(one.id for one in old[56:])} <= set(found)
    assert len(found) < 40
    assert await index.candidates(["ho"]) is None


async def test_the_newest_approvals_are_not_indexed_yet(ledger: Ledger) -> None:
    """An approval that was opened earlier may still be committed, so the newest ones wait."""
    await fill(ledger, *(approval_of(n, "hovercraft") for n in range(BATCH)))
    now = await ledger.now()
    assert await small(ledger, margin=now - NOON + timedelta(minutes=1)).extend() == 0
    assert await small(ledger).extend() == BATCH


async def test_concurrent_processes_index_each_batch_once(ledger: Ledger) -> None:
    """Concurrent calls add as many rows as one call."""
    await fill(ledger, *(approval_of(n, f"trip {n}") for n in range(3 * BATCH)))
    index = small(ledger)
    added = await asyncio.gather(*(index.extend() for _ in range(4)))
    assert sum(added) == 3 * BATCH
    head = await Head.read(ledger)
    assert [one.rows for one in head.segments] == [2 * BATCH, BATCH]


async def test_hidden_and_unrouted_approvals_are_always_candidates(ledger: Ledger) -> None:
    """The text that replaces a hidden value can be found like any other word."""
    hidden = approval_of(0, "hovercraft", hide=("purpose",))
    unrouted = make_approval(origin=make_origin(session="s_u", confirmation="c_u"))
    await fill(ledger, hidden, unrouted, *(approval_of(n, "trip") for n in range(1, BATCH - 1)))
    assert await small(ledger).extend() == BATCH
    found = await small(ledger).candidates(["zeppelin"]) or []
    assert {hidden.id, unrouted.id} <= set(found)


async def test_a_rebuild_recreates_the_search_index(ledger: Ledger, prefix: str) -> None:
    """`rebuild` makes it from the records again, whatever it contains."""
    approvals = [
        approval_of(n, "hovercraft" if n == 5 else "trip") for n in range(search_index.STEP)
    ]
    await fill(ledger, *approvals)
    await SearchIndex(ledger).extend()
    (segment,) = (await Head.read(ledger)).segments
    async with ledger.store.translated_client() as client:
        await client.delete(*(f"{prefix}search:{segment.name}:{place}" for place in range(BITS)))
    assert await SearchIndex(ledger).candidates(["hovercraft"]) is None
    await rebuild(ledger)
    assert approvals[5].id in (await SearchIndex(ledger).candidates(["hovercraft"]) or [])


class Interrupted(Store):
    """A store on which another process extends the index when the keys are listed."""

    first = True

    async def keys(self, start: str, kind: str | None = None) -> list[str]:
        """List the keys; the other process works before or after that."""
        other = small(Ledger(Store(self.client, prefix=self.prefix)))
        if self.first:
            await other.extend()
        found = await super().keys(start, kind)
        await other.extend()
        return found


@pytest.mark.parametrize("first", [True, False])
async def test_an_index_that_begins_while_the_earlier_one_is_dropped(
    ledger: Ledger, first: bool
) -> None:
    """Its rows are those of its own approvals, and they stay."""
    approvals = [approval_of(n, "hovercraft" if n == 5 else "trip") for n in range(2 * BATCH)]
    await fill(ledger, *approvals)
    await small(ledger).extend()
    store = Interrupted(ledger.store.client, prefix=ledger.store.prefix)
    store.first = first
    await small(Ledger(store)).drop()
    assert await small(ledger).candidates(["hovercraft"]) == [approvals[5].id]
    (segment,) = (await Head.read(ledger)).segments
    kept = await ledger.store.keys("search:")
    assert {one.split(":")[1] for one in kept} == {"index", str(segment.name)}


@pytest.mark.parametrize("wrong", [False, True])
async def test_a_damaged_index_hides_no_approval(ledger: Ledger, prefix: str, wrong: bool) -> None:
    """If a slice is missing, or Redis refuses to intersect, the search does without the index."""
    await fill(ledger, *(approval_of(n, "hovercraft") for n in range(BATCH)))
    await small(ledger).extend()
    assert len(await small(ledger).candidates(["hovercraft"]) or []) == BATCH
    (segment,) = (await Head.read(ledger)).segments
    slice_ = f"{prefix}search:{segment.name}:{min(places_in('hovercraft'))}"
    async with ledger.store.translated_client() as client:
        await client.delete(slice_)
        if wrong:
            await client.sadd(slice_, "not a text")
    assert await small(ledger).candidates(["hovercraft"]) is None


async def test_searches_beside_rebuilds_miss_nothing(ledger: Ledger) -> None:
    """Whatever the index goes through, a search finds every approval with the word."""
    index, opened, helped = small(ledger), list[str](), 0

    async def search() -> None:
        nonlocal helped
        before = set(opened)
        found = await index.candidates(["hovercraft"])
        assert found is None or before <= set(found)
        helped += found is not None

    for start in range(0, 4 * BATCH, 8):
        approvals = [approval_of(n, f"hovercraft {n}") for n in range(start, start + 8)]
        await fill(ledger, *approvals)
        opened += [one.id for one in approvals]
        await asyncio.gather(*(search() for _ in range(3)), index.extend(), search())
        dropped = index.drop() if start % 3 else search()
        await asyncio.gather(search(), search(), dropped, search(), search())
    assert helped > 10
    assert not await ledger.store.keys("search:both")


async def test_a_segment_goes_with_the_last_of_its_approvals(ledger: Ledger) -> None:
    """When all approvals of the oldest rows are archived, the rows are deleted."""
    await fill(ledger, *(approval_of(n, f"trip {n}") for n in range(4 * BATCH)))
    index = small(ledger)
    await index.extend()
    first, second = (await Head.read(ledger)).segments
    ids = await ledger.store.members(listing.APPROVALS)
    drop = [(listing.APPROVALS, one, 0) for one in ids[: 2 * BATCH]]
    await ledger.commit(Change().put_raw("gone", "x", drop=drop))
    await index.extend()
    head = await Head.read(ledger)
    assert [one.name for one in head.segments] == [second.name]
    assert not await ledger.store.keys(f"search:{first.name}:")
    assert await index.candidates(["trip"]) is not None


async def test_candidate_pages_keep_the_order_of_the_whole_list(ledger: Ledger) -> None:
    """Its pages are those of the whole list, without the approvals that cannot match."""
    approvals = [approval_of(n, f"trip {n}") for n in range(9)]
    await fill(ledger, *approvals)
    ended, _ = approvals[4].reject(MARA, people(), channel="cli", now=NOON + timedelta(hours=1))
    (found,) = await ledger.approvals([approvals[4].id])
    await ledger.commit(Change().put(ended, was=found))
    among = [approvals[n].id for n in (7, 1, 4, 3)] + ["ap_nothing"]
    for rising in (True, False):
        seen: list[str] = []
        before: Place | None = None
        while rows := await listing.approvals(
            ledger,
            index="waiting",
            by="approvals",
            rising=rising,
            before=before,
            limit=2,
            among=among,
        ):
            seen += [place.member for place, _ in rows]
            before = rows[-1][0]
        order = [approvals[n].id for n in (1, 3, 7)]
        assert seen == (order if rising else order[::-1])


def test_names_of_people_are_not_looked_up_in_the_index() -> None:
    """A name may change, so it is in no row; the other words of the search are used."""
    assert Search(q="Mara hovercraft").words(people()) == ["hovercraft"]
