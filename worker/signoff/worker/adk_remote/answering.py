"""The answers of one pause on their way over the wire: posted once, and looked for afterwards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from signoff.broker.change import Change
from signoff.broker.ledger import Ledger
from signoff.core.approval import Approval
from signoff.core.errors import SessionGone, ToolInDoubt
from signoff.core.lifecycle import Handoff, State
from signoff.core.run import Run
from signoff.worker.adk.history import require_same_call
from signoff.worker.adk_remote.reading import View
from signoff.worker.port import Fence

_MAX_RESULT = 256 * 1024
_KEEP = timedelta(days=30)
_ELSEWHERE = -1


@dataclass(slots=True)
class Answering:
    """What is known of the answers of a pause, and what is noted of them in the ledger.

    The note is a record of its own, ``posted:…``, made before the answers are posted. It stays
    when it is not known whether they have arrived; the handoff of the approvals follows once that
    is known: finished, where the session has a result, and otherwise started, which to the crew is
    a call in doubt.

    Attributes:
        ledger: The truth.
        run: The run.
        approvals: What was decided.
        fence: Adds to each change that the session's lease is still ours.
        version: The version of the note, 0 while there is none.
        before: How many answers to each confirmation the session had before ours.
    """

    ledger: Ledger
    run: Run
    approvals: Sequence[Approval]
    fence: Fence
    version: int = 0
    before: Mapping[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The key of the note. A call that may be started once more gets a new one."""
        starts = sum(one.starts for one in self.approvals)
        return f"posted:{self.run.id}:{self.run.pause}:{starts}"

    @property
    def approved(self) -> list[Approval]:
        """Those whose tools are to run."""
        return [one for one in self.approvals if one.state is State.APPROVED]

    async def read_note(self) -> None:
        """Read what a worker before us has noted."""
        found = await self.ledger.raw(self.key)
        if found is not None:
            self.version, self.before = found[0], json.loads(found[1])

    def to_say(self, view: View) -> list[Approval]:
        """Return the answers to post, none of which lets a tool run that was posted before.

        Raises:
            SessionGone: A call is not in the session any more, or somebody else has answered it
                otherwise.
            DigestMismatch: A call in the session's history is not the one that was approved.
        """
        if self.version:
            # Said by somebody who is no more, and perhaps on its way still. Refusals do no harm.
            return [] if self.approved else self.untold(view)
        for approval in self.approvals:
            require_same_call(view.events, self.run.session, approval)
            self._require_our_answer(view, approval)
        anew = any(_is_anew(one) for one in self.approvals)
        to_say = [
            one
            for one in self.approvals
            if view.result_of(one) is None and (anew or not view.answers_to(one))
        ]
        self.before = {
            one.origin.confirmation: len(view.answers_to(one)) if one in to_say else _ELSEWHERE
            for one in self.approvals
        }
        return to_say

    def untold(self, view: View) -> list[Approval]:
        """Return those whose answer is not in the session."""
        return [
            one
            for one in self.approvals
            if view.result_of(one) is None
            and len(view.answers_to(one)) <= self.before.get(one.origin.confirmation, 0)
        ]

    def lost(self, view: View) -> list[Approval]:
        """Return those that were approved and have no result."""
        return [one for one in self.approved if view.result_of(one) is None]

    async def note(self) -> None:
        """Note that the answers are about to be posted, unless that is noted already.

        Raises:
            Conflict: Somebody else has noted it meanwhile.
            LeaseLost: Somebody else runs the session by now.
        """
        if not self.version:
            change = Change().put_raw(self.key, json.dumps(self.before), ttl=_KEEP)
            await self.ledger.commit(self.fence(change))
            self.version = 1

    async def take_back(self) -> None:
        """Take the note back: nothing was posted, or the server has kept nothing of it."""
        if self.version:
            change = Change().put_raw(self.key, "", was=self.version)
            await self.ledger.commit(self.fence(change))
            self.version = 0

    async def record_results(self, view: View) -> None:
        """Record that the tools were started and have finished, with what they gave."""
        for approval in self.approved:
            result = view.result_of(approval)
            if result is None or approval.handoff is not Handoff.RECORDED:
                continue
            now = await self.ledger.now()
            text = json.dumps(result, default=str, ensure_ascii=False)
            if len(text) > _MAX_RESULT:
                text = json.dumps({"result": "It was too large to be kept; the session has it."})
            started, began = approval.hand_on(Handoff.STARTED, now=now)
            finished, ended = started.hand_on(Handoff.FINISHED, now=now, result=text)
            change = Change().put(finished, was=approval).note([*began, *ended])
            await self.ledger.commit(self.fence(change))

    async def raise_doubt(self, lost: Sequence[Approval], why: str) -> None:
        """Mark what was posted and not seen to finish as started.

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

    def _require_our_answer(self, view: View, approval: Approval) -> None:
        if _is_anew(approval):
            return
        for _, said in view.answers_to(approval):
            if (said.get("confirmed") is True) != (approval.state is State.APPROVED):
                raise SessionGone(
                    f"Session {self.run.session} went on without us: somebody else has answered "
                    f"the call that approval {approval.id} is for, and otherwise. Nothing was sent."
                )


def _is_anew(approval: Approval) -> bool:
    """Whether a call that was in doubt is answered again: a person, or the policy, says so."""
    again = approval.starts > 0 and approval.handoff is Handoff.RECORDED
    return again or approval.origin.again > 0
