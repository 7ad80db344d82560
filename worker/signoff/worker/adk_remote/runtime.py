"""The remote runtime: starts and resumes runs of agents behind ADK API servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import httpx
import structlog

from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.run import Run, Watch
from signoff.core.base.errors import (
    AppNotFound,
    RemoteError,
    RemoteUnavailable,
    SessionGone,
    TurnLost,
)
from signoff.worker.adk.composites import Remainder
from signoff.worker.adk.showing import WireSink, event_json, latest_turn, show_nobody
from signoff.worker.adk.turns import turn_lost, turn_of
from signoff.worker.adk_remote.answering import PostedAnswers, messages
from signoff.worker.adk_remote.reading import RunView, Settled, is_over, read_view, told_of
from signoff.worker.adk_remote.server import RemoteServer
from signoff.worker.adk_remote.settings import RemoteApp
from signoff.worker.adk_remote.wire import (
    MARK,
    TOLD,
    message_of,
    reasons,
    say,
)
from signoff.worker.port import Fence, TurnResult
from signoff.worker.refusals import REFUSAL, refusals

log = structlog.get_logger(__name__)

_LOOK_EVERY = 0.25
_LOST_SESSION = "The server has lost the session."


@dataclass(slots=True)
class RemoteRuntime:
    """Runs agents by REST; see the package for what the wire cannot carry.

    Attributes:
        apps: The servers of the agents, by the name under which runs are submitted.
        ledger: Stores a note before each answer is posted.
        patience: Seconds to watch a session in which a server may still be working, before
            anything that is missing counts as lost.
        transport: Replaces the network, for tests.
        show: Shows each event of a turn to its watchers, as it arrives.
        long_running: The long-running tools whose calls wait for an approval.
        inputs: What a plain yes or no means for requests for input without a schema.
    """

    apps: Mapping[str, RemoteApp]
    ledger: Ledger
    patience: float = 10.0
    transport: httpx.AsyncBaseTransport | None = None
    show: WireSink = show_nobody
    long_running: Sequence[LongRunning] = ()
    inputs: Sequence[InputRule] = ()
    _client: httpx.AsyncClient | None = None
    _python: dict[str, bool] = field(default_factory=dict)

    async def close(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def start(self, run: Run, fence: Fence) -> TurnResult:
        """Send the user's message and drain the turn; a retry does not send it twice.

        Raises:
            AppNotFound: Neither we nor the server know the app.
            RemoteUnavailable: The server is away, busy or too slow.
            RemoteError: It refuses, the agent failed, or it died in a turn that cannot resume.
            TurnLost: The connection broke during a call, and the server has aborted it.
            PauseNotRoutable: The agent waits for a credential.
        """
        del fence  # nothing is written to the ledger while the server runs the turn
        server = self._server(run)
        view = await self._look(server, run)
        taken_up = view is not None and view.said is not None
        if view is None:
            await server.require_app()
            await server.create_session(run.user, run.session)
        if view is None or view.said is None:
            await server.run(run.user, run.session, message=say(run.message), state={MARK: run.id})
        else:
            log.info("remote.taken_up", server=server.remote.url)
            view = await self._settled(server, run, is_over)
            if view is not None and not is_over(view):
                await self._go_on_from_message(server, run, view)
        view = await self._look(server, run, just_sent=True)
        if view is None:
            raise _gone(run)
        if taken_up:
            await self._show_rest(run, view)
        await self._require_whole(server, run, view)
        return turn_of(run, view.invocation)

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Return whether a pause of this app may be answered in parts, as its settings say."""
        return self._each(run.app)

    def _each(self, app: str) -> bool:
        return app in self.apps and self.apps[app].resumable

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        """Answer a whole pause and drain the turn; a retry does not answer twice.

        Raises:
            SessionGone: The session, or a call in it, no longer exists, or somebody else has given
                another answer.
            DigestMismatch: A call in the session's history is not the approved one.
            ToolInDoubt: The answer was posted, and an approved call has no result.
            InputRefused: A request for input was rejected, and it has no form of refusal.
            ConditionError: The result of a long-running call cannot be built.
            LeaseLost: Another worker runs the session by now; nothing was posted.
            RemoteUnavailable: The server is away, busy or too slow.
            RemoteError: It refuses, or the agent failed.
            TurnLost: The turn was cut off, and the agent cannot go on.
            PauseNotRoutable: The agent waits for a credential.
        """
        server = self._server(run)
        view = await self._look(server, run, approvals)
        for answering in await self._messages(run, approvals, fence, view):
            if view is None:
                if answering.version:
                    await answering.raise_doubt(answering.approved, _LOST_SESSION)
                raise _gone(run)
            view = await self._answer(server, answering, view)
        if view is None:
            raise _gone(run)
        await self._require_whole(server, run, view, approvals)
        if not view.invocation.paused:
            view = await self._tell_reasons(server, run, approvals, view)
            await self._require_whole(server, run, view, approvals)
        return turn_of(run, view.invocation)

    # -- the answers ---------------------------------------------------------------------------

    async def _messages(
        self, run: Run, approvals: Sequence[Approval], fence: Fence, view: RunView | None
    ) -> list[PostedAnswers]:
        """Return the messages that answer a pause; all are checked before any is posted."""
        each = self._each(run.app)
        groups = messages(view, approvals, each=each) if view is not None else {"": approvals}
        found = [
            PostedAnswers(self.ledger, run, group, fence, self.long_running, self.inputs, name)
            for name, group in groups.items()
            if group
        ]
        for answering in found:
            await answering.read_note()
        for answering in found:
            if view is not None:
                answering.check(view)
        return found

    async def _answer(
        self, server: RemoteServer, answering: PostedAnswers, view: RunView
    ) -> RunView:
        """Answer in one message, and return the session once the turn after it has ended."""
        run = answering.run
        if answering.version and answering.untold(view):
            # The answer may still be on its way.
            view = (
                await self._settled(
                    server, run, lambda seen: not answering.untold(seen), answering.approvals
                )
                or view
            )
        to_say = answering.to_say(view)
        problem: RemoteError | None = None
        if to_say:
            problem = await self._post(server, answering, to_say, view)
        else:
            log.info("remote.taken_up", server=server.remote.url)
        view = await self._outcome(server, answering, problem)
        if view.aborted and not view.half:
            raise await self._aborted(run, view, answering.approvals)
        if problem is not None or not to_say:
            await self._show_rest(run, view)
        if answering.drained or is_over(view) or view.have_spoken(answering.approvals):
            return view
        if problem is not None:
            raise problem
        return await self._go_on_from_results(server, run, answering.approvals, view)

    async def _post(
        self,
        server: RemoteServer,
        answering: PostedAnswers,
        to_say: Sequence[Approval],
        view: RunView,
    ) -> RemoteError | None:
        """Post the answers, once; return the error if they may have been sent."""
        parts = [answering.part(view, one) for one in to_say]
        await answering.note()
        try:
            await server.run(
                answering.run.user,
                answering.run.session,
                message=message_of(parts),
                state={REFUSAL: refusals(to_say)},
                invocation=to_say[0].origin.invocation,
            )
        except RemoteError as error:
            if error.fate == "unsent":
                await answering.take_back()
                raise
            log.warning("remote.answer_failed", error=str(error), fate=error.fate)
            return error
        answering.drained = True
        return None

    async def _outcome(
        self, server: RemoteServer, answering: PostedAnswers, problem: RemoteError | None
    ) -> RunView:
        """Find out what happened to the posted answers, and record it in the ledger."""
        run = answering.run
        view = await self._settled(
            server, run, lambda seen: not answering.lost(seen), answering.approvals
        )
        if view is None:
            await answering.raise_doubt(answering.approved, _LOST_SESSION)
            raise _gone(run)
        untold = answering.untold(view)
        if untold and problem is not None and problem.fate == "answered":
            # The server itself has ended the request, and has not even kept the answer.
            await answering.take_back()
            raise problem
        await answering.record_results(view)
        await answering.raise_doubt(answering.lost(view), str(problem or ""))
        if untold:
            # These answers let no tool run: the worker that retries posts them again.
            raise problem or RemoteError(
                f"The server of {run.app} at {server.remote.url} has taken the answer to run "
                f"{run.id} and does not have it in session {run.session}."
            )
        return view

    async def _tell_reasons(
        self, server: RemoteServer, run: Run, approvals: Sequence[Approval], view: RunView
    ) -> RunView:
        """Tell the agent why calls were refused, because its own gates drop the reason.

        This is a separate message after the turn, because ADK does not accept text beside an
        answer. Its mark ensures that it is sent only once. The agent's response is a part of the
        run.
        """
        mark = told_of(run, run.pause)
        text = reasons(approvals)
        if not text or not await self._may_tell(server, run):
            return view
        message = say(text)
        try:
            if mark not in view.told:
                state = {TOLD: mark}
                await server.run(run.user, run.session, message=message, state=state)
            else:
                told = view.told[mark]
                seen = await self._settled(server, run, is_over)
                if seen is None or is_over(seen) or not self._python[run.app]:
                    return seen or view
                await self._require_whole(server, run, seen, approvals)
                await server.run(run.user, run.session, message=message, invocation=told)
        except RemoteUnavailable:
            raise
        except RemoteError as error:
            # The agent has got the refusal itself, and the refused tools have not run.
            log.warning("remote.reasons_not_told", error=str(error))
        return await self._look(server, run, approvals) or view

    async def _may_tell(self, server: RemoteServer, run: Run) -> bool:
        if server.remote.reasons != "auto":
            return server.remote.reasons == "message"
        return self._python[run.app] and await server.talks()

    # -- resuming the turn of another worker ---------------------------------------------------

    async def _go_on_from_message(self, server: RemoteServer, run: Run, view: RunView) -> None:
        """Continue a turn that has a message and no end, without appending the message again."""
        await self._require_whole(server, run, view)
        if view.remainder is Remainder.LOST:
            raise turn_lost(run, [])
        if view.said is None or not self._python[run.app]:
            raise RemoteError(
                f"The server of {run.app} at {server.remote.url} stopped in the middle of the turn,"
                f" and cannot go on in session {run.session}. Nothing was approved in it; submit "
                "the message again."
            )
        await server.run(
            run.user,
            run.session,
            message=say(run.message),
            invocation=view.said.invocation_id,
        )

    async def _go_on_from_results(
        self, server: RemoteServer, run: Run, approvals: Sequence[Approval], view: RunView
    ) -> RunView:
        """Let the agent continue, if it can do so without a message.

        Raises:
            TurnLost: The server is not written in Python, or its root cannot continue.
        """
        if view.half:
            return view
        ran = await self.ledger.approvals([one.id for one in approvals])
        if view.remainder is Remainder.LOST:
            raise turn_lost(run, ran)
        if not self._python[run.app]:
            raise turn_lost(run, ran, "its server is not written in Python")
        invocation = view.events[view.last_answer(approvals)].invocation_id
        try:
            await server.run(run.user, run.session, message=None, invocation=invocation)
        except RemoteUnavailable:
            raise
        except RemoteError as error:
            raise turn_lost(run, ran, str(error)) from error
        return await self._look(server, run, approvals) or view

    async def _require_whole(
        self, server: RemoteServer, run: Run, view: RunView, approvals: Sequence[Approval] = ()
    ) -> None:
        """Require that the latest turn was not cut off in a way that ADK cannot go on from.

        Raises:
            RemoteError: The server died while it wrote a pause.
            TurnLost: The connection broke, and the server has answered calls itself.
        """
        if view.half:
            raise RemoteError(
                f"The server of {run.app} at {server.remote.url} stopped while it wrote a pause "
                f"into session {run.session}: nobody can approve the call any more, and it was not "
                "run. Submit the message again."
            )
        if view.aborted:
            raise await self._aborted(run, view, approvals)

    async def _aborted(self, run: Run, view: RunView, approvals: Sequence[Approval]) -> TurnLost:
        """Return the error for calls that the server has answered itself."""
        names = ", ".join(dict.fromkeys(f"{name}()" for name in view.aborted))
        why = (
            f"the connection to its server broke during {names}, and google-adk tells the agent "
            "that the call was aborted. Nobody was asked about it, and it may or may not have "
            "happened if it needs no approval"
        )
        return turn_lost(run, await self.ledger.approvals([one.id for one in approvals]), why)

    # -- reading the session -------------------------------------------------------------------

    async def _look(
        self,
        server: RemoteServer,
        run: Run,
        asked: Sequence[Approval] = (),
        *,
        just_sent: bool = False,
    ) -> RunView | None:
        if not self._python.get(run.app):
            # A proxy may have said no.
            self._python[run.app] = await server.is_python()
        session = await server.session(run.user, run.session)
        if session is None:
            return None
        return read_view(
            session,
            run,
            python=self._python[run.app],
            just_sent=just_sent,
            invocations=[one.origin.invocation for one in asked],
            rules=self.long_running,
        )

    async def _settled(
        self, server: RemoteServer, run: Run, done: Settled, asked: Sequence[Approval] = ()
    ) -> RunView | None:
        """Watch a session until it shows what we wait for, or patience ends."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.patience
        while True:
            view = await self._look(server, run, asked)
            if view is None or done(view) or loop.time() >= end:
                return view
            # The server does not notify us when it writes.
            await asyncio.sleep(_LOOK_EVERY)

    async def _show_rest(self, run: Run, view: RunView) -> None:
        """Show the events that the watchers have missed, because they went to a dead worker."""
        if run.watched and view.mine:
            for event in latest_turn(view.mine, view.mine[-1].invocation_id):
                await self.show(run, event_json(event))

    def _server(self, run: Run) -> RemoteServer:
        app = run.app
        remote = self.apps.get(app)
        if remote is None:
            names = ", ".join(sorted(self.apps)) or "none"
            raise AppNotFound(f"There is no [agents.remote.{app}]. There are: {names}.")
        if self._client is None:
            # The number is not limited: each running turn holds a connection to its end.
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
            self._client = httpx.AsyncClient(limits=limits, transport=self.transport)
        return RemoteServer(
            app,
            remote,
            self._client,
            show=partial(self.show, run),
            streaming=run.watched is Watch.WORDS,
        )


def _gone(run: Run) -> SessionGone:
    return SessionGone(
        f"Session {run.session} of {run.user} in {run.app} is gone from its server; run "
        f"{run.id} cannot go on, and nothing can be told to its agent any more."
    )
