"""Sessions of agents in the ledger: expiry, erasure, backup, and repeated commands."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from archiving import ended
from builders import CLEO, RILEY, paused
from deciding import Decider
from services import plain_redis
from signoff.broker.archive.archiver import Archiver
from signoff.broker.archive.backup import backup, restore
from signoff.broker.archive.erasure import erase
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.archive.redaction import Redaction
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.sessions import (
    NOT_SEEN,
    AppendRefusal,
    Name,
    NewEvent,
    SeenAt,
    SessionRecords,
    SessionVersion,
    States,
)
from signoff.core.base.errors import ErasureRefused, LedgerUnavailable
from signoff.core.directory.people import Person

NOBODY = States()


async def written(
    ledger: Ledger, name: Name, *texts: str, at: float = 1000.0, states: States = NOBODY
) -> SessionRecords:
    """Make a session with these events."""
    records = SessionRecords(ledger.store)
    found = await records.make(name, states, at=at)
    assert found is not None
    for place, text in enumerate(texts):
        event = NewEvent(f"e{place}", json.dumps({"text": text}), at, NOBODY)
        assert not isinstance(
            await records.append(name, SessionVersion(found.made, place), event), AppendRefusal
        )
    return records


async def test_a_repeated_append_changes_nothing(ledger: Ledger) -> None:
    """The client repeats a command without a reply, and the script recognises it."""
    name = Name("finance", "riley", "one")
    records = await written(ledger, name, "first")
    found = await records.read(name)
    assert found is not None
    event = NewEvent("e9", '{"text": "second"}', 2000.0, States(app={"a": "1"}))
    for _ in range(2):
        after = await records.append(name, SessionVersion(found.made, 1), event)
        assert not isinstance(after, AppendRefusal)
        assert (after.made, after.count) == (found.made, 2)
    other = event._replace(id="e10")
    assert await records.append(name, SessionVersion(found.made, 1), other) is AppendRefusal.STALE
    assert await records.append(name, SeenAt("e0", 1000.0), other) is AppendRefusal.STALE
    assert not isinstance(await records.append(name, SeenAt("e9", 0), other), AppendRefusal)
    kept = await records.read(name)
    assert kept is not None
    assert (kept.count, kept.states.app) == (3, {"a": "1"})
    last = event._replace(id="e11", at=3000.0)
    for _ in range(2):
        after = await records.append(name, SeenAt("e10", 2000.0), last)
        assert not isinstance(after, AppendRefusal)
        assert after.count == 4


async def test_only_new_session_events_are_read(ledger: Ledger) -> None:
    """Only later events are read; all of them if the session has been replaced."""
    name = Name("finance", "riley", "one")
    records = await written(ledger, name, "first", "second", "third")
    whole = await records.read(name)
    assert whole is not None
    more = await records.read(name, SessionVersion(whole.made, 2))
    assert more is not None
    assert (more.first, len(more.events), more.count) == (2, 1, 3)
    await records.drop(name)
    assert await records.read(name, SessionVersion(whole.made, 3)) is None
    await written(ledger, name, "anew")
    again = await records.read(name, SessionVersion(whole.made, 3))
    assert again is not None
    assert (again.first, again.count) == (0, 1)
    assert NOT_SEEN.count == 0


async def test_a_session_ends_with_the_last_of_its_runs(
    still_ledger: Ledger, still_decider: Decider, tmp_path: Path
) -> None:
    """It ends when its last run is archived; with a waiting run or recent use it stays."""
    over, _ = await ended(still_ledger, still_decider, session="over")
    waits, _ = await paused(still_ledger, session="waits")
    now = (await still_ledger.now()).timestamp()
    names = [Name(one.app, one.user, one.session) for one in (over, waits)]
    idle, used, led = (Name("finance", "riley", one) for one in ("idle", "used", "led"))
    for name in (*names, idle, led):
        records = await written(still_ledger, name, "said", at=now - 10)
    await written(still_ledger, used, "said", at=now + 10)
    assert await still_ledger.take_lease(led.lease, "token", lease=60)
    files = ArchiveFiles(tmp_path / "archive")
    erasing = Archiver(still_ledger, files, after=timedelta(), wanted=lambda _: False)
    assert (await erasing.once()).sessions == 0
    done = await Archiver(still_ledger, files, after=timedelta()).once()
    assert (done.runs, done.sessions) == (1, 2)
    assert {name.id async for name in records.all_names()} == {"waits", "used", "led"}
    for name in (names[0], idle):
        assert await records.read(name) is None
    listed = await records.listed("finance", "riley")
    assert sorted(one.name.id for one in listed) == ["led", "used", "waits"]


async def test_sessions_of_an_erased_person_are_gone(
    still_ledger: Ledger, still_decider: Decider, tmp_path: Path
) -> None:
    """Their sessions and user state go; in others, a placeholder replaces the name."""
    files = ArchiveFiles(tmp_path / "archive")
    theirs = Name("finance", RILEY.email, "one")
    shared = States({"own": '"x"'}, {"boss": f'"{RILEY.email}"'}, {"city": '"Graz"'})
    await written(still_ledger, theirs, "hello", states=shared)
    other = Name("finance", CLEO.email, "one")
    records = await written(
        still_ledger, other, "nothing", f"for {RILEY.email}", states=States({RILEY.email: "1"})
    )
    assert await still_ledger.take_lease(other.lease, "token", lease=60)
    redaction = Redaction(RILEY.names, "erased-1")
    with pytest.raises(ErasureRefused, match="A worker runs session"):
        await erase(still_ledger, files, redaction, by="ops", why="asked")
    await still_ledger.release_lease(other.lease, "token")
    await erase(still_ledger, files, redaction, by="ops", why="asked")
    assert await records.read(theirs) is None
    assert await records.user_state("finance", RILEY.email) == {}
    kept = await records.read(other)
    assert kept is not None
    assert [json.loads(text)["text"] for text in kept.events] == ["nothing", "for erased-1"]
    assert kept.states == States({"erased-1": "1"}, {"boss": '"erased-1"'})
    # A repetition is safe, and a session without the name does not change.
    await erase(still_ledger, files, redaction, by="ops", why="asked")
    will = Person(id="will", name="Will Fox", email="will@example.com")
    await erase(still_ledger, files, Redaction(will.names, "erased-2"), by="ops", why="asked")
    assert await records.read(other) == kept


@pytest.mark.soak
async def test_a_session_event_waits_for_a_replica(
    ledger: Ledger, redis_url: str, prefix: str
) -> None:
    """If commits wait for a replica, new events do too; reading does not."""
    # Load the scripts first: a script that has to be sent is refused before it writes.
    before = await written(ledger, Name("finance", "riley", "before"), "a word")
    await before.read_or_make(Name("finance", "riley", "other"), at=1000.0)
    store = Store.open(redis_url, prefix=prefix, replica=True)
    records, name = SessionRecords(store), Name("finance", "riley", "one")
    with pytest.raises(LedgerUnavailable, match="replica"):
        await records.read_or_make(name, at=1000.0)
    found = await records.read(name)
    assert found is not None
    with pytest.raises(LedgerUnavailable, match="replica"):
        await records.append(name, SessionVersion(found.made), NewEvent("e0", "{}", 1000.0, NOBODY))
    await store.close()


async def test_a_backup_has_the_sessions(ledger: Ledger, tmp_path: Path) -> None:
    """The events are in order, and the states are there: lists and hashes are backed up too."""
    name = Name("finance", "riley", "one")
    texts = [f"say {place}" for place in range(12)]
    records = await written(ledger, name, *texts, states=States({"a": "1"}, {"b": "2"}, {"c": "3"}))
    whole = await records.read(name)
    await backup(ledger.store, tmp_path / "backup")
    (tmp_path / "other").mkdir()
    with plain_redis(tmp_path / "other") as url:
        copy = Ledger(type(ledger.store).open(url, prefix=ledger.store.prefix))
        await restore(copy, tmp_path / "backup")
        assert await SessionRecords(copy.store).read(name) == whole
        assert [one.name for one in await SessionRecords(copy.store).listed("finance")] == [name]
        await copy.close()
