"""A whole run with RabbitMQ instead of Redis as the broker: only one URL changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from promises.plant import plant
from services import rabbitmq
from signoff.broker.submit import submit
from signoff.core.approvals.events import What


@pytest.mark.soak
async def test_approval_completes_with_rabbitmq_as_the_broker(tmp_path: Path) -> None:
    """Run, mail, reply and resume work; RabbitMQ only carries the doorbells."""
    (tmp_path / "rabbitmq").mkdir()
    with rabbitmq(tmp_path / "rabbitmq") as url:
        async with plant(tmp_path, "worker", "channels", "gateway", broker=url) as here:
            answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
            runs = [
                await submit(
                    here.parts.ledger,
                    "finance",
                    f"Reimburse me $2500 for trip {n}",
                    user="riley@example.com",
                )
                for n in range(10)
            ]
            ends = await here.ends(run.id for run in runs)
            answering.cancel()
            assert {event.what for event in ends.values()} == {What.COMPLETED}
            assert sum(here.executions().values()) == len(runs)
