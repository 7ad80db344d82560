"""A worker and the channels in one process, for tests of your own agents and policies."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

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
from signoff.worker.agent_folders import app_names
from signoff.worker.executor import Executor


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

    The agents run in ADK's own Runner. The policies route requests to a `FakeChannel` for each
    configured channel. The requests are stored in a Redis that is started for the test. The clock
    stands still until `advance`. Use it as an async context manager.

    Args:
        settings: The settings from `signoff.cli.config.settings.load_settings`. Only policies,
            people and agents are used; no server in them is contacted.

    Attributes:
        channels: The channels by their names; ``channels["email"].delivered`` holds every message.
        clock: The clock of the test.
        decisions: For decisions and other moves that have no method here.
    """

    channels: Mapping[str, FakeChannel]
    clock: VirtualClock
    decisions: Decisions

    def __init__(self, settings: RehearsedSettings) -> None:
        self._settings = settings
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
        found = await submit(self._ledger, app, message, user=user, session=session)
        return await self._worked(found.id)

    async def cards(self, run: Run) -> list[Message]:
        """Return the cards of the requests that the run waits for, by channel, the oldest first."""
        waiting = {one.id for one in await self._ledger.approvals(run.waiting)}
        return [
            message
            for channel in self.channels.values()
            for message in channel.delivered
            if message.kind is Kind.CARD and message.card.approval in waiting
        ]

    async def approve(
        self,
        card: Message,
        *,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
    ) -> Run:
        """Approve, as the person who got the card; return the run after that.

        Raises:
            DecisionRefused: The person may not decide, or no longer may.
            PayloadError: The values do not fit what the agent asks for.
        """
        channel = self._channel_of(card)
        decided = await channel.approve(self.decisions, card, reason=reason, values=values)
        return await self._worked(decided.origin.run)

    async def reject(self, card: Message, *, reason: str = "") -> Run:
        """Reject, as the person who got the card; see `approve`."""
        decided = await self._channel_of(card).reject(self.decisions, card, reason=reason)
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
        """Start the Redis; the agents are loaded when they are first needed."""
        settings, stack = self._settings, self._stack
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-test-")))
        redis = stack.enter_context(EmbeddedRedis(folder / "redis", fsync="everysec"))
        self.clock = VirtualClock()
        self._ledger = Ledger(Store.open(redis.url, clock=self.clock))
        stack.push_async_callback(self._ledger.close)
        self.decisions = Decisions(self._ledger, settings.everybody)
        guard = GuardPlugin(self._ledger, holding=Holding(settings.policies, settings.default))
        sessions = session_service("", settings.agents_folder, self._ledger.store)
        apps = Apps(settings.agents_folder, sessions, lambda: guard)
        stack.push_async_callback(apps.close)
        runtime = AdkRuntime(
            apps, guard, long_running=settings.long_running, inputs=settings.inputs
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
        for name in app_names(settings.agents_folder):
            for stage in (stages.run(name), stages.resume(name)):
                self._drains[stage] = _draining(executor, stage)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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


def _draining(executor: Executor, stage: str) -> Drain:
    async def drain() -> int:
        return await executor.drain(stage)

    return drain
