"""Posts the answers of one message at most once, and then looks them up in the session."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ReceiptRefused, SessionGone, ToolInDoubt
from signoff.worker.adk.history import require_same_call
from signoff.worker.adk.questions import is_node, is_request, request_of
from signoff.worker.adk_remote.reading import RunView
from signoff.worker.adk_remote.wire import answer
from signoff.worker.port import Fence

_MAX_RESULT = 256 * 1024
_KEEP = timedelta(days=30)
_ELSEWHERE = -1


@dataclass(slots=True)
class PostedAnswers:
    """The answers of one message, and their note in the ledger.

    The note is a separate record, ``posted:…``, which is written before the answers are posted. It
    stays while it is unknown whether they have arrived. Once that is known, the handoff of the
    approvals changes: to finished if the session has a result, else to started, which the executor
    treats as a call in doubt.

    Attributes:
        ledger: The ledger.
        run: The run.
        approvals: The decided approvals that are answered in one message.
        fence: Adds to each change the condition that we still hold the session's lease.
        rules: The long-running tools that wait for an approval.
        inputs: What a plain yes or no means for requests for input without a schema.
        name: The name of the message in the pause; "" for the first one.
        version: The version of the note; 0 while there is none.
        before: How many answers to each confirmation the session had before ours.
        drained: Whether we have read the turn after the answers to its end.
    """

    ledger: Ledger
    run: Run
    approvals: Sequence[Approval]
    fence: Fence
    rules: Sequence[LongRunning] = ()
    inputs: Sequence[InputRule] = ()
    name: str = ""
    version: int = 0
    before: Mapping[str, int] = field(default_factory=dict)
    drained: bool = False

    @property
    def key(self) -> str:
        """The key of the note. A call that may be started again gets a new key."""
        starts = sum(one.starts for one in self.approvals)
        key = f"posted:{self.run.id}:{self.run.pause}:{starts}"
        return f"{key}:{self.name}" if self.name else key

    @property
    def approved(self) -> list[Approval]:
        """The approvals whose tools are to run: all approved confirmations."""
        return [
            one
            for one in self.approvals
            if one.state is State.APPROVED and one.kind is Kind.CONFIRMATION
        ]

    async def read_note(self) -> None:
        """Read the note of an earlier worker."""
        found = await self.ledger.raw(self.key)
        if found is not None:
            self.version, self.before = found[0], json.loads(found[1])

    def check(self, view: RunView) -> None:
        """Compare the approvals with the session, unless it may already have their answers.

        Raises:
            SessionGone: A call is no longer in the session, or somebody else has given it another
                answer.
            DigestMismatch: A call in the session's history is not the approved one.
            InputRefused: A request for input was rejected, and it has no form of refusal.
            ConditionError: The result of a long-running call cannot be built.
        """
        if self.version:
            return
        for approval in self.approvals:
            require_same_call(view.events, self.run.session, approval)
            self._require_our_answer(view, approval)
            self.part(view, approval)

    def part(self, view: RunView, approval: Approval) -> dict[str, Any]:
        """Return the part of the message that answers an approval; see `wire.answer`."""
        return answer(view.events, approval, self.rules, self.inputs)

    def to_say(self, view: RunView) -> list[Approval]:
        """Return the answers to post; an answer that lets a tool run is never posted twice."""
        if self.version:
            # A worker that has died may have posted it, and it may still be on its way. A refusal,
            # or an answer to a question, that is not in the session by now is posted again.
            return [] if self.approved else self.untold(view)
        anew = any(_is_repeated(one) for one in self.approvals)
        to_say = [
            one
            for one in self.approvals
            if view.result_of(one) is None
            and (not view.answers_to(one) or (anew and one.kind is Kind.CONFIRMATION))
        ]
        self.before = {
            one.origin.confirmation: len(view.answers_to(one)) if one in to_say else _ELSEWHERE
            for one in self.approvals
        }
        return to_say

    def untold(self, view: RunView) -> list[Approval]:
        """Return the approvals whose answer is not in the session."""
        return [
            one
            for one in self.approvals
            if view.result_of(one) is None
            and len(view.answers_to(one)) <= self.before.get(one.origin.confirmation, 0)
        ]

    def lost(self, view: RunView) -> list[Approval]:
        """Return the approved calls without a result.

        A node that returns nothing has no result: it has run if the turn has ended.
        """
        return [
            one
            for one in self.approved
            if view.result_of(one) is None and not (self.drained and is_node(one))
        ]

    async def note(self) -> None:
        """Write the note that the answers are about to be posted, unless it exists already.

        Raises:
            Conflict: Another worker has written the note meanwhile.
            LeaseLost: Another worker runs the session by now.
            Frozen: A tool that an answer lets run is frozen; nothing may be posted.
            ReceiptRefused: No valid receipt proves one of the decisions.
            KeyUnknown: One of the receipts is signed with an unknown key.
        """
        if not self.version:
            now, receipts = await self.ledger.now(), self.ledger.receipts
            for one in self.approvals if receipts is not None else ():
                if receipts is not None and (why := receipts.why_refused(one, now)):
                    raise ReceiptRefused(f"{one.call.name}() of approval {one.id}: {why}.")
            change = Change().put_raw(self.key, json.dumps(self.before), ttl=_KEEP)
            for one in self.approved:
                change.starting(one.origin.app, [one.call.name], despite=one.despite)
            await self.ledger.commit(self.fence(change))
            self.version = 1

    async def take_back(self) -> None:
        """Delete the note: nothing was posted, or the server has kept nothing."""
        if self.version:
            change = Change().put_raw(self.key, "", was=self.version)
            await self.ledger.commit(self.fence(change))
            self.version = 0

    async def record_results(self, view: RunView) -> None:
        """Record that the tools were started and have finished, with their results."""
        for approval in self.approved:
            result = view.result_of(approval)
            if approval in self.lost(view) or approval.handoff is not Handoff.RECORDED:
                continue
            now = await self.ledger.now()
            text = json.dumps(result or {}, default=str, ensure_ascii=False)
            if len(text) > _MAX_RESULT:
                text = json.dumps({"result": "It was too large to be kept; the session has it."})
            started, began = approval.hand_on(Handoff.STARTED, now=now)
            finished, ended = started.hand_on(Handoff.FINISHED, now=now, result=text)
            change = Change().put(finished, was=approval).note([*began, *ended])
            await self.ledger.commit(self.fence(change))

    async def raise_doubt(self, lost: Sequence[Approval], why: str) -> None:
        """Mark posted calls that were not seen to finish as started.

        Raises:
            ToolInDoubt: There is such a call.
        """
        lost = [one for one in lost if one.handoff in {Handoff.RECORDED, Handoff.STARTED}]
        if not lost:
            return
        now = await self.ledger.now()
        change = Change()
        for approval in lost:
            if approval.handoff is Handoff.RECORDED:
                started, events = approval.hand_on(Handoff.STARTED, now=now, why=why)
                change.put(started, was=approval).note(events)
        await self.ledger.commit(self.fence(change))
        names = ", ".join(f"{one.call.name}()" for one in lost)
        raise ToolInDoubt(
            f"The approval was handed to the server, and its session shows no result of {names}: "
            f"it may or may not have happened. {why}".rstrip()
        )

    def _require_our_answer(self, view: RunView, approval: Approval) -> None:
        if _is_repeated(approval) or is_request(approval):
            return  # `part` compares the answers to a request for input
        for _, said in view.answers_to(approval):
            if (said.get("confirmed") is True) != (approval.state is State.APPROVED):
                raise SessionGone(
                    f"Session {self.run.session} went on without us: somebody else has answered "
                    f"the call that approval {approval.id} is for, and otherwise. Nothing was sent."
                )


def messages(
    view: RunView, approvals: Sequence[Approval], *, each: bool
) -> dict[str, list[Approval]]:
    """Return the answers of each message, by the names of the messages, in order.

    If a pause may be answered in parts, each answer is posted separately: otherwise it would be
    unknown which answers of a part were posted.

    If not, there is one message for each agent that has asked, because ADK assigns a message to one
    agent. ADK does not show the model anything in the same message as a confirmation
    (google.adk.flows.llm_flows.context). So the results of long-running calls are posted in a later
    message; until then the model may see that they are pending.
    """
    groups: dict[tuple[str, str | None], list[Approval]] = {}
    nodes: list[Approval] = []
    results: dict[tuple[str, str | None], list[Approval]] = {}
    for one in approvals:
        request = request_of(view.events, one) if is_request(one) else None
        asking = view.asking(one)
        place = (asking.author or "", asking.branch) if asking is not None else ("", None)
        if request is not None and not request.by_model:
            nodes.append(one)
        else:
            (groups if request is None else results).setdefault(place, []).append(one)
    first = [*groups.values(), *([nodes] if nodes else [])]
    if each:
        return {one.id: [one] for group in (*first, *results.values()) for one in group}
    return _named("", first) | _named("results", list(results.values()))


def _named(name: str, groups: Sequence[list[Approval]]) -> dict[str, list[Approval]]:
    return {name if not place else group[0].id: group for place, group in enumerate(groups)}


def _is_repeated(approval: Approval) -> bool:
    """Return whether a person or the policy has decided to answer a call in doubt again."""
    again = approval.starts > 0 and approval.handoff is Handoff.RECORDED
    return again or approval.origin.again > 0
