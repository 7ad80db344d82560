"""`signoff freeze` in the ledger: it is audited, shown on cards, and may be overridden."""

from __future__ import annotations

import json

import pytest

from builders import CLEO, MARA, RILEY, paused
from deciding import Decider
from signoff.broker import stages
from signoff.broker.freezes import Freezes
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger, Look
from signoff.broker.work import ResumeRun, StartRun, TellMove
from signoff.channels.pipeline.notices import tell_move
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.moves import Actor
from signoff.core.approvals.parts import Assurance
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalError,
    FreezeRefused,
    Frozen,
    LedgerUnavailable,
    NotAnApprover,
    NotShownInFull,
    OwnRequest,
    ReasonNeeded,
    SecondFactorNeeded,
)
from signoff.core.cards.card import card
from signoff.core.directory.people import Directory

WHY = "the bank called"


async def frozen(ledger: Ledger, *, app: str = "", tool: str = "") -> Freezes:
    """Freeze an app, a tool or both, as an operator does."""
    freezes = Freezes(ledger)
    await freezes.freeze(by="ops", why=WHY, app=app, tool=tool)
    return freezes


async def events(ledger: Ledger, what: What) -> list[Event]:
    """Return the entries of one kind."""
    found = [Event.model_validate_json(text) async for _, text, _ in audit.entries(ledger.store)]
    return [one for one in found if one.what is what]


async def with_glass(ledger: Ledger, **terms: object) -> Approval:
    """Return an approval that asks Mara and Cleo; Cleo alone may break the glass."""
    _, (was,) = await paused(ledger)
    assert was.terms is not None
    changed = was.terms.model_copy(update={"break_glass": ("cleo",), **terms})
    after = was.model_copy(update={"terms": changed})
    await ledger.commit(Change().put(after, was=was))
    return await ledger.approval(was.id)


async def start(ledger: Ledger, approval_id: str) -> None:
    """Record the start of an approval's call as the guard does."""
    was = await ledger.approval(approval_id)
    after, noted = was.hand_on(Handoff.STARTED, now=await ledger.now())
    change = Change().put(after, was=was).note(noted)
    change.starting(was.origin.app, [was.call.name], despite=was.despite)
    await ledger.commit(change)


def breaking(reason: str = "the plane leaves at noon") -> moves.BreakGlass:
    """Return the move to break the glass."""
    return moves.BreakGlass(reason=reason)


async def test_a_freeze_and_its_end_are_in_the_audit(ledger: Ledger) -> None:
    """Both entries have the person, the reason and the scope; the chain stays valid."""
    freezes = await frozen(ledger, app="finance", tool="reimburse")
    await freezes.thaw(app="finance", tool="reimburse", by="dan", why="all clear")
    (began,), (ended,) = await events(ledger, What.FROZEN), await events(ledger, What.THAWED)
    assert (began.by, began.why, ended.by, ended.why) == ("ops", WHY, "dan", "all clear")
    assert (began.more["app"], began.more["tool"]) == ("finance", "reimburse")
    assert began.more["id"] == ended.more["id"]
    assert await freezes.all() == ()
    await audit.verify(ledger.store)


async def test_a_freeze_needs_a_reason_and_cannot_be_duplicated(ledger: Ledger) -> None:
    """A refused freeze says which freeze exists already."""
    freezes = await frozen(ledger, tool="reimburse")
    with pytest.raises(FreezeRefused, match="ops has already frozen reimburse\\(\\): the bank"):
        await freezes.freeze(tool="reimburse", by="dan", why="again")
    with pytest.raises(FreezeRefused, match="needs a reason"):
        await freezes.freeze(tool="pay", by="dan", why=" ")
    with pytest.raises(FreezeRefused, match=r"everything is not frozen\. Frozen is reimburse"):
        await freezes.thaw(by="dan")
    assert [one.stops for one in await freezes.all()] == ["reimburse()"]


async def test_a_card_of_a_frozen_tool_shows_the_freeze(ledger: Ledger, decider: Decider) -> None:
    """A card is always made from the current people and freezes."""
    _, (approval,) = await paused(ledger)
    was = await ledger.approval(approval.id)
    delivered = tuple(one.model_copy(update={"receipt": "r1"}) for one in was.asked)
    after = was.model_copy(update={"asked": delivered})
    await ledger.commit(Change().put(after, was=was))
    before = (await ledger.backlog()).get(stages.deliver("email"), 0)

    await frozen(ledger, tool="reimburse")
    await decider.roster.refresh()
    told = card(after, decider.directory).warnings
    assert told == (
        "reimburse() is frozen by ops: the bank called. An approved call waits until it is thawed.",
    )
    assert (await ledger.backlog())[stages.deliver("email")] == before + len(after.asked)

    await Freezes(ledger).thaw(tool="reimburse", by="ops")
    await decider.roster.refresh()
    assert card(after, decider.directory).warnings == ()


async def test_breaking_the_glass_starts_a_frozen_call(ledger: Ledger, decider: Decider) -> None:
    """It starts despite the current freezes, and not despite later ones."""
    approval = await with_glass(ledger)
    await decider.approve(approval.id, MARA, channel="cli")
    freezes = await frozen(ledger, tool="reimburse")
    with pytest.raises(Frozen):
        await start(ledger, approval.id)
    done = await decider.made(approval.id, breaking(), CLEO, channel="inbox")
    assert (done.state, done.glass is not None and done.glass.by) == (State.APPROVED, "cleo")
    await freezes.thaw(tool="reimburse", by="ops")
    await freezes.freeze(tool="reimburse", by="ops", why="once more")
    with pytest.raises(Frozen, match="once more"):
        await start(ledger, approval.id)
    done = await decider.made(approval.id, breaking(), CLEO, channel="inbox")
    await start(ledger, approval.id)
    assert (await ledger.approval(approval.id)).handoff is Handoff.STARTED


async def test_breaking_the_glass_approves_an_unanswered_call(
    ledger: Ledger, decider: Decider
) -> None:
    """It is approved by them, and every view says how."""
    approval = await with_glass(ledger, quorum=2)
    done = await decider.made(approval.id, breaking(), CLEO, channel="cli")
    assert done.state is State.APPROVED
    assert done.outcome(decider.directory) == "approved by Cleo Park alone, who broke the glass"
    assert card(done, decider.directory).warnings == (
        "Cleo Park broke the glass: the plane leaves at noon",
    )
    (broken,) = await events(ledger, What.GLASS_BROKEN)
    assert (broken.by, broken.why) == ("cleo", "the plane leaves at noon")
    await start(ledger, approval.id)


async def test_breaking_the_glass_alerts_everyone_who_was_asked(
    ledger: Ledger, decider: Decider
) -> None:
    """Everybody who was asked gets one alarm, except the person who broke the glass."""
    approval = await with_glass(ledger)
    done = await decider.made(approval.id, breaking(), CLEO, channel="cli")
    (broken,) = await events(ledger, What.GLASS_BROKEN)
    work = TellMove.of(broken, version=done.version)
    change = tell_move(Change(), work, done, decider.directory, now=await ledger.now())
    bodies = [json.loads(str(one["body"])) for one in change.items]
    assert [one["person"] for one in bodies] == ["mara"]
    assert bodies[0]["headline"].startswith("ALARM: Cleo Park broke the glass")
    assert "the plane leaves at noon" in bodies[0]["text"]
    stage_items = await ledger.claim(stages.ROUTE)
    told = [item.work for item in stage_items.items if isinstance(item.work, TellMove)]
    assert What.GLASS_BROKEN in {one.move for one in told}


@pytest.mark.parametrize(
    ("actor", "reason", "error"),
    [
        (Actor(MARA, "cli"), "urgent", NotAnApprover),
        (Actor(RILEY, "cli"), "urgent", OwnRequest),
        (Actor(CLEO, "cli"), "  ", ReasonNeeded),
        (Actor(CLEO, "email"), "urgent", NotShownInFull),
        (Actor(CLEO, "slack"), "urgent", NotShownInFull),
    ],
)
async def test_only_permitted_people_with_a_reason_can_break_the_glass(
    ledger: Ledger, decider: Decider, actor: Actor, reason: str, error: type[ApprovalError]
) -> None:
    """Approvers and the requester cannot, nor can anybody without a reason or by mail."""
    approval = await with_glass(ledger, break_glass=("cleo", "riley"))
    await frozen(ledger)
    outcome = await decider.take(approval.id, breaking(reason), actor)
    with pytest.raises(error):
        outcome.approval_or_raise()
    assert (await ledger.approval(approval.id)).glass is None
    assert len(await events(ledger, What.REFUSED_ANSWER)) == 1


async def test_breaking_the_glass_needs_the_second_factor_of_an_approval(
    ledger: Ledger, decider: Decider
) -> None:
    """It needs the approval's second factor, and does not reopen an ended request."""
    approval = await with_glass(ledger, second_step=True)
    with pytest.raises(SecondFactorNeeded):
        await decider.made(approval.id, breaking(), CLEO, channel="inbox")
    proven = Actor(CLEO, "inbox", assurance=Assurance.SECOND_FACTOR)
    done = (await decider.take(approval.id, breaking(), proven)).approval_or_raise()
    assert done.state is State.APPROVED
    with pytest.raises(AlreadyDecided):
        await decider.made(approval.id, breaking(), CLEO, channel="inbox")


class _BrokenLedger(Ledger):
    """A ledger that loses Redis after the commit of a freeze, a thaw or a move."""

    async def pending(self, *, limit: int | None = None) -> list[Approval]:
        """Fail, as a lost connection does."""
        raise LedgerUnavailable("gone")

    async def look(self) -> Look:
        """Fail, as a lost connection does."""
        raise LedgerUnavailable("gone")


async def test_a_freeze_is_not_reported_as_failed_after_its_commit(ledger: Ledger) -> None:
    """If Redis is lost before the cards are rewritten, the caller still learns the truth."""
    freezes = Freezes(_BrokenLedger(ledger.store))
    made = await freezes.freeze(tool="reimburse", by="ops", why=WHY)
    assert await freezes.all() == (made,)
    assert await freezes.thaw(tool="reimburse", by="ops") == made
    assert await freezes.all() == ()


async def test_breaking_the_glass_is_not_reported_as_failed_after_its_commit(
    ledger: Ledger, directory: Directory
) -> None:
    """If Redis is lost before the held runs wake, they are checked within a minute."""
    approval = await with_glass(ledger)
    await ledger.commit(Change().send(StartRun(app="finance", run="run_1")))
    broken = Decider(_BrokenLedger(ledger.store), directory)
    done = await broken.made(approval.id, breaking(), CLEO, channel="cli")
    assert done.state is State.APPROVED


async def test_breaking_the_glass_makes_the_held_runs_of_its_app_due(
    ledger: Ledger, decider: Decider
) -> None:
    """They were put back until the thaw, and the broken freeze stops this one no more."""
    approval = await with_glass(ledger)
    held = ResumeRun(app=approval.origin.app, run="run_held", pause=1)
    await ledger.commit(Change().send(held, after=60))
    assert (await ledger.claim(held.stage)).items == ()
    await decider.made(approval.id, breaking(), CLEO)
    assert held.id in {one.id for one in (await ledger.claim(held.stage)).items}


@pytest.mark.parametrize("app", ["finance", ""])
@pytest.mark.parametrize("virtual", [False, True])
async def test_waking_makes_waiting_runs_due_and_no_leased_ones(
    ledger: Ledger, still_ledger: Ledger, app: str, *, virtual: bool
) -> None:
    """A worker that runs one keeps it, and other stages wait on, whichever clock counts."""
    ledger = still_ledger if virtual else ledger
    stage, other = stages.run("finance"), stages.run("other")
    change = Change().send_raw(stage, "leased", {}).send_raw(stage, "back", {})
    await ledger.commit(change.send_raw(stage, "new", {}, after=60).send_raw("route", "x", {}))
    await ledger.commit(Change().send_raw("later", "y", {}, after=60))
    await ledger.commit(Change().send_raw(other, "z", {}, after=60))
    held = {one.id: one for one in (await ledger.claim(stage, lease=60)).items}
    await ledger.commit(Change().retry(held["back"], after=60))
    assert (await ledger.claim(stage)).items == ()

    await Freezes(ledger).wake(app)

    assert {one.id for one in (await ledger.claim(stage)).items} == {"back", "new"}
    assert len((await ledger.claim(other)).items) == (app == "")
    assert (await ledger.claim("later")).items == ()
    await ledger.commit(Change().ack(held["leased"]))
