"""The in-process runtime: starts and resumes the runs of ADK agents, each to its next pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import structlog
from google.adk.agents._streaming_mode import StreamingMode
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.genai import types
from pydantic import JsonValue

from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.run import Run, Watch
from signoff.core.base.errors import SessionGone
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.composites import (
    Remainder,
    cut_off,
    has_order,
    has_raised,
    has_spoken,
    is_in_transfer,
    llm_agents,
    only_begun,
    remainder,
    reopened,
    undone,
)
from signoff.worker.adk.edited import is_edited, new_question
from signoff.worker.adk.foreign_answers import MARK, require_ours
from signoff.worker.adk.guard.actions import kept_actions, kept_changes
from signoff.worker.adk.guard.actual import as_they_are, noted_results
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.history import (
    Invocation,
    agents_answered,
    answered_ids,
    asking_event,
    read_invocation,
    require_same_call,
    unconsumed,
)
from signoff.worker.adk.orphans import orphans
from signoff.worker.adk.questions import is_node, is_request, node_errors
from signoff.worker.adk.repair import (
    cancelled_result,
    lost_results,
    missing_events,
    unanswered_long_running,
)
from signoff.worker.adk.replies import ReplyPart, filed, grouped, message_of, reply
from signoff.worker.adk.sessions.ledger import latest, lease_held, opened
from signoff.worker.adk.showing import EventSink, latest_turn, show_nobody
from signoff.worker.adk.turns import answer_not_taken, turn_lost, turn_of
from signoff.worker.port import Fence, TurnResult
from signoff.worker.refusals import REFUSAL, refusals

log = structlog.get_logger(__name__)

_TOOL_THREADS = 64
"""How many synchronous tools may run in parallel: one that blocks must not stop the heartbeats."""


@dataclass(frozen=True, slots=True)
class AdkRuntime:
    """Runs agents with google-adk's Runner in this process.

    Attributes:
        apps: The agents.
        guard: The plugin that checks their tool calls.
        long_running: The long-running tools whose calls wait for an approval.
        inputs: What a plain yes or no means for requests for input without a schema.
        show: Shows each event of a turn to its watchers, beginning with the events that an earlier
            worker has left.
    """

    apps: Apps
    guard: GuardPlugin
    long_running: Sequence[LongRunning] = ()
    inputs: Sequence[InputRule] = ()
    show: EventSink = show_nobody

    async def start(self, run: Run, fence: Fence) -> TurnResult:
        """Send the user's message and drain the turn; a retry continues where the turn was.

        The invocation id is derived from the run, so that ADK finds the message of that invocation
        in the session and does not append it a second time.

        Raises:
            AppNotFound: The agent does not load.
            TurnLost: A worker died in the turn, and ADK cannot resume it.
            LeaseLost: Another worker runs the session by now; code made no more calls here.
            Frozen: A tool that it comes to is frozen; it was not started.
            Exception: Whatever the agent raises.
        """
        with lease_held():
            return await self._start(run, fence)

    async def _start(self, run: Run, fence: Fence) -> TurnResult:
        runner = self.apps.runner(run.app)
        session = await opened(self.apps.sessions, run.app, run.user, run.session)
        if left := orphans(session.events):
            log.warning("adk.orphans", calls=[str(one) for one in left])
        before = await self._take_up(runner, session, run)
        match self._remainder(runner, session, run, before):
            case Remainder.NOTHING:
                return turn_of(run, before)
            case Remainder.LOST:
                raise turn_lost(run, [])
        message: types.Content | None = types.Content(
            role="user", parts=[types.Part(text=run.message)]
        )
        if before.started:
            runner = self._for_the_rest(runner, session, run)
        if not before.started and _wants_first_event(runner):
            await self.apps.sessions.append_event(
                session, Event(author="user", invocation_id=run.invocation)
            )
        elif before.started and not _on_node_path(runner):
            message = await self._message_again(runner, session, run, message)
        with self.guard.suspending(run), self.guard.journals.of(run, fence):
            turn = await self._drain(runner, run, message)
        self._require_whole(runner, run, await self._require_session(run), turn)
        return turn

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        """Answer a whole pause and drain the turn; a retry does not answer twice.

        Raises:
            SessionGone: The session, or a call in it, no longer exists.
            CallChanged: A call would run differently than approved.
            DigestMismatch: A call in the session's history is not the approved one.
            InputRefused: A request for input was rejected, and it has no form of refusal.
            ToolInDoubt: A tool was started before and not seen to finish.
            TurnLost: A worker died in the turn, and ADK cannot resume it.
            AnswerNotTaken: ADK got an answer, and has not resumed from it.
            LeaseLost: Another worker runs the session by now; the tool was not started here.
            Frozen: A tool that it comes to is frozen; it was not started.
            Exception: Whatever the agent raises.
        """
        with lease_held():
            return await self._resume(run, approvals, fence)

    async def _resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        runner = self.apps.runner(run.app)
        session = await self._session(run)
        if session is None:
            raise SessionGone(
                f"Session {run.session} of {run.user} in {run.app} is gone; "
                f"the answer to run {run.id} cannot be given to anybody."
            )
        for approval in approvals:
            if is_edited(session.events, approval):
                await self._ask_anew(run, session, approval)
            require_same_call(session.events, session.id, approval, guarded=True)
            require_ours(session.events, approval)
        replies = [reply(session.events, one, self.long_running, self.inputs) for one in approvals]
        if any(one.given for one in replies):
            before = await self._take_up(runner, session, run)
            if before.paused:
                await self._restore_results(runner, session, approvals)
            left = self._remainder(runner, session, run, before, approvals)
            open_still = _open(session, replies)
            taken = [one for one in replies if one.given and one.approval not in open_still]
            if left is Remainder.LOST and not _all_have_spoken(session, taken):
                raise turn_lost(run, approvals)
            if not open_still and left is not Remainder.RESUMABLE:
                await self._require_taken(session, run, approvals, fence)
                return self._with_note(runner, run, session, turn_of(run, before))
        elif _is_resumable(runner):
            await self._append(session, reopened(runner.agent, _events_of(run, session)))
        runner = self._for_the_rest(runner, session, run)
        nodes = [one for one in approvals if is_node(one) and one.state is State.APPROVED]
        with (
            self.guard.suspending(run),
            self.guard.expecting(approvals, fence),
            self.guard.journals.of(run, fence),
        ):
            await self.guard.begin(nodes, fence)
            try:
                await self._answer(runner, run, session, replies)
            except Exception:
                await self._end_those_that_raised(run, nodes, fence)
                raise
            session = await self._require_session(run)
            if (await self._read(session, run)).paused:
                await self._restore_results(runner, session, approvals)
            changed = self.guard.changed(nodes, session.events)
            await self.guard.end([one for one in nodes if one.id not in changed], fence)
            await self._require_taken(session, run, approvals, fence)
        turn = turn_of(run, await self._read(session, run)).model_copy(update={"changed": changed})
        return turn if changed else self._with_note(runner, run, session, turn)

    async def _ask_anew(self, run: Run, session: Session, approval: Approval) -> NoReturn:
        """Ask about a call again, as the history has it now.

        Raises:
            CallChanged: Always, if somebody can be asked about the call.
            CallGone: Nobody can be asked.
        """
        question, changed = new_question(session.events, approval)
        if question:
            await self._append(session, question)
            await self._append(session, await self._missing(session, run))
        raise changed

    async def _answer(
        self, runner: Runner, run: Run, session: Session, replies: Sequence[ReplyPart]
    ) -> None:
        """Give ADK the answers: one message for each agent that has asked.

        If ADK enters all waiting agents together, the other answers are stored in the session
        before the message. Otherwise an agent that finds no answer while its siblings continue is
        skipped for good (google.adk.agents.parallel_agent), or its model sees an unanswered call.
        """
        together = _is_resumable(runner) or _on_node_path(runner)
        to_say = [one for one in replies if not one.given]
        if not together or not (to_say or _resumes_without_message(runner, session, replies)):
            open_still = _open(session, replies)
            to_say = [one for one in replies if one.approval in open_still]
        groups = grouped(to_say)
        for group in groups[:-1] if together else ():
            await self._append(session, filed(group))
        for group in (groups[-1:] if together else groups) or [[]]:
            session = await self._say(runner, run, session, group)

    async def _say(
        self, runner: Runner, run: Run, session: Session, group: Sequence[ReplyPart]
    ) -> Session:
        """Give ADK the answers to one agent, or let it continue if there are none."""
        if not group:
            await self._drain(runner, run, None)
            return await self._require_session(run)
        ahead, message = message_of(group)
        await self._append(session, ahead)
        # Neither ADK nor a plugin can give a node the reason: the next node may read it here.
        refused = refusals([one.approval for one in group if is_node(one.approval)])
        await self._drain(runner, run, message, {REFUSAL: refused} if refused else None)
        return await self._require_session(run)

    async def _require_taken(
        self, session: Session, run: Run, approvals: Sequence[Approval], fence: Fence
    ) -> None:
        """Require that each answered tool call has a result after the answer.

        Raises:
            AnswerNotTaken: A call has none.
        """
        calls = [one for one in approvals if not is_request(one)]
        if lost := unconsumed(session.events, calls):
            raise answer_not_taken(run, await self.guard.ledger.approvals([one.id for one in lost]))
        for one in approvals:
            fresh = await self.guard.ledger.approval(one.id)
            if fresh.lets_run and fresh.handoff is Handoff.RECORDED:
                # Another plugin has answered in the tool's place, before the guard was asked, or a
                # node that was in doubt has run.
                await self.guard.begin([fresh], fence, has_run=True)
                await self.guard.end([fresh], fence, why="its result was in the session already")

    async def _restore_results(
        self, runner: Runner, session: Session, approvals: Sequence[Approval]
    ) -> None:
        """Add the results of calls that have finished, and that ADK cancelled before it wrote them.

        Callbacks of the agent and other plugins may change a result before the model sees it; with
        one of them the result is not added.
        """
        calls = [one for one in approvals if not is_request(one)]
        for one in unconsumed(session.events, calls):
            fresh = await self.guard.ledger.approval(one.id)
            if fresh.handoff is not Handoff.FINISHED or _changes_results(runner, one.origin.agent):
                continue
            actions = await kept_actions(self.guard.ledger, one.id)
            if event := cancelled_result(session.events, fresh, actions):
                log.info("adk.result_restored", approval=one.id, tool=one.call.name)
                await self._append(session, [event])

    def _require_whole(self, runner: Runner, run: Run, session: Session, turn: TurnResult) -> None:
        """Require that no agent of an ended turn was interrupted in its work.

        Raises:
            TurnLost: An agent was interrupted.
        """
        if not turn.pauses and (left := cut_off(runner.agent, _events_of(run, session))):
            raise turn_lost(run, [], f"ADK takes {', '.join(left)} for done")

    def _with_note(
        self, runner: Runner, run: Run, session: Session, turn: TurnResult
    ) -> TurnResult:
        """Record what ADK leaves undone after the answers, if the turn is over.

        Raises:
            TurnLost: An agent of the turn was interrupted in its work.
        """
        if turn.pauses:
            return turn
        self._require_whole(runner, run, session, turn)
        answered = agents_answered(_events_of(run, session))
        left = undone(runner.agent, answered, resumable=_is_resumable(runner))
        if not left:
            return turn
        log.warning("adk.left_undone", app=run.app, left=left)
        return turn.model_copy(update={"note": f"ADK did not go on to {left} after the answer"})

    async def _message_again(
        self, runner: Runner, session: Session, run: Run, message: types.Content | None
    ) -> types.Content | None:
        """Return the message for a root that has already got it, but has not acted yet.

        A resumable app finds the message in the session. Other apps need it again, and the first
        message is rewound, because ADK would show both to the model.
        """
        if _is_resumable(runner):
            return None
        actions = EventActions(rewind_before_invocation_id=run.invocation)
        rewound = Event(author="user", invocation_id=run.invocation, actions=actions)
        await self.apps.sessions.append_event(session, rewound)
        return message

    async def _append(self, session: Session, events: Sequence[Event]) -> None:
        for event in events:
            await self.apps.sessions.append_event(session, event)

    async def _end_those_that_raised(
        self, run: Run, nodes: Sequence[Approval], fence: Fence
    ) -> None:
        """Record that nodes that raised have run, so that they are not in doubt."""
        session = await self._session(run) if nodes else None
        raised = node_errors(session.events, run.invocation) if session is not None else {}
        for node in nodes:
            if problem := raised.get(node.origin.confirmation):
                await self.guard.end([node], fence, why=f"it raised {problem}")

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Return whether these approvals of a pause may be answered separately.

        Between two answers a resumable app waits. In other apps the model is called, and sees that
        the other call "requires confirmation". If several agents have asked, or a single-turn
        agent (which has a branch of its own), or agents run others in an order of their own, ADK
        continues after an agent that still waits.
        """
        runner = self.apps.runner(run.app)
        if not _is_resumable(runner) or has_order(runner.agent):
            return False
        session = await self._session(run)
        events = session.events if session is not None else []
        calls = [one for one in approvals if not is_request(one)]
        places = [asking_event(events, one.origin.confirmation) for one in calls]
        asking = {(one.author, one.branch) for one in places if one is not None}
        return len(asking) <= 1 and not any(branch for _, branch in asking)

    async def _take_up(self, runner: Runner, session: Session, run: Run) -> Invocation:
        """Return how an earlier worker left this invocation; complete a half-written pause."""
        missing = await self._missing(session, run)
        turn = latest_turn(session.events, run.invocation)
        missing += lost_results(turn, await self._results(runner, session, turn))
        if _is_resumable(runner):
            missing += reopened(runner.agent, _events_of(run, session))
        for event in missing:
            log.info("adk.pause_mended")
            await self.apps.sessions.append_event(session, event)
        for event in latest_turn(session.events, run.invocation):
            await self.show(run, event)
        return await self._read(session, run)

    async def _missing(self, session: Session, run: Run) -> list[Event]:
        """Return the events that complete a pause, with what its tools have changed before."""
        found = missing_events(session.events, run.invocation)
        for event in found:
            for one in event.get_function_responses():
                changes = await kept_changes(self.guard.ledger, session, one.id or "")
                event.actions.state_delta.update(changes.state_delta)
                event.actions.artifact_delta.update(changes.artifact_delta)
        return found

    async def _results(
        self, runner: Runner, session: Session, turn: Sequence[Event]
    ) -> dict[str, JsonValue]:
        """Return the results of a turn's long-running calls, unless callbacks may change them."""
        calls = unanswered_long_running(turn)
        results = await noted_results(self.guard.ledger, session, calls)
        return {
            call_id: None if _changes_results(runner, calls[call_id]) else result
            for call_id, result in results.items()
        }

    def _remainder(
        self,
        runner: Runner,
        session: Session,
        run: Run,
        before: Invocation,
        approvals: Sequence[Approval] = (),
    ) -> Remainder:
        """Return the remainder of a turn that another worker has left.

        Raises:
            TurnLost: A node of a workflow has begun, and ADK takes it for done.
        """
        mine = _events_of(run, session)
        if begun := only_begun(runner.agent, mine):
            raise turn_lost(run, approvals, f"ADK takes {', '.join(begun)} for done")
        return remainder(runner.agent, mine, paused=before.paused, resumable=_is_resumable(runner))

    def _for_the_rest(self, runner: Runner, session: Session, run: Run) -> Runner:
        """Return the runner that finishes a turn.

        In a resumable app, a workflow node whose worker died in a tool counts as done: its model is
        not called again, because one of its calls has no result. A non-resumable app calls the
        model. That runner is not used while an answer is missing: the model would see a waiting
        call.
        """
        mine = _events_of(run, session)
        agent = runner.agent
        skipped = cut_off(agent, mine) or is_in_transfer(mine) or has_raised(agent, mine)
        plain = _is_resumable(runner) and skipped and not run.waiting
        return self.apps.plain_runner(run.app) if plain else runner

    async def _require_session(self, run: Run) -> Session:
        session = await self._session(run)
        if session is None:
            raise SessionGone(f"Session {run.session} was deleted while run {run.id} used it.")
        return session

    async def _read(self, session: Session, run: Run) -> Invocation:
        found = read_invocation(session.events, run.invocation, run.app, self.long_running)
        return await as_they_are(self.guard.ledger, session, found)

    async def _session(self, run: Run) -> Session | None:
        return await latest(self.apps.sessions, run.app, run.user, run.session)

    async def _drain(
        self,
        runner: Runner,
        run: Run,
        message: types.Content | None,
        state: dict[str, str] | None = None,
    ) -> TurnResult:
        stream = runner.run_async(
            user_id=run.user,
            session_id=run.session,
            invocation_id=run.invocation,
            new_message=message,
            state_delta=state,
            run_config=RunConfig(
                streaming_mode=StreamingMode.SSE
                if run.watched is Watch.WORDS
                else StreamingMode.NONE,
                tool_thread_pool_config=ToolThreadPoolConfig(max_workers=_TOOL_THREADS),
                custom_metadata={MARK: run.id},
            ),
        )
        # To the end: stopping at the confirmation event would lose some of them for good.
        async for event in stream:
            log.debug("adk.event", author=event.author, event_id=event.id)
            await self.show(run, event)
        session = await self._require_session(run)
        for event in await self._missing(session, run):
            # ADK cancels a single-turn agent when another one pauses, also while it asks.
            appended = await self.apps.sessions.append_event(session, event)
            await self.show(run, appended)
        await self.guard.journals.drop(run)
        return turn_of(run, await self._read(session, run))


def _events_of(run: Run, session: Session) -> list[Event]:
    return [event for event in session.events if event.invocation_id == run.invocation]


def _open(session: Session, replies: Sequence[ReplyPart]) -> list[Approval]:
    return unconsumed(session.events, [one.approval for one in replies])


def _all_have_spoken(session: Session, replies: Sequence[ReplyPart]) -> bool:
    asking = [one.asking for one in replies]
    return all(has_spoken(session.events, one.author or "", one.branch) for one in asking)


def _wants_first_event(runner: Runner) -> bool:
    """Return whether this root cannot begin an invocation under a given id.

    A resumable app tries to resume a given id. Roots on ADK's node path check the session first;
    older kinds (SequentialAgent, a custom BaseAgent) raise if it has no such invocation.
    """
    return _is_resumable(runner) and not _on_node_path(runner)


def _resumes_without_message(
    runner: Runner, session: Session, replies: Sequence[ReplyPart]
) -> bool:
    """Return whether a resume without a message continues from the answer in the session.

    ADK looks for the answer in the last user event: if the user has sent a message since, the
    answer has to be given again. Roots off the node path raise without a message unless resumable.
    """
    said = [event for event in session.events if event.author == "user" and event.content]
    ids = {one.approval.origin.confirmation for one in replies}
    if not said or not ids & answered_ids(said[-1:]):
        return False
    return _is_resumable(runner) or _on_node_path(runner)


def _changes_results(runner: Runner, agent: str) -> bool:
    """Return whether something other than the guard may change the results of an agent's tools."""
    plugins = [one for one in runner.plugin_manager.plugins if not isinstance(one, GuardPlugin)]
    if any(type(one).after_tool_callback is not BasePlugin.after_tool_callback for one in plugins):
        return True
    return any(
        one.canonical_after_tool_callbacks for one in llm_agents(runner.agent) if one.name == agent
    )


def _is_resumable(runner: Runner) -> bool:
    return runner.resumability_config is not None and runner.resumability_config.is_resumable


def _on_node_path(runner: Runner) -> bool:
    return isinstance(runner.agent, LlmAgent) or not isinstance(runner.agent, BaseAgent)
