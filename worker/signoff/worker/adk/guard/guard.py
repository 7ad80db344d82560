"""The guard: no call that needs an approval runs unapproved, with other arguments, or twice."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from signoff.broker.freezes import Freezes
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended import snapshots
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.run import Run
from signoff.core.base.errors import (
    CallChanged,
    DigestMismatch,
    Frozen,
    LedgerError,
    NotCanonical,
    ToolInDoubt,
)
from signoff.core.base.freezes import Freeze, covering
from signoff.core.payloads.digest import digest
from signoff.worker.adk.foreign_answers import require_ours
from signoff.worker.adk.guard.actions import (
    keep_actions,
    keep_changes,
    kept_actions,
    take_over,
)
from signoff.worker.adk.guard.actual import (
    note_call,
    note_result,
)
from signoff.worker.adk.guard.agent_tools import (
    AsksInside,
    Inside,
    decided,
    inside_of,
    is_agent,
    may_run,
    run_agent,
    run_decided,
)
from signoff.worker.adk.guard.asking_again import drop_repeated, watch_questions
from signoff.worker.adk.guard.call_ids import CallIds
from signoff.worker.adk.guard.declared import declared_by
from signoff.worker.adk.guard.entering import Inner, entry_of, stand_before
from signoff.worker.adk.guard.holding import LEAVING, Holding, held_again, hold
from signoff.worker.adk.guard.journals import Journals
from signoff.worker.adk.guard.nodes import watch_function_nodes
from signoff.worker.adk.guard.resuming import watch_resumes
from signoff.worker.adk.guard.suspension import (
    asked_by,
    code_of,
    hand_over,
    set_aside,
    stored,
    to_keep,
    to_store,
)
from signoff.worker.adk.history import beside, is_confirmed, original_call
from signoff.worker.adk.questions import NODE, has_run, is_node, node_errors
from signoff.worker.port import Fence
from signoff.worker.refusals import refusal
from signoff.worker.running_tools import RunningTools, TurnStopped, first_stop
from signoff.worker.starting import ApprovedCalls, copied
from signoff.worker.turn_results import VALID_FOR, kept_result

log = structlog.get_logger(__name__)

_OTHER_ARGS = (
    "A callback or the state of the session has changed its arguments since it was asked about."
)

_IN_PLACE = "a callback answered in the tool's place; the tool was not entered"

_Session = tuple[str, str, str]
_Key = tuple[str, str, str, str]


class GuardPlugin(BasePlugin):
    """An ADK plugin that checks every tool call with a confirmation.

    A call may run once: the commit that marks it as started is a compare-and-set on the approval,
    made right before the tool's own code, after all callbacks, and only while we hold the session's
    lease. The tool gets a copy of the arguments that were compared with the approval. A call that
    has finished gets its stored result; a call that was started and not seen to finish is never
    started again.

    Args:
        ledger: Where the approvals are.
        valid_for: How long an approval is valid if its policy does not say.
        holding: The policies, for calls that wait for other calls of the same turn.

    Attributes:
        ledger: Where the approvals are.
        holding: These policies; they may be replaced at any time.
        journals: The calls that code has made without an approval.
        running_tools: The running tools.
    """

    def __init__(
        self, ledger: Ledger, *, valid_for: timedelta = VALID_FOR, holding: Holding | None = None
    ) -> None:
        super().__init__(name="signoff_guard")
        self.holding = holding or Holding()
        self.journals = Journals(ledger)
        self.ledger = ledger
        self._calls = ApprovedCalls(ledger, valid_for)
        self._expected: dict[_Key, tuple[str, Fence]] = {}
        self._nodes: dict[_Key, Approval] = {}
        self._begun: set[str] = set()
        self._changed: dict[str, str] = {}
        self._raised: dict[str, Exception] = {}
        self._freezes = Freezes(ledger)
        self._call_ids = CallIds()
        self.running_tools = RunningTools()
        watch_function_nodes()
        watch_resumes()
        watch_questions()

    @contextmanager
    def expecting(self, approvals: Iterable[Approval], fence: Fence) -> Iterator[None]:
        """Let the calls of these approvals run by their decisions, inside the `with` block."""
        keys = {
            (one.origin.app, one.origin.user, one.origin.session, one.call.id): one
            for one in approvals
        }
        self._expected.update({key: (one.id, fence) for key, one in keys.items()})
        self._nodes.update(
            {key: one for key, one in keys.items() if is_node(one) and one.state is State.APPROVED}
        )
        try:
            yield
        finally:
            for key, one in keys.items():
                # A turn that has lost its lease may end after the next one has begun.
                if self._expected.get(key) != (one.id, fence):
                    continue
                del self._expected[key]
                self._nodes.pop(key, None)
                self._begun.discard(one.id)
                self._changed.pop(one.id, None)
                self._raised.pop(one.id, None)

    @contextmanager
    def suspending(self, run: Run) -> Iterator[None]:
        """Raise the error that has stopped a turn; the run can be resumed.

        Raises:
            Exception: Any error with which a call of the turn could not start or be recorded.
        """
        session = (run.app, run.user, run.session)
        try:
            with self._call_ids.of(session):
                yield
        except (TurnStopped, BaseExceptionGroup) as end:
            if (stopped := first_stop(end)) is None:
                raise
            raise stopped.error from None
        finally:
            self.running_tools.forget_stop(session)

    async def begin(
        self, nodes: Iterable[Approval], fence: Fence, *, has_run: bool = False
    ) -> None:
        """Mark approved nodes of a workflow as started, before the answer is given.

        No plugin runs before a function node, so a node that may have begun must count as begun.

        Args:
            nodes: Their approvals.
            fence: Adds the condition that we still hold the session's lease.
            has_run: Whether they are known to have run already.

        Raises:
            ToolInDoubt: A node was started before, and not seen to finish.
            Frozen: A node is frozen; it was not started.
            LeaseLost: Another worker runs the session by now.
        """

        async def prepare(node: Approval, now: datetime) -> Sequence[str] | None:
            if node.handoff is Handoff.FINISHED:
                return None
            self._calls.require_startable(node, now)
            return () if has_run else (node.call.name,)

        for node in nodes:
            if await self._calls.start(node.id, fence, prepare):
                self._begun.add(node.id)

    async def end(self, nodes: Iterable[Approval], fence: Fence, *, why: str = "") -> None:
        """Mark nodes as finished that were begun here and are not tools."""
        for node in nodes:
            self._begun.discard(node.id)
            await self._calls.finish(node.id, fence, why=why)

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Repeat the model's calls if they were held, or if a worker died in code they called."""
        async with self.stopping_turn(callback_context, LedgerError):
            if (said := await self.journals.repeated_response(callback_context)) is not None:
                return said
            approved = partial(self._is_approved, callback_context)
            return await held_again(self.ledger, callback_context, approved)

    async def after_model_callback(
        self, *, callback_context: CallbackContext, llm_response: LlmResponse
    ) -> None:
        """Give the model's calls ids that no other call of the session has."""
        self._call_ids.make_unique(llm_response, callback_context)

    async def _is_approved(self, context: CallbackContext, call_id: str) -> bool:
        """Return whether a call was approved, or needed no approval."""
        expected = self._expected.get(_key(context, call_id))
        if expected is not None:
            return (await self.ledger.approval(expected[0])).state is State.APPROVED
        return is_confirmed(context.session.events, call_id)

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Answer a call in place of the tool, or let it continue to the tool's entry."""
        await self.running_tools.require_not_stopping(_session_of(tool_context))
        if (state := inside_of(tool_context)) is not None:
            return self._before_inside(state, tool, tool_args, tool_context)
        async with self.stopping_turn(tool_context, LedgerError):
            return await self._before_tool(tool, tool_context)

    async def _before_tool(
        self, tool: BaseTool, tool_context: ToolContext
    ) -> dict[str, Any] | None:
        if tool_context.tool_confirmation is None:
            return await self._before_asking(tool, tool_context)
        expected = self._expected_by(tool_context)
        if expected is None:
            return _unknown(tool)
        approval, now = await self.ledger.approval_now(expected[0])
        code = code_of(tool_context.session.events, approval, tool)
        if approval.state is not State.APPROVED and code is None:
            return refusal(approval)
        if approval.handoff is Handoff.FINISHED:
            log.info("tool.already_finished", approval=approval.id, tool=tool.name)
            take_over(await kept_actions(self.ledger, approval.id), tool_context)
            return stored(approval, tool, tool_context)
        if approval.id not in self._begun:
            self._require_startable(approval, tool_context, now)
        stand_before(tool, tool_context, _Entering(self, tool, *expected))
        return None

    async def _before_asking(self, tool: BaseTool, context: ToolContext) -> dict[str, Any] | None:
        """Hold a call without a confirmation, or let it continue to its tool, which may ask."""
        if self.holding.ever or tool.name in LEAVING:
            names = await self.holding.reasons(tool, context, await self.ledger.now())
            if names:
                log.info("tool.held", tool=tool.name, beside=names)
                return await hold(self.ledger, names, context)
        stand_before(tool, context, _Asking(self, tool))
        return None

    def _before_inside(
        self, state: Inside, tool: BaseTool, args: dict[str, Any], context: ToolContext
    ) -> dict[str, Any] | None:
        """Do the same for a call made by an agent that is itself called as a tool."""
        if context.tool_confirmation is not None:
            return _unknown(tool)
        if (response := decided(state, tool, args, context)) is not None:
            return response
        # `decided` confirms a call that may run.
        kind = _AskingInside if context.tool_confirmation is None else _EnteringInside
        stand_before(tool, context, kind(self, tool, state=state))
        return None

    async def enter(
        self,
        approval_id: str,
        fence: Fence,
        tool: BaseTool,
        args: dict[str, Any],
        context: ToolContext,
    ) -> None:
        """Record that an approved call is started; the tool's own code runs next.

        Raises:
            DigestMismatch: Its arguments cannot be compared with the approved ones.
            ToolInDoubt: It was started before, and not seen to finish.
            SessionGone: Somebody else has answered it.
            CallChanged: It is not the approved call.
            ApprovalExpired: Its approval has expired.
            ReceiptRefused: Its approval is not proven.
            Frozen: It is frozen.
            LeaseLost: Another worker runs the session by now.
        """

        async def prepare(approval: Approval, now: datetime) -> Iterable[str] | None:
            code = code_of(context.session.events, approval, tool)
            if approval.id in self._begun:
                # A node that already counts as started.
                context.tool_confirmation = _confirmation(approval)
                self._begun.discard(approval.id)
                return None
            # Suspended code resumes with the arguments in its snapshot.
            call = approval.call
            name, own = (tool.name, args) if code is None else (call.name, call.args)
            if approval.lets_run and (change := _change(approval, name, own, tool, context)):
                raise change
            if code is None:
                context.tool_confirmation = _confirmation(approval)
            # Checked again with ADK's own history: another answer may have arrived meanwhile.
            self._require_startable(approval, context, now)
            if code is not None:
                await hand_over(self.ledger, approval, code, context)
            # For suspended code, the approval is about a call inside of the tool.
            return {tool.name, *([call.name] if approval.lets_run else [])}

        await self._calls.start(approval_id, fence, prepare)

    async def frozen(self, tool: str, context: Context) -> Freeze | None:
        """Return the freeze that stops a tool without an approval; None if there is none."""
        found = covering(await self._freezes.all(), context.session.app_name, (tool,))
        return found[0] if found else None

    async def require_thawed(
        self, tool: BaseTool, args: dict[str, Any], context: ToolContext
    ) -> None:
        """Refuse to run a tool without an approval if it is frozen.

        It is refused too if another call of the same model response is frozen: ADK keeps the
        results of all these calls or of none, so a call that had run would run again.

        Raises:
            TurnStopped: One of them is frozen. All other tools of this turn have ended.
        """
        freezes = await self._freezes.all()
        if not freezes:
            return
        tools = [tool.name, *beside(context.session.events, context.function_call_id or "")]
        found = covering(freezes, context.session.app_name, tools)
        if not found or await tool.check_require_confirmation(copied(args), context):
            return  # the tool will ask for an approval, and not run
        stopped = next(one for one in tools if found[0].covers(found[0].app, one))
        await self.running_tools.stop_turn(_session_of(context), Frozen(found[0], stopped))

    def _require_startable(self, approval: Approval, context: ToolContext, now: datetime) -> None:
        self._calls.require_startable(approval, now)
        require_ours(context.session.events, approval)

    def is_approved(self, context: Context) -> bool:
        """Return whether a node of a workflow was approved."""
        return self._node(context) is not None

    def may_run(self, name: str, args: dict[str, Any], context: Context) -> bool:
        """Record that a function of a workflow is about to run; return whether it may.

        It may not if it would run differently than approved; then it has to ask again.

        Raises:
            DigestMismatch: Its arguments have no digest.
            Exception: It has run on this approval and raised this. ADK runs such a node again if it
                has a `retry_config`.
            ToolInDoubt: It has run on this approval in an earlier turn, or was interrupted.
        """
        approval = self._node(context)
        if approval is not None and approval.id not in self._begun:
            raise self._raised.get(approval.id) or _ran_before(approval, context)
        if self.asks_again(name, args, context) is not None:
            return False
        if approval is not None:
            self._begun.discard(approval.id)
        return True

    def has_raised(self, context: Context, error: Exception) -> None:
        """Record that an approved node has raised an error; it is not run again."""
        if (approval := self._node(context)) is not None:
            self._raised.setdefault(approval.id, error)

    def asks_again(
        self, name: str, args: dict[str, Any], context: Context, tool: BaseTool | None = None
    ) -> Approval | None:
        """Return the approval of a node that would run differently; None if it would not.

        Raises:
            DigestMismatch: Its arguments have no digest.
        """
        approval = self._node(context)
        if approval is None:
            return None
        # If the declaration of the tool was not recorded, it is not compared.
        declared = declared_by(tool) if tool is not None and approval.declared else ""
        if not (why := _node_change(approval, name, args, declared or approval.declared)):
            return None
        self._changed[approval.id] = why
        return approval

    def _node(self, context: Context) -> Approval | None:
        return self._nodes.get(_key(context, f"{NODE}{context.node_path}"))

    def changed(self, nodes: Iterable[Approval], events: Sequence[Event]) -> dict[str, str]:
        """Return the nodes that were begun but have not run: the reasons, by approval id."""
        changed = {}
        for node in nodes:
            if why := self._changed.get(node.id, ""):
                changed[node.id] = why
            elif node.id in self._begun and not has_run(events, node):
                changed[node.id] = (
                    f"The workflow did not come to {node.call.name}() again: it was renamed or "
                    "removed, or runs no longer after its approval."
                )
        return changed

    async def finish(
        self,
        approval_id: str,
        fence: Fence,
        tool: BaseTool,
        context: ToolContext,
        result: object,
        *,
        why: str = "",
    ) -> None:
        """Store the result of a started call, before anything else can fail."""
        finished = await self._calls.finish(
            approval_id,
            fence,
            why=why,
            result=kept_result(to_store(tool, result, context)),
            add=partial(keep_actions, approval=approval_id, actions=to_keep(tool, context)),
        )
        code = code_of(context.session.events, finished, tool) if finished is not None else None
        if code is not None and code.ref:
            # A snapshot that cannot be dropped now expires.
            with suppress(LedgerError):
                await snapshots.drop(self.ledger, code.ref)

    async def after_tool_callback(
        self,
        *,
        tool: BaseTool,
        tool_args: dict[str, Any],
        tool_context: ToolContext,
        result: dict[str, Any],
    ) -> dict[str, Any] | None:
        """Record the result of a callback that has answered in place of the tool."""
        entry = entry_of(tool_context)
        if isinstance(entry, _Asking):
            if not entry.noted and asked_by(tool_context) is not None:
                await entry.asked(tool_args, tool_context)
            return None
        expected = self._expected_by(tool_context) if tool_context.tool_confirmation else None
        if expected is not None and (entry is None or not entry.entered):
            async with self.stopping_turn(tool_context, LedgerError):
                await self._answered_in_place(expected, tool, tool_context, result)
        return None

    @asynccontextmanager
    async def stopping_turn(
        self, context: Context, kind: type[Exception] = Exception
    ) -> AsyncIterator[None]:
        """Stop the turn at an error of the guard, once the tools beside this one have ended.

        ADK tells an agent that has called a single-turn agent about each `Exception` in it, and
        goes on: what that agent had still to ask about would be lost because Redis was away.

        Raises:
            TurnStopped: There was an error of this kind.
        """
        try:
            yield
        except kind as error:
            await self.running_tools.stop_turn(_session_of(context), error)

    async def _answered_in_place(
        self,
        expected: tuple[str, Fence],
        tool: BaseTool,
        context: ToolContext,
        result: object,
    ) -> None:
        """Finish an approved call that a callback has answered, so that its tool did not run."""
        approval_id, fence = expected

        async def attempt() -> None:
            approval, now = await self.ledger.approval_now(approval_id)
            if approval.state is State.APPROVED and approval.handoff is Handoff.RECORDED:
                await self._calls.hand_on(approval, Handoff.STARTED, fence, now, why=_IN_PLACE)

        await self.ledger.decide_again(attempt)
        await self.finish(approval_id, fence, tool, context, result, why=_IN_PLACE)

    def _expected_by(self, tool_context: ToolContext) -> tuple[str, Fence] | None:
        """Return the approval of a call, by the call's id or by its workflow node."""
        own = tool_context.function_call_id or ""
        return self._expected.get(_key(tool_context, own)) or self._expected.get(
            _key(tool_context, f"{NODE}{tool_context.node_path}")
        )


@dataclass(slots=True)
class _Asking:
    """The entry of a call without a confirmation."""

    guard: GuardPlugin
    tool: BaseTool
    entered: bool = False
    noted: bool = False

    async def run(self, args: dict[str, Any], context: ToolContext, inner: Inner) -> Any:  # noqa: ANN401 -- a tool may return anything
        """Run the tool; record its arguments if it asks in its own code or is long-running."""
        if context.tool_confirmation is not None:
            # A callback has added a confirmation.
            return _unknown(self.tool)
        got = copied(args)
        async with self.guard.stopping_turn(context, LedgerError):
            await self.guard.require_thawed(self.tool, args, context)
        with self.guard.running_tools.running(_session_of(context)):
            result = await self._inner(args, context, inner)
        async with self.guard.stopping_turn(context, LedgerError):
            if self.tool.is_long_running:
                await note_result(self.guard.ledger, result, context)
            if asked_by(context) is not None:
                await keep_changes(self.guard.ledger, context)
            if asked_by(context) is not None or self.tool.is_long_running:
                await self.asked(got, context)
            await set_aside(self.guard.ledger, self.tool, context)
        return result

    async def _inner(self, args: dict[str, Any], context: ToolContext, inner: Inner) -> object:
        try:
            if is_agent(self.tool):
                return await run_agent(self.tool, args, context, inner)
            return await inner(args)
        except LedgerError as error:
            # Code in the tool keeps a journal.
            await self.guard.running_tools.stop_turn(_session_of(context), error)
        except Exception:
            await self.guard.running_tools.let_others_end(_session_of(context))
            raise

    async def asked(self, args: dict[str, Any], context: ToolContext) -> None:
        """Record the arguments that the question is about, once no approved tool runs.

        ADK cancels a single-turn agent, with its tools, when another one pauses.
        """
        await self.guard.running_tools.wait_for_approved(_session_of(context))
        async with self.guard.stopping_turn(context, LedgerError):
            await note_call(self.guard.ledger, self.tool, args, context)
        self.noted = True


@dataclass(slots=True)
class _AskingInside(_Asking):
    """The entry of such a call by an agent that is itself called as a tool."""

    state: Inside = field(kw_only=True)

    async def asked(self, args: dict[str, Any], context: ToolContext) -> None:
        """Stop the agent so that somebody is asked, unless the tool asks for values.

        Raises:
            AsksInside: The turn stops here, to ask about this call.
        """
        asked = asked_by(context)
        self.noted = True
        if asked is None and self.tool.is_long_running:
            return
        if asked is not None and asked.payload is not None:
            log.warning("guard.not_asked_inside", tool=self.tool.name)
            return
        await self.guard.running_tools.wait_for_others(_session_of(context))
        raise AsksInside(self.tool.name, args, asked.hint if asked is not None else "")


@dataclass(slots=True)
class _EnteringInside(_AskingInside):
    """The entry of an approved call by such an agent."""

    async def run(self, args: dict[str, Any], context: ToolContext, inner: Inner) -> Any:  # noqa: ANN401 -- a tool may return anything
        """Run the tool once, with a copy of the approved arguments.

        Raises:
            AsksInside: The approval does not cover this call; the turn stops here, to ask about it.
        """
        if not may_run(self.state, self.tool, args):
            # The same call beside it may have used the approval, and must not be cut off.
            await self.guard.running_tools.wait_for_others(_session_of(context))
            raise AsksInside(self.tool.name, copied(args), "")
        with self.guard.running_tools.running(_session_of(context)):
            return await run_decided(self.state, self.tool, args, inner)

    async def asked(self, args: dict[str, Any], context: ToolContext) -> None:
        """Do nothing: the call was already asked about."""


@dataclass(slots=True)
class _Entering:
    """The entry of an approved call, or of code whose call was answered."""

    guard: GuardPlugin
    tool: BaseTool
    approval: str
    fence: Fence
    entered: bool = False

    async def run(self, args: dict[str, Any], context: ToolContext, inner: Inner) -> Any:  # noqa: ANN401 -- a tool may return anything
        """Run the tool once, with a copy of the arguments that were compared with the approval."""
        # An error that stops the turn meanwhile waits for the tool and for the commits.
        with self.guard.running_tools.running(_session_of(context), approved=True):
            result = await self._run(copied(args), context, inner)
        if asked_by(context) is not None:
            await self.guard.running_tools.wait_for_approved(_session_of(context))
        return result

    async def _run(self, own: dict[str, Any], context: ToolContext, inner: Inner) -> object:
        node = self.guard.asks_again(self.tool.name, own, context, self.tool)
        if node is not None:
            # ADK asks the question: it looks for a request after the tool has returned.
            await note_call(self.guard.ledger, self.tool, own, context)
            context.tool_confirmation = None
            context.request_confirmation(payload=node.template)
            return {"status": "pending"}
        async with self.guard.stopping_turn(context):
            await self.guard.enter(self.approval, self.fence, self.tool, own, context)
        try:
            if is_agent(self.tool):
                result = await run_agent(self.tool, own, context, inner)
            else:
                result = await inner(own)
        except Exception as error:
            # The tool has run. A cancelled tool may or may not have: it stays in doubt.
            problem = f"{type(error).__name__}: {error}"
            await self._finish(context, {"error": problem}, why=f"it raised {problem}")
            await self.guard.running_tools.let_others_end(_session_of(context))
            raise
        drop_repeated(context)
        async with self.guard.stopping_turn(context):
            await set_aside(self.guard.ledger, self.tool, context)
        await self._finish(context, result)
        return result

    async def asked(self, args: dict[str, Any], context: ToolContext) -> None:
        """Do nothing: the call was already asked about."""

    async def _finish(self, context: ToolContext, result: object, *, why: str = "") -> None:
        async with self.guard.stopping_turn(context):
            await self.guard.finish(self.approval, self.fence, self.tool, context, result, why=why)


def _ran_before(node: Approval, context: Context) -> ToolInDoubt:
    raised = node_errors(context.session.events, context.invocation_id)
    problem = raised.get(node.origin.confirmation, "").rstrip(".")
    how = f"raised {problem}" if problem else "was interrupted"
    return ToolInDoubt(
        f"{node.call.name}() has run on approval {node.id}, and is not run again: it {how}."
    )


def _key(context: Context, call_id: str) -> _Key:
    return (*_session_of(context), call_id)


def _session_of(context: Context) -> _Session:
    session = context.session
    return (session.app_name, session.user_id, session.id)


def _unknown(tool: BaseTool) -> dict[str, Any]:
    log.error("guard.unknown_confirmation", tool=tool.name)
    return {"status": "rejected", "error": "No approval is on record for this tool call."}


def _confirmation(approval: Approval) -> ToolConfirmation:
    """Return the confirmation for the tool, with a copy of the approver's values."""
    payload = approval.decision.payload if approval.decision is not None else None
    return ToolConfirmation(confirmed=True, payload=copy.deepcopy(payload))


def _node_change(approval: Approval, tool: str, args: dict[str, Any], declared: str) -> str:
    """Return what has changed about a node since it was asked about; "" for nothing.

    Raises:
        DigestMismatch: Its arguments have no digest.
    """
    try:
        if approval.digest_of(tool, args, declared=declared) == approval.digest:
            return ""
        same_args = digest(tool, args) == digest(tool, approval.call.args)
    except NotCanonical as error:
        raise DigestMismatch(f"Approval {approval.id}: {error}") from error
    if tool != approval.call.name:
        return f"The workflow would run {tool}() in the place of {approval.call.name}() now."
    return f"{tool}() declares other parameters by now." if same_args else _OTHER_ARGS


def _change(
    approval: Approval,
    name: str,
    args: dict[str, Any],
    tool: BaseTool,
    context: ToolContext,
) -> CallChanged | None:
    """Return what has changed since a call was asked about; None if nothing has.

    Args:
        approval: The approval.
        name: The tool that would run, or that the code in it would call.
        args: Its arguments.
        tool: The tool that ADK calls.
        context: The context of its call.

    Raises:
        DigestMismatch: Another tool would run, or its arguments have no digest.
    """
    session, agent = context.session, context.agent_name
    # If the declaration of the tool was not recorded, it is not compared.
    declared = declared_by(tool) if approval.declared else ""
    here = approval.origin.model_copy(
        update={"app": session.app_name, "user": session.user_id, "agent": agent}
    )
    try:
        found = approval.digest_of(name, args, origin=here, declared=declared)
        if found == approval.digest:
            return None
        call = original_call(session.events, approval.call.id)
        made = digest(call.name or "", call.args or {}) if call is not None else ""
        changed_args = digest(name, args) != digest(approval.call.name, approval.call.args)
        same_as_made = made == digest(name, args)
    except NotCanonical as error:
        raise DigestMismatch(f"Approval {approval.id}: {error}") from error
    if name != approval.call.name:
        raise DigestMismatch(f"Approval {approval.id} is for {approval.call.name}(), not {name}().")
    was = approval.origin.agent
    why = {
        _OTHER_ARGS: changed_args,
        f"It was asked for by the agent {was}, and {agent} would call it now.": agent != was,
        f"{name}() declares other parameters by now.": declared != approval.declared,
    }
    return CallChanged(
        approval.id,
        " ".join(reason for reason, holds in why.items() if holds),
        tool=name,
        arguments=args,
        origin={"agent": agent, "made": "" if same_as_made else made},
        declared=declared,
    )
