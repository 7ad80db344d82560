"""The in-process runtime: starts and resumes the runs of ADK agents, each to its next pause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from google.adk.agents._streaming_mode import StreamingMode
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.run_config import RunConfig, ToolThreadPoolConfig
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.session import Session
from google.genai import types

from signoff.core.approval import Approval, State
from signoff.core.errors import SessionGone
from signoff.core.longrunning import LongRunning
from signoff.core.run import Run, Watch
from signoff.worker.adk.answers import REFUSAL, refusals
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.elsewhere import MARK, require_ours
from signoff.worker.adk.guard import GuardPlugin
from signoff.worker.adk.history import (
    Invocation,
    answered_ids,
    consumed,
    last_words,
    read_invocation,
    require_same_call,
)
from signoff.worker.adk.mend import lost_results, missing_events
from signoff.worker.adk.orphans import orphans
from signoff.worker.adk.questions import is_node, node_errors
from signoff.worker.adk.replies import message_of, reply, split
from signoff.worker.adk.showing import EventSink, latest_turn, show_nobody
from signoff.worker.adk.turns import silent, turn_of
from signoff.worker.port import Fence, Turn

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AdkRuntime:
    """Runs agents with google-adk's Runner in this process.

    Attributes:
        apps: The agents.
        guard: The plugin that stands before their tools.
        tool_threads: How many tools that are plain functions may run at once: they get threads
            of their own, because one that blocks must not stop the loop and its heartbeats.
        long_running: The long-running tools whose calls wait for an approval.
        show: Shows each event of a turn to whoever looks on; what an earlier worker left of the
            turn comes first.
    """

    apps: Apps
    guard: GuardPlugin
    tool_threads: int = 64
    long_running: Sequence[LongRunning] = ()
    show: EventSink = show_nobody

    async def start(self, run: Run, fence: Fence) -> Turn:
        """Say the user's message and drain the turn; taken up again, it goes on where it was.

        The invocation id is a function of the run: ADK finds the message of that invocation in
        the session and does not append it a second time.

        Raises:
            AppNotFound: The agent does not load.
            LeaseLost: Somebody else runs the session by now, and code called nothing more here.
            Exception: Whatever the agent raises.
        """
        runner = self.apps.runner(run.app)
        session = await self._session(run)
        if session is None:
            session = await self.apps.sessions.create_session(
                app_name=run.app, user_id=run.user, session_id=run.session
            )
        elif left := orphans(session.events):
            log.warning("adk.orphans", calls=[str(one) for one in left])
        before = await self._taken_up(runner, session, run)
        if _is_over(runner, before):
            return turn_of(run, before)
        if not before.started and _wants_first_event(runner):
            await self.apps.sessions.append_event(
                session, Event(author="user", invocation_id=run.invocation)
            )
        message = types.Content(role="user", parts=[types.Part(text=run.message)])
        with self.guard.journals.of(run, fence):
            return await self._drain(runner, run, message)

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> Turn:
        """Answer a whole pause and drain the turn; taken up again, it does not answer twice.

        Raises:
            SessionGone: The session, or a call in it, is not there any more.
            DigestMismatch: A call in the session's history is not the one that was approved.
            InputRefused: A request for input was rejected, and has no way to be told so.
            ToolInDoubt: A tool was started before and not seen to finish.
            LeaseLost: Somebody else runs the session by now; the tool was not started here.
            Exception: Whatever the agent raises.
        """
        runner = self.apps.runner(run.app)
        session = await self._session(run)
        if session is None:
            raise SessionGone(
                f"Session {run.session} of {run.user} in {run.app} is gone; "
                f"the answer to run {run.id} cannot be given to anybody."
            )
        for approval in approvals:
            require_same_call(session.events, session.id, approval, guarded=True)
            require_ours(session.events, approval)
        replies = [reply(session.events, one, self.long_running) for one in approvals]
        to_say = [one for one in replies if not one.given]
        if not to_say:
            before = await self._taken_up(runner, session, run)
            asks = before.waiting or before.requests
            if _is_over(runner, before) and (not asks or consumed(session.events, approvals)):
                return turn_of(run, before)
            if not _goes_on_by_itself(runner, session, approvals):
                to_say = replies
        beforehand, to_say = split(to_say)
        for event in beforehand:
            await self.apps.sessions.append_event(session, event)
        nodes = [one for one in approvals if is_node(one) and one.state is State.APPROVED]
        refused = refusals([one for one in approvals if is_node(one)])
        with self.guard.expecting(approvals, fence), self.guard.journals.of(run, fence):
            await self.guard.begin(nodes, fence)
            try:
                # A node is told no reason, and no plugin can tell it: the next one may look here.
                state = {REFUSAL: refused} if refused and to_say else None
                turn = await self._drain(runner, run, message_of(to_say), state)
            except Exception:
                await self._end_those_that_raised(run, nodes, fence)
                raise
            await self.guard.end(nodes, fence)
        if turn.pauses or any(not one.given for one in replies):
            return turn
        return await self._spoken(run, approvals, turn)

    async def _spoken(self, run: Run, approvals: Sequence[Approval], turn: Turn) -> Turn:
        """Return a turn that was taken up, with what its tools gave where nobody has spoken.

        Some roots cannot go on from an answer that is in the session: given once more, it runs
        nothing, and asks the model nothing.
        """
        session = await self._session(run)
        events = session.events if session is not None else []
        ids = {one.origin.confirmation for one in approvals}
        answers = [place for place, event in enumerate(events) if ids & answered_ids([event])]
        if not answers or last_words(events[answers[0] :]):
            return turn
        return silent(turn, [await self.guard.approval(one.id) for one in approvals])

    async def _end_those_that_raised(
        self, run: Run, nodes: Sequence[Approval], fence: Fence
    ) -> None:
        """Note of nodes that raised that they have run: they are not in doubt."""
        session = await self._session(run) if nodes else None
        raised = node_errors(session.events, run.invocation) if session is not None else {}
        for node in nodes:
            if problem := raised.get(node.origin.confirmation):
                await self.guard.end([node], fence, why=f"it raised {problem}")

    def resumes_each(self, app: str) -> bool:
        """Say whether a pause of this app may be answered in parts.

        Between two answers a resumable app waits; in another one the model is called, and sees
        that the other call "requires confirmation".
        """
        return _is_resumable(self.apps.runner(app))

    async def _taken_up(self, runner: Runner, session: Session, run: Run) -> Invocation:
        """Return what an earlier worker left of this invocation, half a pause made whole."""
        carrying = await self.guard.carrying(session, run.invocation)
        missing = missing_events(session.events, run.invocation, carrying)
        if _is_resumable(runner):
            missing += lost_results(session.events, run.invocation)
        for event in missing:
            log.info("adk.pause_mended")
            await self.apps.sessions.append_event(session, event)
        for event in latest_turn(session.events, run.invocation):
            await self.show(run, event)
        return await self._read(session, run)

    async def _read(self, session: Session, run: Run) -> Invocation:
        standing = read_invocation(session.events, run.invocation, run.app, self.long_running)
        return await self.guard.as_they_are(session, standing)

    async def _session(self, run: Run) -> Session | None:
        return await self.apps.sessions.get_session(
            app_name=run.app, user_id=run.user, session_id=run.session
        )

    async def _drain(
        self,
        runner: Runner,
        run: Run,
        message: types.Content | None,
        state: dict[str, str] | None = None,
    ) -> Turn:
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
                tool_thread_pool_config=ToolThreadPoolConfig(max_workers=self.tool_threads),
                custom_metadata={MARK: run.id},
            ),
        )
        # To the very end: who leaves at the confirmation event can never approve some of them.
        async for event in stream:
            log.debug("adk.event", author=event.author, event_id=event.id)
            await self.show(run, event)
        session = await self._session(run)
        if session is None:
            raise SessionGone(f"Session {run.session} was deleted while run {run.id} used it.")
        carrying = await self.guard.carrying(session, run.invocation)
        for event in missing_events(session.events, run.invocation, carrying):
            # Code that has stopped a second time: ADK does not ask by itself again.
            appended = await self.apps.sessions.append_event(session, event)
            await self.show(run, appended)
        await self.guard.journals.drop(run)
        return turn_of(run, await self._read(session, run))


def _is_over(runner: Runner, before: Invocation) -> bool:
    """Whether a turn that is taken up came to its end.

    The last event of a workflow does not tell: each of its nodes may have spoken. It may be run
    again, and then does what is left.
    """
    graph = not isinstance(runner.agent, BaseAgent)
    return before.complete and (not graph or bool(before.waiting or before.requests))


def _wants_first_event(runner: Runner) -> bool:
    """Whether this root cannot begin an invocation under an id that it was given.

    A resumable app takes a given id for one to resume. Roots on ADK's node path look at what is
    there; the older kinds (SequentialAgent, a custom BaseAgent) raise when nothing is.
    """
    return _is_resumable(runner) and not _on_node_path(runner)


def _goes_on_by_itself(runner: Runner, session: Session, approvals: Sequence[Approval]) -> bool:
    """Whether a resume without a message goes on from the answer that is in the session.

    ADK looks for the answer in the last user event: after words of the user in between, the answer
    has to be given again. Roots off the node path raise without a message unless resumable.
    """
    said = [event for event in session.events if event.author == "user" and event.content]
    ids = {one.origin.confirmation for one in approvals}
    if not said or not ids & answered_ids(said[-1:]):
        return False
    return _is_resumable(runner) or _on_node_path(runner)


def _is_resumable(runner: Runner) -> bool:
    return runner.resumability_config is not None and runner.resumability_config.is_resumable


def _on_node_path(runner: Runner) -> bool:
    return isinstance(runner.agent, LlmAgent) or not isinstance(runner.agent, BaseAgent)
