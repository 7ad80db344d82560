"""The batched processing of the due index while other processes change the same approvals."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from types import SimpleNamespace

import pytest

from builders import MARA, paused, people, present
from deciding import Decider
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Current, Ledger
from signoff.broker.timers import due_approvals
from signoff.broker.timers.due_approvals import HEARS, DueApprovals
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import NotAnApprover, SignoffError, TooLate
from signoff.core.directory.people import Person
from signoff.core.policies.levels import Earlier, Level
from signoff.core.policies.policy import OnTimeout
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)
DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")


async def ended(ledger: Ledger) -> Counter[str]:
    """Return how often each approval has timed out."""
    events = [Event.model_validate_json(text) async for _, text, _ in audit.entries(ledger.store)]
    return Counter(event.approval for event in events if event.what is What.TIMED_OUT)


@pytest.mark.parametrize("siblings", [1, 30])
async def test_concurrent_sweepers_end_each_due_approval_once(
    still_ledger: Ledger, clock: VirtualClock, siblings: int
) -> None:
    """Four share the due approvals, even if many of them belong to one run."""
    paused_ = [await paused(still_ledger, siblings=siblings, within=HOUR) for _ in range(3)]
    approvals = {one.id for _, opened in paused_ for one in opened}
    clock.advance(HOUR)
    sweeps = [DueApprovals(Decider(still_ledger, people()).roster, batch=7) for _ in range(4)]
    claimed = await asyncio.gather(*(sweep.once() for sweep in sweeps))
    assert sum(claimed) == len(approvals)
    assert await ended(still_ledger) == Counter(approvals)
    runs = await still_ledger.runs([run.id for run, _ in paused_])
    assert {run.state for run in runs} == {RunState.ANSWERED}
    assert {run.waiting for run in runs} == {()}


class Racing(Ledger):
    """Runs a function once between the reading of a batch and its commit."""

    withdraws = ""

    async def current_all(self, ids: Sequence[str]) -> list[Current | SignoffError]:
        """Read, and then let the requester withdraw first."""
        found = await super().current_all(ids)
        if loser := self.withdraws:
            self.withdraws = ""
            await Decider(Ledger(self.store), people()).withdraw(loser, by="riley", reason="enough")
        return found


async def test_a_lost_race_is_looked_at_again(still_ledger: Ledger, clock: VirtualClock) -> None:
    """The faster change wins; a sibling in the same commit still times out."""
    run, (faster, sibling) = await paused(still_ledger, siblings=2, within=HOUR)
    clock.advance(HOUR)
    racing = Racing(still_ledger.store)
    racing.withdraws = faster.id
    assert await DueApprovals(Decider(racing, people()).roster).once() == 2
    states = [one.state for one in await still_ledger.approvals([faster.id, sibling.id])]
    assert states == [State.WITHDRAWN, State.TIMED_OUT]
    assert await ended(still_ledger) == Counter([sibling.id])
    assert (await still_ledger.run(run.id)).state is RunState.ANSWERED


async def approved_by_silence(ledger: Ledger) -> Approval:
    """Ask Mara and Cleo for an hour about a call that silence approves."""
    _, (asked,) = await paused(ledger, within=HOUR, on_timeout=OnTimeout.APPROVE)
    terms = present(asked.terms).model_copy(update={"under_ceiling": True})
    await ledger.commit(Change().put(asked.model_copy(update={"terms": terms}), was=asked))
    return await ledger.approval(asked.id)


def sweep_of(ledger: Ledger) -> DueApprovals:
    """Return timers, as a process has them."""
    return DueApprovals(Decider(ledger, people()).roster)


async def test_silence_approves_at_the_deadline(still_ledger: Ledger, clock: VirtualClock) -> None:
    """Mail that comes in afterwards is late, and holds nothing up."""
    approval = await approved_by_silence(still_ledger)
    clock.advance(HOUR)
    await sweep_of(still_ledger).once()
    assert (await still_ledger.approval(approval.id)).state is State.APPROVED


async def test_silence_waits_for_mail_that_is_not_read(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """It was acknowledged before the deadline, and may reject the call."""
    approval, sweep = await approved_by_silence(still_ledger), sweep_of(still_ledger)
    await still_ledger.commit(Change().send_raw(stages.INTAKE, "early", {}))
    clock.advance(HOUR)
    for late in ("later", "latest"):
        await sweep.once()
        assert (await still_ledger.approval(approval.id)).state is State.PENDING
        await still_ledger.commit(Change().send_raw(stages.INTAKE, late, {}))
        clock.advance(timedelta(seconds=11))
    (early,) = (await still_ledger.claim(stages.INTAKE, limit=1)).items
    await still_ledger.commit(Change().ack(early))
    await sweep.once()
    assert (await still_ledger.approval(approval.id)).state is State.APPROVED


async def test_silence_says_nothing_while_nobody_reads_mail(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """Neither if a mail is still unread after a minute, nor if all processes were down."""
    unread, sweep = await approved_by_silence(still_ledger), sweep_of(still_ledger)
    await still_ledger.commit(Change().send_raw(stages.INTAKE, "early", {}))
    clock.advance(HOUR)
    await sweep.once()
    assert (await still_ledger.approval(unread.id)).state is State.PENDING
    clock.advance(HEARS + timedelta(seconds=1))
    await sweep.once()
    down = await approved_by_silence(still_ledger)
    clock.advance(2 * HOUR)
    await sweep.once()
    for one in (unread, down):
        after = await still_ledger.approval(one.id)
        assert after.state is State.TIMED_OUT
        assert "answers could not be read" in present(after.decision).reason


@pytest.mark.parametrize("slept", [False, True])
async def test_silence_counts_only_while_the_process_was_awake(
    still_ledger: Ledger, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, *, slept: bool
) -> None:
    """A process that was suspended at the deadline could not hear; one that was only busy could."""
    uptime = SimpleNamespace(monotonic=lambda: clock.now().timestamp())
    monkeypatch.setattr(due_approvals, "time", uptime)
    approval, sweep = await approved_by_silence(still_ledger), sweep_of(still_ledger)
    step = HOUR if slept else HEARS / 2
    while clock.now() < present(approval.deadline) + 5 * HEARS:
        clock.advance(step)
        sweep.awake()
    await sweep.once()
    expected = State.TIMED_OUT if slept else State.APPROVED
    assert (await still_ledger.approval(approval.id)).state is expected


async def test_a_late_no_is_not_silence(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """It is refused and decides nothing, but nobody can say that nobody objected."""
    approval, other = [await approved_by_silence(still_ledger) for _ in range(2)]
    clock.advance(HOUR)
    with pytest.raises(TooLate):
        await still_decider.reject(approval.id, MARA, channel="email", reason="no")
    with pytest.raises(TooLate):
        await still_decider.approve(other.id, MARA, channel="email")
    with pytest.raises(NotAnApprover):
        await still_decider.reject(other.id, DAN, channel="email", reason="no")
    await sweep_of(still_ledger).once()
    after = await still_ledger.approval(approval.id)
    assert after.state is State.TIMED_OUT
    assert "mara has rejected it since" in present(after.decision).reason
    assert (await still_ledger.approval(other.id)).state is State.APPROVED


@pytest.mark.parametrize("earlier", Earlier)
async def test_a_late_no_is_not_silence_if_a_level_without_people_follows(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, earlier: Earlier
) -> None:
    """The level is skipped, so the rejection came after the end and not at an earlier level."""
    asked = await approved_by_silence(still_ledger)
    levels = (Level(ask=("mara",), within="1h"), Level(ask=("gone",), earlier=earlier))
    terms = present(asked.terms).model_copy(update={"levels": levels})
    await still_ledger.commit(Change().put(asked.model_copy(update={"terms": terms}), was=asked))
    clock.advance(HOUR)
    with pytest.raises(TooLate):
        await still_decider.reject(asked.id, MARA, channel="email", reason="no")
    await sweep_of(still_ledger).once()
    after = await still_ledger.approval(asked.id)
    assert after.state is State.TIMED_OUT
    assert "mara has rejected it since" in present(after.decision).reason


@pytest.mark.parametrize("text", ["9 x {}", "not a record"])
async def test_a_failing_due_approval_does_not_block_its_batch(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, text: str
) -> None:
    """The rest of its batch is processed; the failed one is tried again after its lease."""
    store = still_ledger.store
    bad, lost, good = [(await paused(still_ledger, within=HOUR))[1][0] for _ in range(3)]
    await store.client.set(f"{store.prefix}approval:{bad.id}", text)
    await store.client.delete(f"{store.prefix}run:{lost.origin.run}")
    clock.advance(HOUR)
    assert await DueApprovals(still_decider.roster).once() == 3
    assert await ended(still_ledger) == Counter([good.id])
    clock.advance(timedelta(seconds=10))
    assert set(await still_ledger.due()) == {bad.id, lost.id}
