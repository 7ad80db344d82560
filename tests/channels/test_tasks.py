"""The channels' Celery tasks, called as a worker calls them."""

import asyncio
from collections.abc import Iterator

import pytest
from structlog.testing import LogCapture

from builders import MARA
from deciding import Decider
from ports import free_port
from signoff.broker import stages
from signoff.broker.doorbells.celery import make_celery
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.route import Router
from signoff.channels.tasks import Drain, drains, register
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import FakeChannel


def all_drains(
    ledger: Ledger, directory: Directory, channel: FakeChannel | None = None
) -> dict[str, Drain]:
    """Return the drains of the stages on a ledger."""
    policies = [Policy(name="expenses", ask=("mara",))]
    router = Router(ledger, policies=policies, fallback=Fallback(), directory=directory)
    intake = Intake(Decider(ledger, directory), mailbox="approvals@signoff.example")
    delivery = Delivery(ledger, channel or FakeChannel(), directory=directory)
    return drains(router, intake, [delivery])


@pytest.fixture
def loop_thread() -> Iterator[LoopThread]:
    """Return the loop of a worker process."""
    thread = LoopThread()
    yield thread
    thread.stop()


async def test_every_stage_has_a_task_of_its_name(
    loop_thread: LoopThread, redis_url: str, prefix: str, directory: Directory
) -> None:
    """A doorbell for a stage drains it, whatever the message contains."""
    store = loop_thread.run(_made(redis_url, prefix))
    ledger = Ledger(store)
    app, channel = make_celery("memory://"), FakeChannel()
    found = all_drains(ledger, directory, channel)
    register(app, loop_thread, found)

    assert set(found) == {"route", "intake", "deliver.email"}
    assert {stages.task(stage) for stage in found} <= set(app.tasks)

    approval = await asyncio.to_thread(loop_thread.run, _opened(ledger, directory))
    await asyncio.to_thread(app.tasks["signoff.route"].run, "route")
    await asyncio.to_thread(app.tasks["signoff.deliver.email"].run, "something", "else")
    await asyncio.to_thread(app.tasks["signoff.intake"].run)

    (message,) = channel.delivered
    assert (message.card.approval, message.person) == (approval, MARA.id)
    await asyncio.to_thread(loop_thread.run, ledger.close())


def test_a_ledger_that_is_away_is_waited_for(
    loop_thread: LoopThread, log_output: LogCapture
) -> None:
    """A task does not fail without Redis: the work stays in the outbox."""
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{free_port()}/0"))
    app = make_celery("memory://")
    register(app, loop_thread, all_drains(ledger, Directory([MARA])))

    app.tasks["signoff.route"].run("route")

    assert [entry["event"] for entry in log_output.entries] == ["stage.ledger_unavailable"]
    loop_thread.run(ledger.close())


async def _made(redis_url: str, prefix: str) -> Store:
    return Store.open(redis_url, prefix=prefix)


async def _opened(ledger: Ledger, directory: Directory) -> str:
    # Imported here, because conftest.py is not a module to import at the top.
    from channels.conftest import Channels

    approval = await Channels(ledger, Decider(ledger, directory), directory, FakeChannel()).open()
    return approval.id
