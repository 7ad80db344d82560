"""Ended runs for the tests of the archive, of erasures and of backups."""

from __future__ import annotations

from datetime import timedelta

from builders import MARA, ask, make_call, make_origin, paused, people
from deciding import Decider
from signoff.broker.archive.archiver import Archiver
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval, Handoff
from signoff.core.approvals.run import Run

DAYS = timedelta(days=90)


async def drained(ledger: Ledger) -> None:
    """Take all work out of the outboxes, as if workers had done it."""
    for stage in await ledger.backlog():
        while items := (await ledger.claim(stage)).items:
            for item in items:
                await ledger.commit(Change().ack(item))


async def ended(
    ledger: Ledger, decider: Decider, *, siblings: int = 1, session: str = "", reason: str = "fine"
) -> tuple[Run, list[Approval]]:
    """Bring a run of Riley's to its end: Mara approves its request."""
    run, approvals = await paused(ledger, siblings=siblings, session=session)
    for one in approvals:
        await decider.approve(one.id, MARA, channel="email", reason=reason)
    change = Change()
    now = await ledger.now()
    for one in await ledger.approvals([one.id for one in approvals]):
        after = one
        for step in (Handoff.STARTED, Handoff.FINISHED, Handoff.RESUMED):
            after, events = after.hand_on(step, now=now)
            change.note(events)
        change.put(after, was=one)
    was = await ledger.run(run.id)
    done, noted = was.completed("Done.", now=now)
    await ledger.commit(change.put(done, was=was).note(noted))
    await drained(ledger)
    return await ledger.run(run.id), await ledger.approvals([one.id for one in approvals])


async def seeded(
    ledger: Ledger,
    count: int,
    *,
    waiting: int = 0,
    start: int = 0,
    ago: timedelta = timedelta(),
) -> list[str]:
    """Write many runs with one approval each; return the ids of the ended runs.

    Args:
        ledger: The ledger to write to.
        count: The number of ended runs.
        waiting: The number of further runs, which still wait.
        start: The number of the first run.
        ago: How long ago the runs were.
    """
    everybody = people()
    now, changes, ids = await ledger.now() - ago, list[Change](), list[str]()
    for number in range(start, start + count + waiting):
        is_over = number < start + count
        run = Run(
            id=f"run_{number:05}",
            app="finance",
            user="riley",
            session=f"s{number}",
            message="Reimburse me $2500",
            submitted_at=now,
        )
        origin = make_origin(run=run.id, session=run.session)
        opened, events = Approval.open(origin, make_call(), hint="", template=None, now=now)
        one, noted = ask(opened, now=now, within=timedelta(days=30)), list(events)
        run = run.paused([one.id])
        if is_over:
            one, events = one.approve(MARA, everybody, now=now, channel="email", reason="fine")
            noted += events
            run = run.answered(one.id)
            for step in (Handoff.STARTED, Handoff.FINISHED, Handoff.RESUMED):
                one, events = one.hand_on(step, now=now)
                noted += events
            run, events = run.completed("Done.", now=now)
            noted += events
            ids.append(run.id)
        changes.append(Change().put(one, was=None).put(run, was=None).note(noted))
    for first in range(0, len(changes), 200):
        problems = await ledger.commit_all(changes[first : first + 200])
        assert not any(problems)
    return ids


def archiver(ledger: Ledger, files: ArchiveFiles, *, after: timedelta = DAYS) -> Archiver:
    """Return an archiver."""
    return Archiver(ledger, files, after=after)
