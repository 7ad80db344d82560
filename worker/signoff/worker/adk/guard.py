"""The guard: no tool that was asked about runs unapproved, with other arguments, or twice."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import structlog
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from signoff.broker import snapshots
from signoff.broker.change import Change
from signoff.broker.ledger import Ledger
from signoff.core.approval import Approval
from signoff.core.digest import digest
from signoff.core.errors import ApprovalExpired, DigestMismatch, NotCanonical, ToolInDoubt
from signoff.core.lifecycle import Handoff, State
from signoff.worker.adk.answers import refusal
from signoff.worker.adk.carrying import (
    code_of,
    hand_over,
    require_same_code,
    set_aside,
    stored,
    with_question,
)
from signoff.worker.adk.elsewhere import require_ours
from signoff.worker.adk.journals import Journals
from signoff.worker.adk.questions import NODE
from signoff.worker.outcomes import VALID_FOR
from signoff.worker.port import Fence

log = structlog.get_logger(__name__)

_MAX_RESULT = 256 * 1024
_TOO_LARGE = {"result": "The tool has finished; its result was too large to be kept."}


_Key = tuple[str, str, str, str]


class GuardPlugin(BasePlugin):
    """Stands before every tool call that carries a confirmation.

    A call is let through once: the commit that marks it as started is a compare-and-set on the
    approval, made before the tool is entered and only while the session's lease is ours. A call
    that was seen to finish gets its stored result; one that was started and not seen to finish
    is never started again.

    Args:
        ledger: Where the approvals are.
        valid_for: How long a yes is good for whose policy does not say.

    Attributes:
        journals: What code has called, and nobody was asked about.
    """

    def __init__(self, ledger: Ledger, *, valid_for: timedelta = VALID_FOR) -> None:
        super().__init__(name="signoff_guard")
        self._valid_for = valid_for
        self.journals = Journals(ledger)
        self._ledger = ledger
        self._expected: dict[_Key, tuple[str, Fence]] = {}
        self._begun: set[str] = set()

    @contextmanager
    def expecting(self, approvals: Iterable[Approval], fence: Fence) -> Iterator[None]:
        """Let the calls of these approvals through, each by its own decision, while this lasts."""
        keys: dict[_Key, tuple[str, Fence]] = {
            (one.origin.app, one.origin.user, one.origin.session, one.call.id): (one.id, fence)
            for one in approvals
        }
        self._expected.update(keys)
        try:
            yield
        finally:
            for key in keys:
                self._expected.pop(key, None)

    async def approval(self, approval_id: str) -> Approval:
        """Return an approval as it is by now, with the result of its tool."""
        return await self._ledger.approval(approval_id)

    async def begin(self, nodes: Iterable[Approval], fence: Fence) -> None:
        """Mark approved nodes of a workflow as started, before the answer is given.

        No plugin stands before a node that is a function: what is not known to have begun must
        count as begun.

        Raises:
            ToolInDoubt: One of them was started before, and not seen to finish.
            LeaseLost: Somebody else runs the session by now.
        """
        for node in nodes:
            if await self._ledger.decide_again(partial(self._begin, node.id, fence)):
                self._begun.add(node.id)

    async def end(self, nodes: Iterable[Approval], fence: Fence, *, why: str = "") -> None:
        """Mark those of them as finished that were begun here, and were not tools."""
        for node in nodes:
            self._begun.discard(node.id)
            await self._ledger.decide_again(partial(self._end, node.id, fence, why))

    async def _begin(self, approval_id: str, fence: Fence) -> bool:
        approval = await self._ledger.approval(approval_id)
        if approval.handoff is Handoff.FINISHED:
            return False
        _require_recorded(approval)
        await self._require_good(approval)
        await self._hand_on(approval, Handoff.STARTED, fence)
        log.info("tool.started", approval=approval.id, tool=approval.call.name)
        return True

    async def _end(self, approval_id: str, fence: Fence, why: str) -> None:
        approval = await self._ledger.approval(approval_id)
        if approval.handoff is Handoff.STARTED:
            await self._hand_on(approval, Handoff.FINISHED, fence, why=why)
            log.info("tool.finished", approval=approval.id, tool=approval.call.name)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Say again what the model has said, where a worker died in code that it had called."""
        return await self.journals.said_again(callback_context)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Let an approved call through once, and answer every other one in the tool's place."""
        if tool_context.tool_confirmation is None:
            return None
        expected = self._expected_by(tool_context)
        if expected is None:
            log.error("guard.unknown_confirmation", tool=tool.name)
            return {"status": "rejected", "error": "No approval is on record for this tool call."}
        approval_id, fence = expected
        return await self._ledger.decide_again(
            lambda: self._let_through(approval_id, fence, tool.name, tool_args, tool_context)
        )

    async def _let_through(
        self,
        approval_id: str,
        fence: Fence,
        tool: str,
        args: dict[str, Any],
        tool_context: ToolContext,
    ) -> dict[str, Any] | None:
        approval = await self._ledger.approval(approval_id)
        code = code_of(tool_context.session.events, approval)
        if approval.state is not State.APPROVED and code is None:
            return refusal(approval)
        if code is None:
            _same_call(approval, tool, args)
        else:
            require_same_code(tool_context.session.events, approval, code, tool, args)
        if approval.handoff is Handoff.FINISHED:
            log.info("tool.already_finished", approval=approval.id, tool=tool)
            return stored(approval, tool_context)
        if approval.id in self._begun:
            self._begun.discard(approval.id)
            return None
        _require_recorded(approval)
        await self._require_good(approval)
        # Once more, with the history that ADK goes by: another answer may have come in since.
        require_ours(tool_context.session.events, approval)
        if code is not None:
            await hand_over(self._ledger, approval, code, tool_context)
        await self._hand_on(approval, Handoff.STARTED, fence)
        log.info("tool.started", approval=approval.id, tool=tool)
        return None

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: dict[str, Any],
    ) -> dict[str, Any] | None:
        """Store the result before anything else can go wrong."""
        await set_aside(self._ledger, tool_context)
        await self._finished(tool_context, result)
        return None

    async def on_tool_error_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        error: BaseException,
    ) -> dict[str, Any] | None:
        """Store that the tool raised: it has run, and must not run again on this approval."""
        if isinstance(error, Exception):
            problem = f"{type(error).__name__}: {error}"
            await self._finished(tool_context, {"error": problem}, why=f"it raised {problem}")
        # A cancelled tool may have done its work or not: it stays started, and so in doubt.
        return None

    async def _finished(
        self, tool_context: ToolContext, result: dict[str, Any], *, why: str = ""
    ) -> None:
        expected = self._expected_by(tool_context)
        if tool_context.tool_confirmation is None or expected is None:
            return
        approval_id, fence = expected

        async def attempt() -> None:
            approval = await self._ledger.approval(approval_id)
            if approval.handoff is Handoff.STARTED:
                code = code_of(tool_context.session.events, approval)
                await self._hand_on(
                    approval,
                    Handoff.FINISHED,
                    fence,
                    why=why,
                    result=_as_json(with_question(result, tool_context)),
                    resumed=code.ref if code is not None else "",
                )
                log.info("tool.finished", approval=approval.id, tool=approval.call.name)

        # The approval may be written to at this moment, by a delivery that is noted late; that
        # must not leave a tool in doubt which has finished.
        await self._ledger.decide_again(attempt)

    async def _require_good(self, approval: Approval) -> None:
        """Refuse to start a call on a yes that has expired since the run went on.

        Raises:
            ApprovalExpired: It has.
        """
        if approval.has_expired(await self._ledger.now(), self._valid_for):
            raise ApprovalExpired(
                f"The yes to approval {approval.id} has expired, and {approval.call.name}() was "
                "not run. Ask the agent anew."
            )

    def _expected_by(self, tool_context: ToolContext) -> tuple[str, Fence] | None:
        """Return the approval of a call: by its own id, or by the node of a workflow it is."""
        own = tool_context.function_call_id or ""
        return self._expected.get(_key(tool_context, own)) or self._expected.get(
            _key(tool_context, f"{NODE}{tool_context.node_path}")
        )

    async def _hand_on(
        self,
        approval: Approval,
        handoff: Handoff,
        fence: Fence,
        *,
        why: str = "",
        result: str = "",
        resumed: str = "",
    ) -> None:
        now = await self._ledger.now()
        after, events = approval.hand_on(handoff, now=now, why=why, result=result)
        await self._ledger.commit(fence(Change().put(after, was=approval).note(events)))
        if resumed:
            await snapshots.drop(self._ledger, resumed)


def _key(tool_context: ToolContext, call_id: str) -> _Key:
    session = tool_context.session
    return (session.app_name, session.user_id, session.id, call_id)


def _require_recorded(approval: Approval) -> None:
    if approval.handoff is not Handoff.RECORDED:
        raise ToolInDoubt(
            f"{approval.call.name}() of approval {approval.id} is {approval.handoff}."
        )


def _same_call(approval: Approval, tool: str, args: dict[str, Any]) -> None:
    try:
        found = digest(tool, args)
    except NotCanonical as error:
        raise DigestMismatch(f"Approval {approval.id}: {error}") from error
    if found != approval.digest:
        raise DigestMismatch(
            f"Approval {approval.id} is for {approval.digest}, but {tool}() would run with "
            f"{found}. The tool was not run."
        )


def _as_json(result: object) -> str:
    text = json.dumps(result, default=str, ensure_ascii=False)
    return text if len(text) <= _MAX_RESULT else json.dumps(_TOO_LARGE)
