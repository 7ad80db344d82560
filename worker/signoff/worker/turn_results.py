"""Builds one change from an agent's turn, which is committed as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType

from pydantic import JsonValue

from signoff.broker.effects import open_approval, send_work, tell_failure, tell_outcome, tell_result
from signoff.broker.ledger.change import Change
from signoff.core.approvals import reopening
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import HANDOFFS, Handoff, State
from signoff.core.approvals.run import WHOLE_APP, Run
from signoff.core.base.errors import CallChanged, KeyUnknown
from signoff.core.base.freezes import Freeze, covering
from signoff.core.base.hiding import Hidden
from signoff.core.policies.policy import InDoubt
from signoff.worker.port import Pause, TurnResult
from signoff.worker.verification import HAPPENED

VALID_FOR = timedelta(days=7)
"""How long an approval is valid if neither its policy nor the settings say."""

LONGEST_WORD = 4_000
"""The maximum length of the agent's last message in a notice to approvers."""

MAX_QUESTIONS = 20
"""How often a changing call is asked about: a policy could approve each change without a person."""

NOT_KEPT: JsonValue = {"result": "The tool has finished; its result is not JSON and was not kept."}
_MAX_RESULT = 256 * 1024
_TOO_LARGE = {"result": "The tool has finished; its result was too large to be kept."}

MAX_STARTS = 3
"""How often a tool is started on one approval if its policy allows retries."""


def kept_result(result: object) -> str:
    """Return the part of a tool's result that is stored, as JSON text."""
    try:
        text = json.dumps(result, default=str, ensure_ascii=False)
    except Exception:  # noqa: BLE001 -- a class may raise anything; the tool has run all the same
        return json.dumps(NOT_KEPT)
    return text if len(text) <= _MAX_RESULT else json.dumps(_TOO_LARGE)


def turn_ended(
    run: Run,
    turn: TurnResult,
    approvals: Sequence[Approval],
    handed: Container[str],
    proposers: Mapping[int, Approval],
    *,
    now: datetime,
    hide: Hidden = (),
) -> Change:
    """Return the change for a turn that has ended.

    Args:
        run: The run.
        turn: The calls that wait, or the agent's last message.
        approvals: All approvals of the pause that the run was resumed from.
        handed: The ids of the approvals whose answers it was resumed with.
        proposers: The rejection that has proposed a call, by the index of its pause.
        now: The current time.
        hide: The arguments to hide in a call until its policy is known.

    Raises:
        NotCanonical: The arguments of a call that waits have no digest.
    """
    change = Change()
    turn = _bounded(turn, approvals)
    before = {one.id: one for one in approvals}
    after: dict[str, Approval] = {}
    questions: list[Approval] = []
    others = [one for one in approvals if one.id not in handed]
    for approval in approvals:
        if approval.id in turn.changed:
            after[approval.id], *question = _void(change, approval, turn, now=now)
            questions += question
        elif approval.id in handed:
            handed_on, noted = approval.hand_on(Handoff.RESUMED, now=now)
            change.note(noted)
            after[approval.id] = _tell_end(change, handed_on, turn)
    known = {(one.origin.confirmation, one.origin.nth) for one in (*others, *questions)}
    opened = [one.id for one in questions]
    for index, pause in enumerate(turn.pauses):
        if (pause.origin.confirmation, pause.origin.nth) in known:
            continue
        proposer = proposers.get(index)
        if proposer is not None:
            # The rejection may be the answer that this turn was resumed with.
            before.setdefault(proposer.id, proposer)
            proposer = after.get(proposer.id, proposer)
        approval = _open(change, run, pause, proposer, now=now, hide=hide)
        opened.append(approval.id)
        if proposer is not None and approval.supersedes:
            after[proposer.id] = proposer.model_copy(update={"superseded_by": approval.id})
    for approval_id, approval in after.items():
        change.put(approval, was=before[approval_id])
    return _put_run(change, run, turn, others, opened, now=now)


def _put_run(
    change: Change,
    run: Run,
    turn: TurnResult,
    others: Sequence[Approval],
    opened: Sequence[str],
    *,
    now: datetime,
) -> Change:
    """Put the run as the turn has left it: paused, answered again, failed or completed.

    Args:
        change: The change, which is added to.
        run: The run.
        turn: The turn.
        others: The approvals of the pause whose answers the run was not resumed with.
        opened: The ids of the approvals that the turn has opened.
        now: The current time.
    """
    waiting = [*(one.id for one in others if one.state is State.PENDING), *opened]
    decided = [one.id for one in others if one.state is not State.PENDING]
    if waiting and (turn.kept or not decided):
        return change.put(run.paused(waiting, decided=decided), was=run)
    if decided:
        # They were decided while the run was resumed with the first of them.
        run_after = run.answered_again(decided, waiting)
        return send_work(change.put(run_after, was=run), run_after)
    if turn.changed:
        run_after, ended = run.failed(" ".join(turn.changed.values()), now=now)
    else:
        run_after, ended = run.completed(turn.text, now=now, why=_remark(turn))
    return change.put(run_after, was=run).note(ended)


def _bounded(turn: TurnResult, approvals: Sequence[Approval]) -> TurnResult:
    """Return the turn; without pauses, so that the run fails, if a node has changed too often."""
    often = any(one.origin.expired >= MAX_QUESTIONS for one in approvals if one.id in turn.changed)
    return turn.model_copy(update={"pauses": ()}) if often else turn


def _void(
    change: Change, approval: Approval, turn: TurnResult, *, now: datetime
) -> tuple[Approval, *tuple[Approval, ...]]:
    """Void the approval of a node that would run differently; open a new one if it asks again.

    Returns:
        The approval, and the one that replaces it, if there is one.
    """
    why, origin = turn.changed[approval.id], approval.origin
    asked = (one for one in turn.pauses if one.kind is approval.kind)
    pause = next((one for one in asked if one.origin.confirmation == origin.confirmation), None)
    if pause is None:
        voided, noted = approval.hand_on(Handoff.VOID, now=now, why=why)
        change.note(noted)
        return (_tell(change, voided, why),)
    origin = pause.origin
    voided, question, events = reopening.ask_about_change(
        approval,
        pause.call,
        origin={"agent": origin.agent, "nth": origin.nth, "made": origin.made},
        declared=pause.declared,
        why=why,
        now=now,
    )
    open_approval(change, question, events)
    return voided, question


def waits_for_the_rest(run: Run, approvals: Sequence[Approval]) -> Change:
    """Return the change for a partly answered run that can only resume with all answers."""
    decided = [one.id for one in approvals if one.id not in run.waiting]
    return Change().put(run.paused(run.waiting, decided=decided), was=run)


def _open(
    change: Change,
    run: Run,
    pause: Pause,
    proposer: Approval | None,
    *,
    now: datetime,
    hide: Hidden,
) -> Approval:
    """Open the approval of a call that waits, linked to the rejection that proposed it."""
    # A proposal is linked to one call only, even if two calls of a turn match it.
    linked = proposer is not None and not proposer.superseded_by
    approval, noted = Approval.open(
        pause.origin,
        pause.call,
        kind=pause.kind,
        hint=pause.hint,
        template=pause.template,
        now=now,
        supersedes=proposer.id if proposer is not None and linked else "",
        said=pause.said,
        request=run.message,
        hide=hide,
        declared=pause.declared,
    )
    open_approval(change, approval, noted)
    return approval


def _remark(turn: TurnResult) -> str:
    if not turn.left_open:
        return turn.note
    names = ", ".join(f"{name}()" for name in dict.fromkeys(turn.left_open))
    return (
        f"it left a long-running call open: {names}. Nobody is asked about it; name the tool in "
        "[[long_running]] if an approver is to give its result"
    )


def failed(
    run: Run, problem: str, answered: Sequence[Approval], *, now: datetime, gone: str = ""
) -> Change:
    """Return the change for a failed run, whose answers did not reach the agent.

    Args:
        run: The run.
        problem: Why it failed.
        answered: All approvals of its pause.
        now: The current time.
        gone: The id of the approval whose call is missing or changed, so that its answer is void.
    """
    change = Change()
    for one in answered:
        end = Handoff.VOID if one.id == gone else Handoff.FAILED
        _lose(change, one, end, problem, now=now)
    run_after, ended = run.failed(problem, now=now)
    return change.put(run_after, was=run).note(ended)


def asked_anew(
    run: Run,
    approvals: Sequence[Approval],
    valid_for: timedelta,
    why_refused: Callable[[Approval], str],
    *,
    now: datetime,
) -> Change | None:
    """Return the change that asks again about calls with an expired or unproven approval.

    Args:
        run: The run.
        approvals: All approvals of its pause.
        valid_for: How long an approval is valid if its policy does not say.
        why_refused: Returns why an answer is not trusted; "" if it is.
        now: The current time.

    Returns:
        The change; None if there is no such call.

    Raises:
        KeyUnknown: A receipt is signed with an unknown key, and its approval has not expired.
    """
    change, replaced = Change(), dict[str, str]()
    for one in approvals:
        if one.handoff is not Handoff.RECORDED:
            continue
        expired = one.has_expired(now, valid_for)
        try:
            why = why_refused(one)
        except KeyUnknown:
            if not expired:
                raise
            # The key may have been removed for good.
            why = ""
        if why or expired:
            after, question, noted = (
                reopening.void(one, why=why, now=now)
                if why
                else reopening.expire(one, now=now, valid_for=valid_for)
            )
            open_approval(change.put(after, was=one), question, noted)
            replaced[one.id] = question.id
    return _waits_for(change, run, approvals, replaced) if replaced else None


def asked_about_change(
    run: Run, approvals: Sequence[Approval], found: CallChanged, *, now: datetime
) -> Change | None:
    """Return the change that asks again about a call that would run differently than approved.

    Returns:
        The change; None if the call has already started, or has changed too often.
    """
    was = next((one for one in approvals if one.id == found.approval), None)
    if was is None or was.handoff is not Handoff.RECORDED or was.origin.expired >= MAX_QUESTIONS:
        return None
    after, question, noted = reopening.ask_about_change(
        was,
        was.call.model_copy(update={"name": found.tool, "args": found.arguments}),
        origin=found.origin,
        declared=found.declared,
        why=found.why,
        now=now,
    )
    change = open_approval(Change().put(after, was=was), question, noted)
    return _waits_for(change, run, approvals, {was.id: question.id})


def _waits_for(
    change: Change, run: Run, approvals: Sequence[Approval], replaced: Mapping[str, str]
) -> Change:
    """Let a run wait for the approvals that replace earlier ones."""
    decided = [one.id for one in approvals if one.id not in {*replaced, *run.waiting}]
    return change.put(run.paused([*run.waiting, *replaced.values()], decided=decided), was=run)


def stopped_by(
    run: Run, approvals: Sequence[Approval], freezes: Sequence[Freeze]
) -> tuple[Freeze, str] | None:
    """Return the freeze that prevents the start of a turn, and the tool; None if there is none.

    Args:
        run: The run.
        approvals: All approvals of its pause.
        freezes: The current freezes.
    """
    broken = {one for approval in approvals for one in approval.despite}
    whole = (one for one in freezes if one.stops_app(run.app) and one.id not in broken)
    if found := next(whole, None):
        return found, WHOLE_APP
    for approval in approvals:
        if approval.is_to_run and (stopped := approval.frozen_by(freezes)):
            return stopped[0], approval.call.name
    # A tool that needs no approval: only the turn itself would reach it again.
    asked = {approval.call.name for approval in approvals}
    if run.held in {"", WHOLE_APP, *asked}:
        return None
    stopped = covering(freezes, run.app, (run.held,))
    return (stopped[0], run.held) if stopped else None


def frozen(
    run: Run, approvals: Sequence[Approval], freeze: Freeze, tool: str, *, now: datetime
) -> Change:
    """Return the change for a run that waits unchanged until a freeze ends."""
    change = Change()
    if run.held == tool:
        return change
    after, events = run.hold(
        tool, now=now, by=freeze.by, why=f"{freeze.stops} is frozen: {freeze.why}"
    )
    for approval in approvals:
        if approval.is_to_run and tool in {WHOLE_APP, approval.call.name}:
            events += tuple(
                approval.note(What.FROZEN, now=now, by=one.by, why=one.why) for one in events[:1]
            )
    return change.put(after, was=run).note(events)


def started_and_not_finished(approvals: Sequence[Approval]) -> bool:
    """Return whether a tool of these approvals was started and not seen to finish."""
    return any(one.handoff is Handoff.STARTED for one in approvals)


def in_doubt(
    run: Run,
    approvals: Sequence[Approval],
    *,
    now: datetime,
    happened: Mapping[str, bool] = MappingProxyType({}),
) -> Change | None:
    """Return the change for tools that were started and not seen to finish, by their policies.

    Args:
        run: The run.
        approvals: All approvals of its pause.
        now: The current time.
        happened: Whether calls have happened, by approval id, as far as that is known.

    Returns:
        The change; if it does not change the run, the run has to be resumed again. None if there is
        no such tool.
    """
    doubtful = [one for one in approvals if one.handoff is Handoff.STARTED]
    if not doubtful:
        return None
    change = Change()
    latest = {one.id: _settled(change, one, happened, now=now) for one in approvals}
    unknown = [one for one in latest.values() if one.handoff is Handoff.STARTED]
    if any(_rule(one) is InDoubt.FAIL for one in unknown):
        names = ", ".join(f"{one.call.name}()" for one in unknown)
        problem = (
            f"{names} was started by a worker that was not seen to finish it: it may or may not "
            "have happened. Look, and then ask the agent again."
        )
        for one in latest.values():
            if one.handoff is Handoff.STARTED:
                marked = _mark(change, one, now=now)
                change.put(_tell(change, marked, problem), was=marked)
            else:
                _lose(change, one, Handoff.FAILED, problem, now=now)
        return change.put(run.in_doubt(problem), was=run)
    asked: dict[str, str] = {}
    for one in unknown:
        marked = _mark(change, one, now=now)
        if _asks(one):
            question, noted = reopening.ask_again(marked, now=now)
            open_approval(change, question, noted)
            asked[one.id] = question.id
        else:
            after, _ = marked.hand_on(Handoff.RECORDED, now=now)
            change.put(after, was=marked)
    if asked:
        _waits_for(change, run, approvals, asked)
    return change


def _settled(
    change: Change, approval: Approval, happened: Mapping[str, bool], *, now: datetime
) -> Approval:
    """Record what a tool's check says about a call in doubt.

    Returns:
        The approval; unchanged if it is not in doubt, or the check does not settle it.
    """
    if approval.handoff is not Handoff.STARTED:
        return approval
    match happened.get(approval.id):
        case True:
            why = "a check of the tool says that it has happened"
            after, noted = approval.hand_on(
                Handoff.FINISHED, now=now, why=why, result=HAPPENED, by="check"
            )
        case False if approval.starts < MAX_STARTS:
            why = "a check of the tool says that it has not happened"
            doubtful, noted = approval.hand_on(Handoff.IN_DOUBT, now=now, why=why, by="check")
            after, _ = doubtful.hand_on(Handoff.RECORDED, now=now)
        case _:
            return approval
    change.put(after, was=approval).note(noted)
    return after


def _mark(change: Change, approval: Approval, *, now: datetime) -> Approval:
    """Mark an approval in doubt."""
    why = f"{approval.call.name}() was started and not seen to finish: it may have happened or not"
    marked, noted = approval.hand_on(Handoff.IN_DOUBT, now=now, why=why)
    change.put(marked, was=approval).note(noted)
    return marked


def _rule(approval: Approval) -> InDoubt:
    return approval.terms.in_doubt if approval.terms is not None else InDoubt.ASK


def _asks(approval: Approval) -> bool:
    """Return whether a person is asked: by policy, or because retries have not helped."""
    rule = _rule(approval)
    return rule is InDoubt.ASK or (rule is InDoubt.RETRY and approval.starts >= MAX_STARTS)


def _lose(change: Change, approval: Approval, end: Handoff, problem: str, *, now: datetime) -> None:
    """End an approval of a run that has ended: nobody is asked any more, and no answer counts."""
    after = approval
    if approval.state is State.PENDING:
        after, noted = approval.withdraw(by="", reason=problem, now=now)
        change.note(noted)
        tell_outcome(change, after)
    after = _tell(change, after, problem)
    if end in HANDOFFS[after.handoff]:
        after, noted = after.hand_on(end, now=now, why=problem)
        change.put(after, was=approval).note(noted)


def _tell(change: Change, approval: Approval, problem: str) -> Approval:
    """Notify the deciders and the requester that the answer had no effect.

    Returns:
        The approval, marked as reported.
    """
    tell_failure(change, approval, problem)
    return approval.model_copy(update={"reported": True})


def _tell_end(change: Change, approval: Approval, turn: TurnResult) -> Approval:
    """Notify the deciders and the requester of the result, if there is one.

    Returns:
        The approval, marked as reported if they are notified.
    """
    said = turn.text[:LONGEST_WORD]
    if not approval.result and not said:
        return approval
    tell_result(change, approval, remarks=said)
    return approval.model_copy(update={"reported": True})
