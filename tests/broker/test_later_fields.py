"""Records of a later version: every change in this version keeps their unknown fields."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyotp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, PrivateAttr, SecretStr, ValidationError

from builders import CLEO, MARA, NOON, paused, people, present
from deciding import Decider
from signoff.broker.directory.absences import People
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import NOT_INDEXED, Change, Record, changed_entries, entries
from signoff.broker.ledger.follow import since
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import read_approval, read_grant, read_run
from signoff.broker.ledger.runs import claim_runs
from signoff.channels.inbox.auth.factors import Factors
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import RecordUnreadable
from signoff.core.base.model import Value
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Policy

GOLDEN = Path(__file__).parents[1] / "core" / "golden"
READERS: Mapping[str, Callable[[int, str], Record]] = {
    "approvals": read_approval,
    "runs": read_run,
    "grants": read_grant,
}
RECORDS = [
    (kind, json.dumps(record))
    for kind in READERS
    for record in json.loads((GOLDEN / f"{kind}.json").read_text("utf-8")).values()
]
LATER = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)


def with_later(value: object, dumped: Any, later: object) -> Any:
    """Return the stored form of a value with an unknown field in each of its models."""
    if isinstance(value, BaseModel) and isinstance(dumped, dict):
        known = {
            name: with_later(getattr(value, name, None), one, later) for name, one in dumped.items()
        }
        return {**known, "later": later}
    if isinstance(value, tuple) and isinstance(dumped, list) and len(value) == len(dumped):
        return [with_later(*pair, later) for pair in zip(value, dumped, strict=True)]
    return dumped


def later_count(dumped: object) -> int:
    """Return the number of these fields."""
    if isinstance(dumped, Mapping):
        return ("later" in dumped) + sum(map(later_count, dumped.values()))
    return sum(map(later_count, dumped)) if isinstance(dumped, list) else 0


def stored(record: Record) -> dict[str, Any]:
    """Return a record in the form of a commit."""
    found: dict[str, Any] = json.loads(str(Change().put(record, was=None).writes[0]["data"]))
    return found


@given(st.sampled_from(RECORDS), LATER)
def test_unknown_fields_at_every_depth_are_written_again(
    record: tuple[str, str], later: object
) -> None:
    """Known fields read the same with and without them, and no copy or write loses one."""
    kind, text = record
    plain = READERS[kind](3, text)
    given_ = with_later(plain, stored(plain), later)
    read = READERS[kind](3, json.dumps(given_))
    assert stored(read) == given_
    assert stored(read.model_copy(update={"version": 9})) == given_
    assert entries(read) == entries(plain)
    assert json.loads(read.model_dump_json()) == json.loads(plain.model_dump_json())


@given(st.sampled_from(RECORDS), LATER, st.data())
def test_a_copy_is_that_of_pydantic_without_computed_values(
    record: tuple[str, str], later: object, data: st.DataObject
) -> None:
    """A copy has the same fields, set fields and unknown fields, and shares none of the latter."""
    kind, text = record
    plain = READERS[kind](3, text)
    read = READERS[kind](3, json.dumps(with_later(plain, stored(plain), later)))
    for name in read._cached:
        getattr(read, name)
    names = data.draw(st.sets(st.sampled_from(sorted(type(read).model_fields)), max_size=3))
    update = dict.fromkeys(names)
    theirs = BaseModel.model_copy(read, update=update)
    for deep in (False, True):
        ours = read.model_copy(update=update, deep=deep)
        assert [getattr(ours, one) for one in type(read).model_fields] == [
            getattr(theirs, one) for one in type(read).model_fields
        ]
        assert ours.model_fields_set == theirs.model_fields_set
        assert ours.model_extra == theirs.model_extra
        assert ours.model_extra is not read.model_extra
        assert not {"next_due", "level_key"} & vars(ours).keys()


class Noted(Value):
    """A value with private attributes, as the settings have."""

    text: str
    _note: str = PrivateAttr("")
    _unset: str = PrivateAttr()


def test_a_copy_has_its_own_private_attributes() -> None:
    """A copy begins with those of the original, and does not share them."""
    first = Noted(text="a")
    first._note = "first"
    second = first.model_copy(update={"text": "b"})
    second._note += " and second"
    assert (first.text, first._note) == ("a", "first")
    assert (second.text, second._note) == ("b", "first and second")
    with pytest.raises(AttributeError):
        str(second._unset)


@pytest.mark.parametrize("kind", READERS)
def test_fields_without_entries_change_none(kind: str) -> None:
    """If only fields without entries change, the entries stay those of the record."""
    records = [READERS[kind](3, text) for of, text in RECORDS if of == kind]
    for was, other in itertools.product(records, records):
        for name in NOT_INDEXED[type(was)]:
            new = was.model_copy(update={name: getattr(other, name)})
            add, drop = changed_entries(new, was)
            scores = {entry[:2]: entry[2] for entry in entries(was) if entry not in drop}
            scores |= {entry[:2]: entry[2] for entry in add}
            assert scores == {entry[:2]: entry[2] for entry in entries(new)}, name


async def made_later(ledger: Ledger, *records: Record) -> None:
    """Add an unknown field to each model of the ledger's records."""
    for one in records:
        kind = "approval" if isinstance(one, Approval) else "run"
        key = f"{ledger.store.prefix}{kind}:{one.id}"
        async with ledger.store.translated_client() as client:
            head = " ".join(str(await client.get(key)).split(" ", 2)[:2])
            text = json.dumps(with_later(one, stored(one), {"n": 1}), separators=(",", ":"))
            await client.set(key, f"{head} {text}")


async def kept(ledger: Ledger, key: str) -> dict[str, Any]:
    """Return the data of a record."""
    record = await ledger.raw(key)
    assert record is not None
    data: dict[str, Any] = json.loads(record[1])
    return data


async def test_scripts_and_commits_keep_unknown_fields(ledger: Ledger, decider: Decider) -> None:
    """A comment, a claim, an extension, a decision and the resume keep all unknown fields."""
    run, (approval,) = await paused(ledger)
    await made_later(ledger, run, approval)
    first = later_count(await kept(ledger, f"approval:{approval.id}"))
    assert first > 5
    current = await ledger.current(approval.id)
    assert (current.approval.id, current.run.id) == (approval.id, run.id)
    await decider.made(approval.id, moves.Comment("Looks fine."), CLEO)
    await decider.made(approval.id, moves.Claim(timedelta(minutes=5)), MARA)
    assert later_count(await kept(ledger, f"approval:{approval.id}")) == first
    after = await decider.approve(approval.id, MARA, channel="cli")
    assert after.state is State.APPROVED
    assert later_count(await kept(ledger, f"approval:{approval.id}")) == first
    assert (await kept(ledger, f"run:{run.id}"))["later"] == {"n": 1}
    # The script that claims a resume reads both records.
    (taken,) = (await claim_runs(ledger, "resume.finance", limit=1, lease=30)).runs
    assert (taken.read(ledger.recent)[0].id, taken.read(ledger.recent)[1][0].id) == (
        run.id,
        approval.id,
    )
    was = await ledger.approval(approval.id)
    started, events = was.hand_on(Handoff.STARTED, now=NOON)
    await ledger.commit(Change().put(started, was=was).note(events))
    assert later_count(await kept(ledger, f"approval:{approval.id}")) == first
    assert (await ledger.pending()) == []


async def test_a_record_marked_for_a_later_release_is_not_decided(
    ledger: Ledger, decider: Decider
) -> None:
    """A later release can mark a record, so that this release does not decide it."""
    _, (approval,) = await paused(ledger)
    key = f"{ledger.store.prefix}approval:{approval.id}"
    async with ledger.store.translated_client() as client:
        before = str(await client.get(key)).replace('"needs":1', '"needs":99', 1)
        await client.set(key, before)
    with pytest.raises(RecordUnreadable, match="needs"):
        await decider.approve(approval.id, MARA, channel="cli")
    async with ledger.store.translated_client() as client:
        assert await client.get(key) == before


async def test_audit_entries_of_an_unknown_kind_are_skipped(ledger: Ledger) -> None:
    """The timeline and the followers of the audit skip them and continue."""
    run, (approval,) = await paused(ledger)
    known = await ledger.history(run.id)
    event = Event(what=What.COMMENTED, at=NOON, run=run.id, approval=approval.id)
    change = Change().put_raw("mark", "1").note([event, event])
    change.audit[0]["text"] = event.model_dump_json().replace("commented", "beamed_up")
    await ledger.commit(change)
    assert await ledger.history(run.id) == [*known, event]
    assert [one for _, one in await since(ledger.store, "0", limit=99)][-1] == event
    assert len(await since(ledger.store, "0", limit=99)) == await audit_length(ledger) - 1


async def audit_length(ledger: Ledger) -> int:
    """Return the number of entries, readable or not."""
    return len([one async for one in audit.entries(ledger.store)])


async def test_absences_and_second_factors_keep_unknown_fields(ledger: Ledger) -> None:
    """Absences keep them, and so does the second factor of a person whose code was used."""
    async with ledger.store.translated_client() as client:
        text = '{"mara":{"away":[{"from":"2026-03-09","to":"2999-03-09","later":1}],"later":[2]}}'
        await client.set(f"{ledger.store.prefix}absences", f"1 aa {text}")
    there = People(ledger, people())
    assert present((await there.directory()).get("mara")).away[0].end.year == 2999
    later = Absence(start=date(2999, 5, 1), end=date(2999, 5, 2))
    await there.leave(MARA, later, by="mara", more={})
    await there.leave(CLEO, later, by="cleo", more={})
    absences = await kept(ledger, "absences")
    assert (absences["mara"]["later"], absences["mara"]["away"][0]["later"]) == ([2], 1)
    assert later_count(absences) == 2
    factors = Factors(ledger, SecretStr("k" * 32))
    totp = pyotp.parse_uri(await factors.enroll(MARA, by="test"))
    assert isinstance(totp, pyotp.TOTP)
    data = {**await kept(ledger, "factor:mara"), "later": 1}
    await ledger.commit(Change().put_raw("factor:mara", json.dumps(data), was=1))
    assert await factors.check(MARA, totp.at(await ledger.now()))
    after = await kept(ledger, "factor:mara")
    assert (after["later"], after["last"] > 0) == (1, True)


def test_input_from_outside_stays_strict() -> None:
    """A typing error in the settings is an error, even in a model that records also use."""
    for kind, given_ in (
        (Person, {"id": "mara", "email": "mara@example.com"}),
        (Policy, {"name": "all", "ask": ["mara"]}),
    ):
        kind.model_validate(given_)
        with pytest.raises(ValidationError, match="later"):
            kind.model_validate({**given_, "later": 1})
