"""A commit makes all of a change or none of it, on a real Redis."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import JsonValue

from builders import (
    CLEO,
    MARA,
    RILEY,
    Snapshot,
    make_approval,
    make_origin,
    paused,
    people,
    program_for,
)
from deciding import Decider
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change, groups
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.submit import submit
from signoff.broker.work import ResumeRun
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalNotFound,
    Conflict,
    InvalidRun,
    LeaseLost,
    NotAnApprover,
    OwnRequest,
    RecordUnreadable,
    RunNotFound,
    SignoffError,
    TooLate,
)
from signoff.core.directory.people import Person
from signoff.core.policies.policy import OnTimeout
from signoff.testing import VirtualClock

EPOCH = datetime(1970, 1, 2, tzinfo=UTC)


async def test_a_conflict_leaves_nothing_changed(ledger: Ledger, snapshot: Snapshot) -> None:
    """Records, indexes, outboxes, leases and audit stay the same, byte for byte."""
    run, (approval,) = await paused(ledger)
    await ledger.commit(Change().send_raw("deliver.email", "kept", {"n": 1}))
    (item,) = (await ledger.claim("deliver.email")).items
    stale = approval.model_copy(update={"version": 7})
    after, events = approval.reject(MARA, people(), channel="email", now=approval.opened_at)
    change = Change().put(run.answered(approval.id), was=run).put(after, was=stale).note(events)
    change.send_raw("deliver.slack", "new", {}).ack(item).put_raw("other", "{}")
    before = await snapshot()
    with pytest.raises(Conflict, match=f"approval:{approval.id} was changed"):
        await ledger.commit(change)
    assert await snapshot() == before


async def test_a_lost_lease_leaves_nothing_changed(ledger: Ledger, snapshot: Snapshot) -> None:
    """The same holds if another claim has the item, and if another process holds the fence."""
    await paused(ledger)
    await ledger.commit(Change().send_raw("deliver.email", "kept", {"n": 1}))
    (item,) = (await ledger.claim("deliver.email")).items
    stolen = dataclasses.replace(item, token="feedbeef")
    before = await snapshot()
    for change in (Change().ack(stolen), Change().retry(stolen, after=0)):
        with pytest.raises(LeaseLost, match="lease of kept is not ours"):
            await ledger.commit(change.put_raw("other", "{}").send_raw("route", "x", {}))
    with pytest.raises(LeaseLost, match="lease:x"):
        await ledger.commit(Change().fence("lease:x", "t").put_raw("other", "{}").ack(item))
    assert await snapshot() == before


async def test_each_commit_of_a_batch_is_atomic(ledger: Ledger) -> None:
    """In one round trip, a conflicting commit does not affect the others."""
    problems = await ledger.commit_all(
        [
            Change().put_raw("a", "1"),
            Change().put_raw("a", "2"),
            Change().put_raw("b", "3"),
        ]
    )
    assert [type(problem) for problem in problems] == [type(None), Conflict, type(None)]
    assert await ledger.raw("a") == (1, "1")
    assert await ledger.raw("b") == (1, "3")
    assert await ledger.commit_all([]) == []


async def test_a_conflicting_change_does_not_block_others_in_its_commit(ledger: Ledger) -> None:
    """Of changes in one commit, only the conflicting one is left out, with its work."""
    await ledger.commit(Change().put_raw("taken", "1").send_raw("route", "a", {}))
    await ledger.commit(Change().send_raw("route", "b", {}))
    items = (await ledger.claim("route")).items
    lost = dataclasses.replace(items[0], token="feedbeef")
    changes = [
        Change().put_raw("first", "1").send_raw("deliver.email", "x", {}),
        Change().put_raw("taken", "2").send_raw("deliver.email", "y", {}),
        Change().ack(lost),
        Change().ack(items[1]),
        Change().put_raw("late", "1").before(EPOCH),
    ]
    problems = await ledger.commit_together(changes)
    kinds = [type(None), Conflict, LeaseLost, type(None), Conflict]
    assert [type(problem) for problem in problems] == kinds
    assert await ledger.raw("first") == (1, "1")
    assert await ledger.raw("late") is None
    assert await ledger.backlog() == {"deliver.email": 1, "route": 1}
    assert await ledger.commit_together([]) == []


async def test_records_of_one_commit_share_its_mark(ledger: Ledger) -> None:
    """The records of one commit carry its mark, and the audit keeps the order of all entries."""
    run, (approval,) = await paused(ledger)
    events = [approval.note(What.DELAYED, now=run.submitted_at, by=str(n)) for n in range(40)]
    changes = [Change().put_raw(f"k{n}", "").note([event]) for n, event in enumerate(events)]
    assert [len(group) for group in groups(changes)] == [16, 16, 8]
    assert len(list(groups([Change().put_raw("one", "1"), Change().put_raw("one", "2")]))) == 2
    assert await ledger.commit_together(changes) == [None] * 40
    assert [one.by for one in await ledger.history(approval.id) if one.what is What.DELAYED] == [
        str(n) for n in range(40)
    ]
    await audit.verify(ledger.store)


async def test_a_change_builds_on_an_earlier_change_of_the_same_commit(ledger: Ledger) -> None:
    """The answers of one run are applied in order when they are committed with other changes."""
    run, siblings = await paused(ledger, siblings=3)
    _, (stranger,) = await paused(ledger)
    changes, latest = list[Change](), run
    for sibling in siblings:
        after = latest.answered(sibling.id, each=False)
        change = Change().put(after, was=latest)
        if changes:
            change.upon(changes[-1], latest)
        changes.append(change)
        latest = change.leaves(latest)
    withdrawn, events = stranger.withdraw(by="riley", reason="enough", now=run.submitted_at)
    beside = Change().put(withdrawn, was=stranger).note(events)
    together = [changes[0], beside, *changes[1:]]
    assert [len(group) for group in groups(together)] == [2, 1, 1]
    assert await ledger.commit_together(together) == [None] * 4
    assert (await ledger.run(run.id)).state is RunState.ANSWERED
    overtaken = Change().put(latest.model_copy(update={"text": "no"}), was=latest)
    await ledger.commit(Change().put(latest, was=latest))
    overtaken.upon(changes[-1], latest)
    assert isinstance((await ledger.commit_all([overtaken]))[0], Conflict)


@pytest.mark.parametrize(
    "text",
    [
        "with spaces and 'quotes' and \"double\" ones",
        "lines\nand\r\nmore\ttabs\n",
        "\x00\x01\x7f nul",
        "émoji 👩‍👩‍👧 \u202e",
        "12 - 34 abc",
        "- % %s %d [a] {b} \\ \\u0041",
        "lone \udcff surrogate",
        "x" * 500_000,
        "",
    ],
    ids=lambda text: repr(text[:12]),
)
async def test_any_text_goes_through_the_outbox(ledger: Ledger, text: str) -> None:
    """A body comes out unchanged, also after it was put back."""
    body: dict[str, JsonValue] = {
        "text": text,
        "empty": [],
        "none": {},
        "n": 2**63,
        "f": 1e300,
        "deep": [[[[[]]]]],
    }
    await ledger.commit(Change().send_raw("route", "x", body))
    (item,) = (await ledger.claim("route")).items
    assert item.body == body
    await ledger.commit(Change().retry(item, after=0))
    (again,) = (await ledger.claim("route")).items
    assert (again.body, again.attempts) == (body, 2)
    assert again.token != item.token


async def test_a_name_without_a_utf_8_form_is_refused(ledger: Ledger) -> None:
    """An id with a lone surrogate is its sender's error, and nothing is committed."""
    with pytest.raises(UnicodeError):
        await ledger.commit(Change().send_raw("route", "\udcff", {"n": 1}))
    assert (await ledger.claim("route")).items == ()


async def test_any_text_goes_through_a_record(ledger: Ledger) -> None:
    """Any messages and arguments are read as they were written."""
    decider = Decider(ledger, people())
    message = 'Reimburse\n  $2500 – "now" \\ \u2028 {}'
    run = await decider.submit("finance", message, user="riley")
    assert (await ledger.run(run.id)).message == message
    value: object = 1
    for _ in range(90):
        value = [value]
    args = {"deep": value, "big": 2**200, "f": 0.1 + 0.2, "e": [], "o": {}}
    approval = make_approval().model_copy(
        update={"call": make_approval().call.model_copy(update={"args": args})}
    )
    await ledger.commit(Change().put(approval, was=None))
    assert (await ledger.approval(approval.id)).call.args == args


async def test_raw_records(ledger: Ledger) -> None:
    """They have versions, can be deleted, can expire, and keep text that UTF-8 cannot encode."""
    await ledger.commit(Change().put_raw("r", '"\udcff"'))
    assert await ledger.raw("r") == (1, '"\\udcff"')
    await ledger.commit(Change().put_raw("r", "2", was=1, ttl=timedelta(hours=1)))
    assert await ledger.raw("r") == (2, "2")
    assert 0 < await ledger.store.client.pttl(f"{ledger.store.prefix}r") <= 3_600_000
    await ledger.commit(Change().put_raw("r", "", was=2))
    assert await ledger.raw("r") is None
    await ledger.commit(Change().put_raw("gone", "1", ttl=timedelta(seconds=-1)))
    assert await ledger.store.client.pttl(f"{ledger.store.prefix}gone") in {-2, 0, 1}


async def test_one_of_fifty_concurrent_decisions_is_recorded(
    ledger: Ledger, redis_url: str, prefix: str
) -> None:
    """Fifty people decide concurrently over connections of their own; one decision is recorded."""
    _, (approval,) = await paused(ledger)
    stores = [Store.open(redis_url, prefix=prefix, size=13) for _ in range(4)]
    desks = [Decider(Ledger(store), people()) for store in stores]

    async def decide(number: int) -> str:
        decider, person = desks[number % 4], (MARA, CLEO)[number // 2 % 2]
        answer = decider.approve if number % 2 else decider.reject
        try:
            decided = await answer(approval.id, person, channel="email", reason=str(number))
        except AlreadyDecided:
            return ""
        assert decided.decision is not None
        return decided.decision.reason

    outcomes = await asyncio.gather(*(decide(number) for number in range(50)))
    winners = [outcome for outcome in outcomes if outcome]
    stands = await ledger.approval(approval.id)
    assert stands.decision is not None
    assert winners == [stands.decision.reason]
    whats = [event.what for event in await ledger.history(approval.id)]
    assert len([what for what in whats if what in {"approved", "rejected"}]) == 1
    await audit.verify(ledger.store)
    for store in stores:
        await store.close()


async def test_a_run_resumes_once_after_its_last_approval_is_decided(
    ledger: Ledger, decider: Decider
) -> None:
    """Forty siblings decided at the same time put exactly one resume into the outbox."""
    run, approvals = await paused(ledger, siblings=40)
    for one in approvals[:5]:
        await decider.approve(one.id, MARA, channel="email")
    assert (await ledger.run(run.id)).state is RunState.PAUSED
    assert (await ledger.claim("resume.finance")).items == ()
    await asyncio.gather(
        *(decider.reject(one.id, CLEO, channel="email", reason="no") for one in approvals[5:])
    )
    answered = await ledger.run(run.id)
    assert (answered.state, answered.waiting) == (RunState.ANSWERED, ())
    items = (await ledger.claim("resume.finance")).items
    assert [item.work for item in items] == [ResumeRun(app="finance", run=run.id, pause=1)]
    outcomes = (await ledger.claim("deliver.email", limit=1000)).items
    assert {item.id for item in outcomes} == {
        f"outcome:{one.id}:{person}" for one in approvals for person in ("mara", "cleo")
    }


async def test_a_decision_at_the_deadline_is_refused(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """An answer at the deadline is too late, even if no timer has run yet."""
    _, (first, second) = await paused(still_ledger, siblings=2, within=timedelta(hours=1))
    clock.advance(timedelta(hours=1) - timedelta(microseconds=1))
    await still_decider.approve(first.id, MARA, channel="email")
    clock.advance(timedelta(microseconds=1))
    with pytest.raises(TooLate):
        await still_decider.approve(second.id, MARA, channel="email")
    assert (await still_ledger.approval(second.id)).state is State.PENDING


async def test_a_commit_after_the_deadline_is_refused(
    still_ledger: Ledger,
    still_decider: Decider,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that pauses between reading and committing does not decide too late."""
    _, (approval,) = await paused(still_ledger, within=timedelta(hours=1))
    _two_hours_pass_before_commits(clock, monkeypatch)
    with pytest.raises(TooLate):
        await still_decider.approve(approval.id, MARA, channel="email")


async def test_a_commit_after_the_window_of_a_program_is_refused(
    still_ledger: Ledger,
    still_decider: Decider,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The window ends a program's request, even if its policy leaves it open after the deadline."""
    _, (was,) = await paused(still_ledger, on_timeout=OnTimeout.STAY)
    program = program_for(was, valid_for=timedelta(days=1))
    approval = was.model_copy(update={"program": program, "deadline": program.until})
    await still_ledger.commit(Change().put(approval, was=was))
    assert approval.stays_open
    _two_hours_pass_before_commits(clock, monkeypatch)
    with pytest.raises(TooLate):
        await still_decider.approve(approval.id, MARA, channel="email")


def _two_hours_pass_before_commits(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_all = Ledger.commit_all

    async def slowly(self: Ledger, changes: list[Change]) -> object:
        clock.advance(timedelta(hours=2))
        return await commit_all(self, changes)

    monkeypatch.setattr(Ledger, "commit_all", slowly)


async def test_a_repeated_commit_is_recognised(ledger: Ledger, snapshot: Snapshot) -> None:
    """A repeated commit is not a conflict, and is not applied twice."""
    run, (approval,) = await paused(ledger)
    after, events = approval.approve(MARA, people(), channel="email", now=approval.opened_at)
    change = Change().put(after, was=approval).put(run.answered(approval.id), was=run)
    change.note(events).send_raw("resume.finance", "r", {})
    await ledger.commit(change)
    before = await snapshot()
    await ledger.commit(change)
    assert await snapshot() == before
    with pytest.raises(Conflict):
        await ledger.commit(change.copy())


async def test_a_repeated_commit_that_deletes_and_writes_is_recognised(
    ledger: Ledger, snapshot: Snapshot
) -> None:
    """The deleted record is missing when the commit is repeated, which is not a conflict."""
    await ledger.commit(Change().put_raw("old", "1"))
    change = Change().put_raw("old", "", was=1).put_raw("new", "2")
    await ledger.commit(change)
    before = await snapshot()
    await ledger.commit(change)
    assert await snapshot() == before
    with pytest.raises(Conflict, match="old was changed"):
        await ledger.commit(change.copy())


async def test_a_repeated_commit_that_leaves_no_record_is_recognised(
    ledger: Ledger, snapshot: Snapshot
) -> None:
    """Acknowledging, noting and deleting are not repeated either."""
    approval = make_approval()
    await ledger.commit(Change().send_raw("route", "a", {}).put_raw("gone", "1"))
    (item,) = (await ledger.claim("route")).items
    event = approval.note(What.IGNORED_MAIL, now=approval.opened_at)
    change = Change().ack(item).note([event]).put_raw("gone", "", was=1)
    await ledger.commit(change)
    before = await snapshot()
    await ledger.commit(change)
    assert await snapshot() == before
    with pytest.raises(Conflict):
        await ledger.commit(change.copy())


async def test_the_last_write_of_a_commit_decides_about_an_index_entry(ledger: Ledger) -> None:
    """It counts whether writes before it have added the entry, dropped it or scored it anew."""
    kept, gone = ("index", "kept", 1), ("index", "gone", 1)
    # Lua cannot pass as many to a command at once.
    many = [("index", f"m{n}", n) for n in range(9_000)]
    await ledger.commit(Change().put_raw("a", "1", add=[kept, ("other", "only", 1)]))
    dropping = Change().put_raw("a", "2", was=1, add=[gone], drop=[kept, ("other", "only", 1)])
    adding = Change().put_raw("b", "1", add=[("index", "kept", 2), *many], drop=[gone])
    again = Change().put_raw("c", "1", add=[("index", "kept", 3)], drop=[kept])
    assert await ledger.commit_together([dropping, adding, again]) == [None] * 3
    (found, none) = await ledger.store.scored(["index", "other"])
    assert found == {"kept": 3, **{name: score for _, name, score in many}}
    assert none == {}


async def test_a_change_that_writes_one_record_twice_is_refused() -> None:
    """With two values for one record, one of them would be lost."""
    approval = make_approval()
    other = approval.model_copy(update={"hint": "x"})
    change = Change().put(approval, was=None)
    with pytest.raises(ValueError, match="written twice"):
        change.put(other, was=None)
    change.put(other, was=approval)
    with pytest.raises(ValueError, match="written twice"):
        change.copy().put(other, was=approval)


async def test_a_refusal_only_adds_an_audit_entry(
    ledger: Ledger, decider: Decider, snapshot: Snapshot
) -> None:
    """A refusal adds an entry to the audit and changes nothing else."""
    _, (approval,) = await paused(ledger, asked=[MARA, RILEY])
    before = await snapshot()
    stranger = Person(id="mallory", email="mallory@example.com")
    for person, error in (
        (RILEY, OwnRequest),
        (CLEO, NotAnApprover),
        (stranger, NotAnApprover),
    ):
        with pytest.raises(error):
            await decider.approve(approval.id, person, channel="email")
    with pytest.raises(ApprovalNotFound, match="no approval 'ap_x'"):
        await decider.approve("ap_x", MARA, channel="email")
    with pytest.raises(RunNotFound):
        await ledger.run("run_x")
    after = await snapshot()
    changed = {key for key in after.keys() | before.keys() if after.get(key) != before.get(key)}
    kinds = {key.partition(b"}:")[2].partition(b":")[0] for key in changed}
    assert kinds <= {b"audit", b"done", b"trail", b"trails"}
    refused = [one for one in await ledger.history(approval.id) if one.what is What.REFUSED_ANSWER]
    assert [one.by for one in refused] == ["riley", "cleo", "mallory"]


async def test_a_decision_and_its_mail_are_committed_together(
    ledger: Ledger, decider: Decider
) -> None:
    """The commit that records an answer also acknowledges its mail."""
    _, (approval,) = await paused(ledger)
    await ledger.commit(Change().send_raw("intake", "mail-1", {}))
    (item,) = (await ledger.claim("intake")).items
    also = Change().ack(item)
    await decider.approve(approval.id, MARA, channel="email", also=also)
    assert (await ledger.backlog())["intake"] == 0
    assert also.writes == []


async def test_submitting_again_with_the_same_id_returns_the_same_run(
    ledger: Ledger, decider: Decider
) -> None:
    """With an id of the caller's own, a lost answer does no harm."""
    one = await decider.submit("finance", "hi", user="riley", run_id="mine")
    other = await decider.submit("finance", "hi", user="riley", run_id="mine")
    assert (one.session, other.version) == (other.session, 1)
    assert (await ledger.backlog()) == {"run.finance": 1}
    assert await ledger.session_runs("finance", "riley", one.session) == [other]
    assert await ledger.session_runs("finance", "riley", one.session[:-1]) == []


async def test_an_invalid_submission_is_refused_with_the_invalid_part(decider: Decider) -> None:
    """The error names the invalid part in Signoff's own words."""
    with pytest.raises(InvalidRun, match="message"):
        await decider.submit("finance", "", user="riley")
    with pytest.raises(InvalidRun, match="app"):
        await decider.submit("../etc", "hi", user="riley")


async def test_a_withdrawn_approval_answers_its_run_and_cannot_be_decided(
    ledger: Ledger, decider: Decider
) -> None:
    """A withdrawn approval answers its run like a decided one, and cannot be decided."""
    run, (approval,) = await paused(ledger)
    await decider.withdraw(approval.id, by="riley", reason="changed my mind")
    assert (await ledger.run(run.id)).state is RunState.ANSWERED
    with pytest.raises(AlreadyDecided, match="already withdrawn by Riley Voss"):
        await decider.approve(approval.id, MARA, channel="email")


async def test_lists(ledger: Ledger, decider: Decider) -> None:
    """Waiting approvals, also by person, and ended ones are listed from either end and in parts."""
    runs = [(await paused(ledger, within=timedelta(hours=h)))[1][0] for h in (3, 1, 2)]
    three, one, two = (approval.id for approval in runs)
    assert [approval.id for approval in await ledger.pending()] == [one, two, three]
    assert [approval.id for approval in await ledger.pending(limit=2)] == [one, two]
    assert await ledger.pending(limit=0) == []
    assert [approval.id for approval in await ledger.inbox("mara")] == [three, one, two]
    await decider.approve(one, MARA, channel="email")
    await decider.reject(two, MARA, channel="email")
    assert [approval.id for approval in await ledger.decided()] == [two, one]
    assert [approval.id for approval in await ledger.inbox("cleo")] == [three]
    assert len(await ledger.recent_runs()) == 3
    assert await ledger.inbox("nobody") == []


async def test_a_record_that_cannot_be_read(ledger: Ledger) -> None:
    """The error names it and what to do; the other records are still listed."""
    _, (good,) = await paused(ledger)
    _, (bad,) = await paused(ledger)
    key = f"{ledger.store.prefix}approval:{bad.id}"
    await ledger.store.client.set(key, '2 x {"from":"a newer version"}')
    with pytest.raises(RecordUnreadable, match=f"approval:{bad.id} cannot be read") as caught:
        await ledger.approval(bad.id)
    assert isinstance(caught.value, SignoffError)
    assert [one.id for one in await ledger.pending()] == [good.id]


async def test_history_is_in_order(ledger: Ledger) -> None:
    """Entries of one millisecond keep the order in which they were written."""
    approval = make_approval(origin=make_origin(run="run_h"))
    change = Change().put(approval, was=None)
    for number in range(30):
        _, events = deliveries.delivered(approval, "mara", "email", "<1>", now=approval.opened_at)
        change.note([events[0].model_copy(update={"why": str(number)})])
    await ledger.commit(change)
    for subject in (approval.id, "run_h"):
        events_read = await ledger.history(subject)
        assert [event.why for event in events_read] == [str(number) for number in range(30)]
    assert await ledger.history("nothing") == []


async def test_an_approval_is_read_with_its_run_and_the_server_time(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A record that was written in another form is read too, in two steps."""
    run, (approval,) = await paused(still_ledger)
    stands = (await still_ledger.approval(approval.id), await still_ledger.run(run.id))
    assert await still_ledger.current(approval.id) == (*stands, clock.now())
    key = f"{still_ledger.store.prefix}approval:{approval.id}"
    version, mark, data = str(await still_ledger.store.client.get(key)).split(" ", 2)
    turned = json.dumps(dict(reversed(json.loads(data).items())), indent=1)
    await still_ledger.store.client.set(key, f"{version} {mark} {turned}")
    assert await still_ledger.current(approval.id) == (*stands, clock.now())
    await still_ledger.store.client.delete(f"{still_ledger.store.prefix}run:{run.id}")
    with pytest.raises(RunNotFound):
        await still_ledger.current(approval.id)
    with pytest.raises(ApprovalNotFound):
        await still_ledger.current("ap_none")


async def test_a_refused_addition_submits_no_run(ledger: Ledger) -> None:
    """The error says what has changed, and not that a run is missing."""
    await ledger.commit(Change().put_raw("key:1", "taken"))
    with pytest.raises(Conflict, match="key:1"):
        await submit(ledger, "finance", "hi", user="riley", also=Change().put_raw("key:1", "again"))
    assert await ledger.recent_runs() == []
