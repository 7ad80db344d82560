"""A worker and the channels in one process, for tests of your own agents and policies."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol, Self

import structlog
from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.submit import submit
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.forecast import Rulebook
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.pipeline.route import Router
from signoff.channels.tasks import Drain, drains
from signoff.core.approvals.approval import State
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.run import Run
from signoff.core.base.hiding import Hidden
from signoff.testing.channel import FakeChannel
from signoff.testing.clock import VirtualClock
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.guard.holding import Holding
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.agent_folders import app_names, require_agent
from signoff.worker.dispatch import MixedRuntime
from signoff.worker.executor import Executor
from signoff.worker.frameworks.loading import ADK, framework_of
from signoff.worker.frameworks.runtime import framework_runtime


class RehearsedSettings(Rulebook, Protocol):
    """The settings that a rehearsal uses; `load_settings` returns them."""

    @property
    def agents_folder(self) -> Path:
        """The folder of the agents' folders."""
        ...

    @property
    def long_running(self) -> Sequence[LongRunning]:
        """The long-running tools that wait for an approval."""
        ...

    @property
    def inputs(self) -> Sequence[InputRule]:
        """What a plain yes or no means for requests for input without a schema."""
        ...

    @property
    def all_hidden(self) -> Hidden:
        """The arguments that any policy hides."""
        ...


class Rehearsal:
    """Runs your agents under your policies, without a model, a mail server or waiting.

    The agents of every framework run as in a worker. The policies route requests to a
    `FakeChannel` for each configured channel. The requests are stored in a Redis that is started
    for the test. The clock stands still until `advance`. Use it as an async context manager.

    Args:
        settings: The settings from `signoff.cli.config.settings.load_settings`. Only policies,
            people and agents are used; no server in them is contacted.
        start: The time at which the clock starts, with a time zone. The default is the start of
            2026, which is a night: cards that wait for working hours wait then.

    Attributes:
        channels: The channels by their names; ``channels["email"].delivered`` holds every message.
        clock: The clock of the test.
        decisions: For decisions and other moves that have no method here.
    """

    channels: Mapping[str, FakeChannel]
    clock: VirtualClock
    decisions: Decisions

    def __init__(self, settings: RehearsedSettings, *, start: datetime | None = None) -> None:
        self._settings = settings
        self.clock = VirtualClock(start) if start is not None else VirtualClock()
        self._stack = AsyncExitStack()
        self._drains: dict[str, Drain] = {}

    async def submit(self, app: str, message: str, *, user: str, session: str = "") -> Run:
        """Send a message to an agent; return its run when it has paused or ended.

        Args:
            app: The agent's folder.
            message: The user's message.
            user: The requester: an id or an address.
            session: An ADK session to continue; "" starts a new one.

        Raises:
            AppNotFound: There is no such agent.
        """
        require_agent(app, self._settings.agents_folder)
        found = await submit(self._ledger, app, message, user=user, session=session)
        return await self._worked(found.id)

    async def cards(self, run: Run) -> list[Message]:
        """Return the cards of the requests that the run waits for, in the order of its calls.

        The cards of one request are in the order of their delivery. Those of earlier levels are
        among them.
        """
        return [
            message
            for approval in run.waiting
            for channel in self.channels.values()
            for message in channel.delivered
            if (message.kind, message.card.approval) == (Kind.CARD, approval)
        ]

    async def approve(
        self,
        card: Message,
        *,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
        by: str = "",
    ) -> Run:
        """Approve; return the run after that.

        Args:
            card: The card.
            reason: The reason.
            values: What the approver enters: other arguments, or the answer to a request for input.
            by: The id of the person who approves; "" for the person who got the card.

        Raises:
            DecisionRefused: The person may not decide, or no longer may.
            PayloadError: The values do not fit what the agent asks for.
            LookupError: There is no such person.
        """
        channel = self._channel_of(card)
        decided = await channel.approve(self.decisions, card, reason=reason, values=values, by=by)
        return await self._worked(decided.origin.run)

    async def reject(self, card: Message, *, reason: str = "", by: str = "") -> Run:
        """Reject; see `approve`."""
        channel = self._channel_of(card)
        decided = await channel.reject(self.decisions, card, reason=reason, by=by)
        return await self._worked(decided.origin.run)

    async def advance(self, duration: timedelta, run: Run) -> Run:
        """Let time pass, with its reminders, escalations and deadlines; return the run after that.

        Args:
            duration: The time. To test each deadline separately, advance to one at a time.
            run: The run to return.
        """
        self.clock.advance(duration)
        return await self._worked(run.id)

    async def state(self, run: Run) -> list[State]:
        """Return the state of each of the run's approvals, in the order in which they opened."""
        events = await self._ledger.history(run.id)
        ids = dict.fromkeys(event.approval for event in events if event.approval)
        return [one.state for one in await self._ledger.approvals(list(ids))]

    async def __aenter__(self) -> Self:
        """Start the Redis; ADK's agents are loaded when they are first needed."""
        _log_plainly()
        settings, stack = self._settings, self._stack
        state = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-test-")))
        redis = stack.enter_context(EmbeddedRedis(state / "redis", fsync="everysec"))
        self._ledger = Ledger(Store.open(redis.url, clock=self.clock))
        stack.push_async_callback(self._ledger.close)
        self.decisions = Decisions(self._ledger, settings.everybody)
        guard = GuardPlugin(self._ledger, holding=Holding(settings.policies, settings.default))
        sessions = session_service("", settings.agents_folder, self._ledger.store)
        apps = Apps(settings.agents_folder, sessions, lambda: guard)
        stack.push_async_callback(apps.close)
        folder, inputs = settings.agents_folder, settings.inputs
        names = app_names(folder)
        others = [name for name in names if framework_of(folder, name) != ADK]
        runtime = MixedRuntime(
            AdkRuntime(apps, guard, long_running=settings.long_running, inputs=inputs),
            dict.fromkeys(others, framework_runtime(folder, self._ledger, inputs=inputs)),
        )
        executor = Executor(self._ledger, runtime, hide=settings.all_hidden)
        self.channels = {name: FakeChannel(name) for name in sorted(settings.channel_names)}
        people = self.decisions.directory
        router = Router(
            self._ledger,
            policies=settings.policies,
            fallback=settings.default,
            owners=settings.owners,
            directory=people,
            channels=list(self.channels),
        )
        intake = Intake(self.decisions, mailbox="approvals@signoff.localhost")
        deliveries = [
            Delivery(self._ledger, one, directory=people, roster=self.decisions.roster)
            for one in self.channels.values()
        ]
        # A clock that a test advances jumps over deadlines.
        self._reconciler = Reconciler(self.decisions.roster, cards=router.cards, hears=None)
        self._drains = drains(router, intake, deliveries)
        for name in names:
            for stage in (stages.run(name), stages.resume(name)):
                self._drains[stage] = _draining(executor, stage)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop the Redis, and remove its files."""
        await self._stack.aclose()

    def _channel_of(self, card: Message) -> FakeChannel:
        return next(one for one in self.channels.values() if card in one.delivered)

    async def _worked(self, run_id: str) -> Run:
        """Process everything that is due now, and return a run after that."""
        busy = True
        while busy:
            done = [await self._reconciler.once()]
            done += [await drain() for drain in self._drains.values()]
            busy = any(done)
        return await self._ledger.run(run_id)


def _log_plainly() -> None:
    """Log errors with their tracebacks alone, unless the tests have configured structlog.

    Its default prints the locals of each frame, which takes minutes for the frames of an agent.
    """
    if structlog.is_configured():
        return
    renderer = structlog.dev.ConsoleRenderer(
        colors=False, exception_formatter=structlog.dev.plain_traceback
    )
    structlog.configure(
        processors=[*structlog.get_config()["processors"][:-1], renderer],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


def _draining(executor: Executor, stage: str) -> Drain:
    async def drain() -> int:
        return await executor.drain(stage)

    return drain
