"""A whole installation for the promises: real Redis, real processes, real mail, and `kill -9`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import TextIO

from ports import free_port
from signoff.broker.ledger.follow import follow
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.supervisor import Supervisor
from signoff.cli.config.settings import load_settings
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import LedgerUnavailable, MailDeferred

ROOT = Path(__file__).parents[2]
MANAGER = "mara@example.com"
ENDS = {What.COMPLETED, What.FAILED, What.IN_DOUBT}


@dataclass
class Plant:
    """An installation that runs."""

    folder: Path
    parts: Parts
    supervisor: Supervisor
    mailbox: dev_mailbox.DevMailbox
    inbound: int
    environment: dict[str, str]
    acknowledged: set[str] = field(default_factory=set)
    """Message-IDs of the cards whose reply the gateway has taken with a 250."""

    async def kill(self, name: str) -> None:
        """Kill a process as a power cut would, and start it again."""
        child = self.supervisor.children.pop(name)
        child.signal(signal.SIGKILL)
        await child.ended.wait()
        await self.start(name)

    async def stop(self, *names: str) -> None:
        """Ask processes to stop, and wait for as long as they need."""
        children = [self.supervisor.children[name] for name in names]
        for child in children:
            child.signal(signal.SIGTERM)
        for child in children:
            await child.ended.wait()
        await self.supervisor.stop(*names)

    async def end_leases(self, *wanted: str) -> None:
        """End the leases of these stages, and of all sessions, now.

        A killed process leaves its leases behind. The test does not wait for short leases to end,
        because a machine that pauses for a moment loses them.
        """
        store = self.parts.ledger.store
        for key in await store.keys("lease:", "string"):
            # The keys of the other leases contain no session.
            if key.count("\0") == 2:
                await store.client.delete(store.prefix + key)
        for stage in wanted:
            outbox = f"{store.prefix}outbox:{stage}"
            for item in await store.client.zrange(outbox, 0, -1):
                await store.client.zadd(outbox, {str(item): 0}, xx=True)
            await self.parts.ledger.bell.ring(stage)

    async def start(self, *names: str) -> None:
        """Start processes and wait until they are ready; ``worker-2`` is a second worker."""
        for name in names:
            command = name.partition("-")[0]
            await self.supervisor.signoff(name, command, env=self.environment)
        await self.supervisor.ready(*names, within=300)

    @asynccontextmanager
    async def answering(self, text: Callable[[EmailMessage], str]) -> AsyncIterator[None]:
        """Answer each card while the block runs.

        A card that cannot be answered fails the test, and so does a process that ends.
        """
        async with asyncio.TaskGroup() as group:
            besides = [
                group.create_task(self.answer_everything(text)),
                group.create_task(self.supervisor.watch()),
            ]
            try:
                yield
            finally:
                for one in besides:
                    one.cancel()

    async def answer_everything(self, text: Callable[[EmailMessage], str]) -> None:
        """Answer each card immediately, and retry while the gateway is down, until cancelled."""
        seen: set[str] = set()

        def fresh(mail: EmailMessage) -> bool:
            return str(mail["Message-ID"]) not in seen and "+" in str(mail["Reply-To"])

        async with asyncio.TaskGroup() as group:
            while True:
                mail = await self.mailbox.wait_for(fresh)
                seen.add(str(mail["Message-ID"]))
                group.create_task(self.answer(mail, text(mail)))

    async def answer(self, mail: EmailMessage, text: str) -> None:
        """Answer a card, and retry while the gateway is down."""
        while True:
            with contextlib.suppress(MailDeferred):
                await dev_mailbox.reply(mail, text, MANAGER, host="127.0.0.1", port=self.inbound)
                self.acknowledged.add(str(mail["Message-ID"]))
                return
            # The gateway is down. Only another attempt can show that it is up again.
            await asyncio.sleep(0.2)

    async def ends(self, runs: Iterable[str]) -> dict[str, Event]:
        """Wait until these runs have ended, and return the last event of each."""
        left = set(runs)
        found: dict[str, Event] = {}
        async for event in follow(self.parts.ledger.store):
            if event.what in ENDS and event.run in left:
                left.discard(event.run)
                found[event.run] = event
            if not left:
                return found
        raise AssertionError("following ends only with the run")

    async def all_end(self, runs: Sequence[str]) -> list[RunState]:
        """Wait until these runs have ended, and return their states; Redis may go down."""
        while True:
            with contextlib.suppress(LedgerUnavailable):
                found = await self.parts.ledger.runs(runs)
                if all(run.ended for run in found):
                    return [run.state for run in found]
            await asyncio.sleep(0.2)

    def executions(self) -> Counter[str]:
        """Return how often the tool has run, by purpose."""
        journal = self.folder / "journal.jsonl"
        lines = journal.read_text().splitlines() if journal.exists() else []
        return Counter(str(json.loads(line)["purpose"]) for line in lines)


@asynccontextmanager
async def plant(
    folder: Path,
    *processes: str,
    broker: str = "",
    within: str = "1h",
    lease: int = 30,
    agents: Path = ROOT / "examples" / "agents",
    gateway: str = "",
    replicated: str = "",
    redis: str = "",
) -> AsyncIterator[Plant]:
    """Make an installation, start these processes, and stop everything at the end.

    Args:
        folder: The folder of its files.
        processes: The names of the processes to start.
        broker: The URL of the broker; the default is the ledger's Redis.
        within: The deadline of a request.
        lease: How many seconds a worker's lease of a run lasts.
        agents: The folder of agents.
        gateway: More settings of `[gateway]`; further tables may follow.
        replicated: The URL of a Redis with replicas, which commits wait for.
        redis: The URL of another Redis without replicas; the default is an embedded one.
    """
    with ExitStack() as stack:
        url = (
            replicated
            or redis
            or stack.enter_context(EmbeddedRedis(folder / "redis", fsync="always")).url
        )
        async with dev_mailbox.DevMailbox(folder / "mail") as mailbox:
            inbound = free_port()
            settings = folder / "signoff.toml"
            settings.write_text(
                _settings(
                    redis=url,
                    # The last release does not know this setting.
                    durability='durability = "replica"' if replicated else "",
                    broker=broker,
                    smtp=mailbox.port,
                    inbound=inbound,
                    within=within,
                    lease=lease,
                    agents=agents,
                    gateway=gateway,
                )
            )
            environment = {
                "SIGNOFF_CONFIG": str(settings),
                "SIGNOFF_EXAMPLE_JOURNAL": str(folder / "journal.jsonl"),
                "GOOGLE_API_KEY": "",
            }
            parts = build(load_settings(settings))
            output = stack.enter_context((folder / "processes.log").open("w"))
            echo = partial(_write_line, output)
            async with Supervisor(echo=echo, grace=5) as supervisor:
                built = Plant(folder, parts, supervisor, mailbox, inbound, environment)
                try:
                    await built.start(*processes)
                    yield built
                finally:
                    await parts.ledger.close()


def _write_line(output: TextIO, name: str, line: str) -> None:
    print(f"{name}: {line}", file=output, flush=True)


def _settings(
    *,
    redis: str,
    broker: str,
    durability: str,
    smtp: int,
    inbound: int,
    within: str,
    lease: int,
    agents: Path,
    gateway: str,
) -> str:
    return f"""\
[redis]
url = "{redis}"
{durability}
[broker]
url = "{broker}"
[agents]
folder = "{agents}"
lease = {lease}
[gateway]
port = 0
{gateway}
[email.smtp]
port = {smtp}
[email.inbound]
port = {inbound}
[log]
format = "json"
[[people]]
id = "mara"
name = "Mara Lind"
email = "{MANAGER}"
[default]
ask = ["mara"]
within = "{within}"
in_doubt = "fail"
"""
