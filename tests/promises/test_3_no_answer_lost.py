"""No acknowledged answer and no work is lost, whatever messages Celery loses."""

from __future__ import annotations

import asyncio
import base64
import hmac
import os
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from celery import Celery

from clusters import clustered
from ports import free_port
from promises.plant import MANAGER, plant
from sentinels import replicated
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.submit import submit
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState

RUNS = 200 * int(os.environ.get("SIGNOFF_KILLS", "1"))
KILLS = 5 * int(os.environ.get("SIGNOFF_KILLS", "1"))
"""How often the primary is killed."""


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("count", [RUNS])
async def test_purging_the_broker_in_the_middle_of_many_runs(tmp_path: Path, count: int) -> None:
    """Every doorbell in flight is purged again and again, and every run still completes."""
    async with plant(tmp_path, "worker", "channels", "gateway") as here:
        answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
        queues = [
            stages.queue(stage)
            for stage in (
                stages.run("finance"),
                stages.resume("finance"),
                stages.ROUTE,
                stages.INTAKE,
                stages.deliver("email"),
            )
        ]
        runs = []
        for n in range(count):
            runs.append(
                await submit(
                    here.parts.ledger,
                    "finance",
                    f"Reimburse me $2500 for trip {n}",
                    user=f"user{n}@example.com",
                )
            )
            if n % 25 == 0:
                await asyncio.to_thread(_purge, here.parts.celery, queues)
        waiting = asyncio.create_task(here.ends(run.id for run in runs))
        while not waiting.done():
            await asyncio.to_thread(_purge, here.parts.celery, queues)
            await asyncio.wait({waiting}, timeout=1)
            # Half of the time the doorbells get through.
            await asyncio.wait({waiting}, timeout=1)
        assert {event.what for event in waiting.result().values()} == {What.COMPLETED}
        answering.cancel()
        executed = here.executions()
        assert len(executed) == count
        assert max(executed.values()) == 1
        await audit.verify(here.parts.ledger.store)


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("by", ["sentinels", "cluster"])
async def test_every_run_completes_while_primaries_die(tmp_path: Path, by: str) -> None:
    """Real processes find the new primary, and no acknowledged reply is lost."""
    folder = tmp_path / "servers"
    folder.mkdir()
    processes = ("worker", "channels", "gateway")
    watched = replicated(folder, replicas=2, sentinels=3)
    with watched if by == "sentinels" else clustered(folder, replicas=2) as servers:
        async with (
            plant(tmp_path, *processes, replicated=servers.url) as here,
            here.answering(lambda _: "approve"),
        ):
            runs: list[str] = []
            for kill in range(KILLS):
                for n in range(10):
                    user, trip = f"user{kill}.{n}@example.com", f"Reimburse me $2500 for trip {n}"
                    run = await submit(here.parts.ledger, "finance", f"{trip} {kill}", user=user)
                    runs.append(run.id)
                while len(here.acknowledged) < len(runs) - 5:  # noqa: ASYNC110 -- no signal announces it
                    await asyncio.sleep(0.05)
                await servers.fail_over()
                await servers.recover()
            ends = await here.all_end(runs)
            assert set(ends) == {RunState.COMPLETED}
            executed = here.executions()
            assert len(executed) == len(runs)
            assert max(executed.values()) == 1
            await audit.verify(here.parts.ledger.store)


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(3600)
async def test_every_run_completes_while_the_slot_moves(tmp_path: Path) -> None:
    """Real processes wait while the slot moves key by key, and then use its new node."""
    folder = tmp_path / "servers"
    folder.mkdir()
    processes = ("worker", "channels", "gateway")
    with clustered(folder, primaries=2, replicas=0) as servers:
        async with (
            plant(tmp_path, *processes, redis=servers.url) as here,
            here.answering(lambda _: "approve"),
        ):
            runs: list[str] = []
            for move in range(KILLS):
                for n in range(10):
                    user, trip = f"user{move}.{n}@example.com", f"Reimburse me $2500 for trip {n}"
                    run = await submit(here.parts.ledger, "finance", f"{trip} {move}", user=user)
                    runs.append(run.id)
                target = servers.nodes[(move + 1) % 2]
                source = await servers.begin_moving(target)
                await servers.move_keys(source, target)
                await servers.end_moving(target)
            ends = await here.all_end(runs)
            assert set(ends) == {RunState.COMPLETED}
            executed = here.executions()
            assert len(executed) == len(runs)
            assert max(executed.values()) == 1
            await audit.verify(here.parts.ledger.store)


@pytest.mark.soak
@pytest.mark.promise
async def test_an_acknowledged_reply_survives_the_gateway_and_the_channels(tmp_path: Path) -> None:
    """The gateway stores a reply before it says 250; both processes are killed at that moment."""
    async with plant(tmp_path, "worker", "channels", "gateway") as here:
        run = await submit(
            here.parts.ledger,
            "finance",
            "Reimburse me $2500 for the trip",
            user="riley@example.com",
        )
        answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
        card = await here.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
        while str(card["Message-ID"]) not in here.acknowledged:  # noqa: ASYNC110 -- no signal announces it
            await asyncio.sleep(0.001)
        await asyncio.gather(here.kill("gateway"), here.kill("channels"))
        ends = await here.ends([run.id])
        answering.cancel()
        assert ends[run.id].what is What.COMPLETED
        run = await here.parts.ledger.run(run.id)
        (approval,) = await here.parts.ledger.approvals(run.approvals)
        assert approval.handoff is Handoff.RESUMED


@pytest.mark.promise
@pytest.mark.soak
async def test_an_answer_by_http_survives_the_gateway_and_the_channels(tmp_path: Path) -> None:
    """The webhook stores a mail before it says 200; after a kill, the same mail decides once."""
    secret = "whsec_" + base64.b64encode(b"k" * 32).decode()
    port = free_port()
    more = f"[email.webhook]\nsecrets = ['{secret}']"
    async with plant(tmp_path, "worker", "channels", gateway=more) as here:
        here.environment["SIGNOFF_GATEWAY__PORT"] = str(port)
        await here.start("gateway")
        run = await submit(
            here.parts.ledger,
            "finance",
            "Reimburse me $2500 for the trip",
            user="riley@example.com",
        )
        card = await here.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
        raw = dev_mailbox.build_reply(card, "approve", MANAGER).as_bytes()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            posted = await http.post("/inbound/mail", content=raw, headers=_signed(secret, raw))
        assert posted.status_code == 200
        await asyncio.gather(here.kill("gateway"), here.kill("channels"))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
            again = await http.post("/inbound/mail", content=raw, headers=_signed(secret, raw))
        assert again.status_code == 200
        assert (await here.ends([run.id]))[run.id].what is What.COMPLETED
        assert sum(here.executions().values()) == 1
        run = await here.parts.ledger.run(run.id)
        (approval,) = await here.parts.ledger.approvals(run.approvals)
        assert approval.handoff is Handoff.RESUMED


def _signed(secret: str, body: bytes) -> dict[str, str]:
    at = str(int(time.time()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.digest(key, f"msg_1.{at}.".encode() + body, "sha256")
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": at,
        "webhook-signature": "v1," + base64.b64encode(made).decode(),
    }


def _purge(celery: Celery, queues: list[str]) -> None:
    with celery.connection_for_write() as connection:
        channel: Any = connection.default_channel  # Redis only: not in kombu's types
        for name in queues:
            channel.queue_purge(name)
