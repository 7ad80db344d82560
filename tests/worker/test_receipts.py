"""A decision is signed when it is made, and verified when the tool runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from leaks import words_in
from signoff.broker import stages
from signoff.broker.ed25519 import ALGORITHM, Key
from signoff.broker.freezes import Freezes
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import metrics
from signoff.broker.monitoring.metrics import Sample
from signoff.broker.receipts import (
    TYPE,
    Receipts,
    key_text,
    keys_text,
    read_key,
    read_keys,
)
from signoff.core.approvals.approval import Approval, Decision, Handoff, State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import BreakGlass
from signoff.core.approvals.parts import Glass
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import CannotSign, ConfigError
from signoff.worker.adk.guard.guard import GuardPlugin
from worker.office import MARA, Office

KEY = Key.generate()
OTHER = Key.generate()

Forgery = Callable[[Approval, Approval], Approval]
"""Changes an approval, as code with the worker's Redis login could; also gets a signed one."""


def public(*keys: Key) -> list[Key]:
    """Return the public keys."""
    return read_keys(keys_text(keys))


@pytest.fixture
def signing(office: Office) -> Receipts:
    """Return an office whose worker verifies and whose decider signs, on the same Redis."""
    office.ledger.receipts = Receipts(lambda: public(KEY))
    signing = Receipts(lambda: public(KEY), lambda: KEY)
    office.decider.ledger = Ledger(office.ledger.store, receipts=signing)
    return signing


@contextmanager
def counted() -> Iterator[list[Sample]]:
    """Collect the receipts that are counted as unverified, which an alert is about."""
    found: list[Sample] = []

    def collect(sample: Sample) -> None:
        if sample[:2] == (metrics.RESUMES, ("unverified",)):
            found.append(sample)

    metrics.record_to(collect)
    try:
        yield found
    finally:
        metrics.record_to(None)


async def asked(office: Office) -> tuple[Run, Approval]:
    """Bring a run to its pause, and ask Mara."""
    run = await office.submit("finance", "Reimburse me $2500")
    (approval,) = await office.ask(run)
    return run, await office.ledger.approval(approval.id)


async def put(office: Office, run: Run, was: Approval, after: Approval) -> None:
    """Write an approval and the effects of its end, as code in a worker could."""
    worker = Ledger(office.ledger.store)
    answered = (await worker.run(run.id)).answered(was.id)
    change = Change().put(after, was=was).put(answered, was=await worker.run(run.id))
    await worker.commit(
        change.send_raw(
            stages.resume("finance"),
            f"{run.id}:{run.pause}",
            {
                "work": "resume_run",
                "app": run.app,
                "run": run.id,
                "pause": run.pause,
            },
        )
    )


def yes(approval: Approval, **more: Any) -> Approval:
    """Return an approval that names Mara as its decider."""
    decision = Decision(by="mara", at=approval.opened_at, channel="cli")
    return approval.model_copy(
        update={"state": State.APPROVED, "handoff": Handoff.RECORDED, "decision": decision, **more}
    )


async def test_a_signed_decision_runs_its_call(office: Office, signing: Receipts) -> None:
    """The receipt has person, channel, call and policy, and its entry is in the audit."""
    run, approval = await asked(office)
    await office.decider.approve(approval.id, MARA, channel="cli", reason="fine")
    done = await office.ledger.approval(approval.id)
    said = signing.read(done.receipt)
    assert (said["iss"], said["sub"], said["state"]) == ("signoff", approval.id, "approved")
    assert (said["by"], said["channel"], said["digest"]) == (["mara"], "cli", approval.digest)
    assert (said["policy"], said["proof"]) == ("test", {"channel": "cli"})
    assert words_in(json.dumps(said), "fine") == []
    entries = [text async for _, text, _ in audit.entries(office.ledger.store)]
    assert said["entry"] in [hashlib.sha256(text.encode()).hexdigest() for text in entries]
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


def _signed_by_nobody(approval: Approval, signed: Approval) -> Approval:
    return yes(approval)


def _signed_by_another_key(approval: Approval, signed: Approval) -> Approval:
    stranger = Receipts(lambda: public(OTHER), lambda: OTHER)
    forged = yes(approval)
    event = forged.note(What.APPROVED, now=forged.opened_at, by="mara")
    sealed = stranger.seal(forged, [event])
    head = signed.receipt.split(".")[0]
    return sealed.model_copy(update={"receipt": ".".join([head, *sealed.receipt.split(".")[1:]])})


def _with_the_receipt_of_another(approval: Approval, signed: Approval) -> Approval:
    return yes(approval, receipt=signed.receipt, decision=signed.decision)


def _unsigned_algorithm(approval: Approval, signed: Approval) -> Approval:
    return yes(approval, receipt="eyJhbGciOiJub25lIn0.e30.")


def _not_a_receipt(approval: Approval, signed: Approval) -> Approval:
    return yes(approval, receipt="no")


@pytest.mark.parametrize(
    "forgery",
    [
        _signed_by_nobody,
        _signed_by_another_key,
        _with_the_receipt_of_another,
        _unsigned_algorithm,
        _not_a_receipt,
    ],
)
async def test_approval_written_by_a_worker_runs_nothing_and_is_asked_about(
    office: Office, signing: Receipts, forgery: Forgery
) -> None:
    """The tool does not start, the audit has the reason, and then the approver decides."""
    earlier, other = await asked(office)
    await office.decider.approve(other.id, MARA, channel="cli")
    signed = await office.ledger.approval(other.id)
    await office.resume(earlier)

    run, approval = await asked(office)
    await put(office, run, approval, forgery(approval, signed))
    with counted() as unverified:
        run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert unverified
    assert len(office.executed()) == 1
    voided = await office.ledger.approval(approval.id)
    assert voided.handoff is Handoff.VOID
    (noted,) = [one for one in await office.ledger.history(approval.id) if one.what is What.VOIDED]
    assert "receipt" in noted.why or "signed" in noted.why
    (again,) = await office.ledger.approvals(run.waiting)
    assert (again.call, again.supersedes) == (approval.call, approval.id)
    assert "nothing proves it" in again.hint

    await office.approve(run)
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 2)


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "sha256:" + "0" * 64},
        {"decision": Decision(by="cleo", at="2026-03-02T09:00:00Z", channel="cli")},
        {"decision": Decision(by="mara", at="2036-03-02T09:00:00Z", channel="cli")},
        {"glass": Glass(by="mara", at="2026-03-02T09:00:00Z", channel="cli", reason="x")},
        {"state": State.REJECTED},
        {"receipt": ""},
        {"declared": "sha256:" + "0" * 64},
        {"needs": 0},
    ],
    ids=["call", "who", "when", "glass", "verdict", "receipt", "declared", "rules"],
)
async def test_whatever_was_signed_cannot_be_changed(
    office: Office, signing: Receipts, change: dict[str, Any]
) -> None:
    """Another call, person, time, verdict or break-glass does not match the receipt."""
    run, approval = await asked(office)
    await office.decider.approve(approval.id, MARA, channel="cli")
    was = await office.ledger.approval(approval.id)
    after = was.model_copy(update=change)
    await Ledger(office.ledger.store).commit(Change().put(after, was=was))
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.PAUSED, [])
    assert (await office.ledger.approval(approval.id)).handoff is Handoff.VOID


async def test_approval_changed_during_the_turn_runs_nothing(
    office: Office, signing: Receipts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard checks the approval that it marks as started, just before the tool."""
    run, approval = await asked(office)
    await office.decider.approve(approval.id, MARA, channel="cli")
    enter = GuardPlugin.enter

    async def changed_before(self: GuardPlugin, *args: Any) -> None:
        was = await office.ledger.approval(approval.id)
        forged = was.model_copy(update={"receipt": ""})
        await Ledger(office.ledger.store).commit(Change().put(forged, was=was))
        await enter(self, *args)

    with monkeypatch.context() as patch:
        patch.setattr(GuardPlugin, "enter", changed_before)
        run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.PAUSED, [])
    await office.approve(run)
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


async def test_keys_rotate_with_overlap(office: Office, signing: Receipts) -> None:
    """A receipt of the old key counts while its public key is listed; a new key is found."""
    known = public(KEY)
    office.ledger.receipts = Receipts(lambda: known)
    run, approval = await asked(office)
    await office.decider.approve(approval.id, MARA, channel="cli")
    assert (
        office.ledger.receipts.why_refused(
            await office.ledger.approval(approval.id), office.clock.now()
        )
        == ""
    )
    office.decider.ledger.receipts = Receipts(lambda: public(OTHER), lambda: OTHER)
    later, second = await asked(office)
    await office.decider.approve(second.id, MARA, channel="cli")
    later = await office.resume(later)
    assert (later.state, len(office.executed())) == (RunState.ANSWERED, 1)
    assert (await office.ledger.run(run.id)).state is RunState.COMPLETED

    known = public(OTHER, KEY)
    office.pass_time()
    later = await office.resume(later)
    assert (later.state, len(office.executed())) == (RunState.COMPLETED, 2)


async def test_a_removed_key_does_not_count_any_more(office: Office, signing: Receipts) -> None:
    """What was approved with it waits until the approval expires, and is then asked about again."""
    known = public(KEY)
    office.ledger.receipts = Receipts(lambda: known)
    first, approval = await asked(office)
    await office.decider.approve(approval.id, MARA, channel="cli")
    assert (await office.resume(first)).state is RunState.COMPLETED
    run, approval = await asked(office)
    await office.decider.approve(approval.id, MARA, channel="cli")
    known = public(OTHER)
    with counted() as unverified:
        run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.ANSWERED, 1)
    assert unverified
    office.pass_time(timedelta(days=8).total_seconds())
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.PAUSED, 1)
    (question,) = await office.ledger.approvals(run.waiting)
    assert question.supersedes == approval.id


async def test_unreadable_keys_only_delay_a_call(office: Office, signing: Receipts) -> None:
    """While the file of the public keys cannot be read, no approval is taken for a forged one."""
    broken = True

    def keys() -> list[Key]:
        if broken:
            raise ConfigError("it cannot be read", key="keys.json")
        return public(KEY)

    office.ledger.receipts = Receipts(keys)
    run, approval = await asked(office)
    await office.decider.approve(approval.id, MARA, channel="cli")
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.ANSWERED, 0)
    broken = False
    office.pass_time()
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


async def test_unsigned_decisions_count_until_the_configured_time(
    office: Office, signing: Receipts
) -> None:
    """By default they never count, and are asked about again."""
    run, approval = await asked(office)
    await put(office, run, approval, yes(approval))
    until = office.clock.now() + timedelta(hours=1)
    office.ledger.receipts = Receipts(lambda: public(KEY), unsigned_until=until)
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)
    run, approval = await asked(office)
    await put(office, run, approval, yes(approval))
    office.pass_time(3600)
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.PAUSED, 1)


async def test_process_without_the_private_key_decides_nothing(
    office: Office, signing: Receipts
) -> None:
    """The error says where to decide; approval by silence is left to other processes."""
    _, approval = await asked(office)
    office.decider.ledger = office.ledger
    with pytest.raises(CannotSign, match="has no private key"):
        await office.decider.approve(approval.id, MARA, channel="cli")
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_breaking_the_glass_is_signed_as_well(office: Office, signing: Receipts) -> None:
    """A worker cannot claim that a person has overridden a freeze."""
    run, was = await asked(office)
    assert was.terms is not None
    named = was.model_copy(
        update={"terms": was.terms.model_copy(update={"break_glass": ("mara",)})}
    )
    await office.ledger.commit(Change().put(named, was=was))
    await office.decider.approve(was.id, MARA, channel="cli")
    await Freezes(office.ledger).freeze(tool="reimburse", by="ops", why="the bank called")
    run = await office.resume(run)
    assert (run.state, office.executed()) == (RunState.ANSWERED, [])
    await office.decider.made(was.id, BreakGlass(reason="urgent"), MARA)
    run = await office.resume(run)
    assert (run.state, len(office.executed())) == (RunState.COMPLETED, 1)


def test_receipt_keys_must_be_ed25519() -> None:
    """Other keys are refused with a message, and a private key is never published."""
    assert read_key(key_text(KEY, private=True)).is_private
    assert '"d"' not in keys_text([KEY])
    for text in ('{"kty": "oct", "k": "AA"}', "[]", "{}", "no"):
        with pytest.raises(ValueError, match=r"."):
            read_key(text)
    assert (ALGORITHM, TYPE) == ("EdDSA", "signoff-receipt+jws")
