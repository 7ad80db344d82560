"""Clicks over Socket Mode: two connections, which are renewed and restored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from builders import present
from channels.slack.office import Office
from channels.slack.workspace import Workspace
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.inbound.socket import SocketListener
from signoff.channels.slack.settings import SlackSettings
from signoff.core.approvals.approval import State


@pytest.fixture
async def listener(office: Office, settings: SlackSettings) -> AsyncIterator[SocketListener]:
    """A listener with two connections to the workspace."""
    made = SocketListener(settings, office.handler)
    await made.start()
    await until(lambda: not made.problem and len(office.workspace.sockets) == 2)
    yield made
    await made.stop()


async def until(holds: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(300):
        while not holds():  # noqa: ASYNC110 -- the other end gives no signal
            await asyncio.sleep(0.02)


async def test_a_click_is_done_and_then_acknowledged(
    office: Office, listener: SocketListener
) -> None:
    """When Slack gets the acknowledgement, the decision is in the ledger."""
    approval = await office.open()
    ack = await office.workspace.push(office.click("approve"))
    assert "payload" not in ack
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_every_connection_accepts_clicks(office: Office, listener: SocketListener) -> None:
    """A payload may come over any connection; a repeated one counts once."""
    await office.open()
    click = office.click("approve")
    await office.workspace.push(click, envelope="e-1", at=0)
    await office.workspace.push(click, envelope="e-2", at=1)
    await office.deliver()
    assert not office.workspace.whispers


async def test_errors_of_a_modal_are_in_the_acknowledgement(
    office: Office, listener: SocketListener
) -> None:
    """The acknowledgement has the errors of the fields."""
    from channels.slack.office import view_submission

    await office.open(template={"days": 0})
    await office.press("approve")
    ack = await office.workspace.push(view_submission(office.workspace.views[-1], {}, "U0MARA"))
    assert ack["payload"]["response_action"] == "errors"


@pytest.mark.parametrize(
    "reason", ["warning", "refresh_requested", "too_many_websockets", "link_disabled"]
)
async def test_a_connection_is_renewed(
    office: Office, listener: SocketListener, reason: str
) -> None:
    """Slack asks for a new connection every few hours; clicks count before and after."""
    workspace = office.workspace
    await office.open()
    old = workspace.sockets[0]
    await old.send_json({"type": "disconnect", "reason": reason})
    await until(lambda: len(workspace.sockets) == 2 and old not in workspace.sockets)
    await workspace.push(office.click("approve"), at=1)


async def test_dropped_connection_is_reopened(office: Office, listener: SocketListener) -> None:
    """A broken connection is made again; the other one works meanwhile."""
    workspace = office.workspace
    approval = await office.open()
    transport = present(workspace.sockets[0]._req).transport
    present(transport).abort()
    await workspace.push(office.click("approve"), at=-1)
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
    await until(lambda: len(workspace.sockets) == 2)


async def test_unreadable_payload_is_acknowledged(office: Office, listener: SocketListener) -> None:
    """Otherwise Slack would repeat it."""
    ack = await office.workspace.push({"type": "block_actions"})
    assert ack["envelope_id"] == "e-1"


async def test_click_is_not_acknowledged_while_redis_is_unavailable(
    office: Office, settings: SlackSettings, workspace: Workspace
) -> None:
    """If Redis is unavailable, the click is not acknowledged, so the person sees the failure."""
    away = Ledger(Store.open("redis://127.0.0.1:1/0"))
    taken = asyncio.Event()

    class Handler(SlackHandler):
        """A handler that reports its calls."""

        async def handle(self, payload: Mapping[str, Any]) -> dict[str, Any] | None:
            """Handle it, and report it."""
            try:
                return await super().handle(payload)
            finally:
                taken.set()

    handler = Handler(
        Decider(away, office.directory), office.web, Identities(office.web, office.directory)
    )
    await office.open()
    made = SocketListener(settings, handler)
    await made.start()
    await until(lambda: workspace.sockets)
    pushed = asyncio.create_task(workspace.push(office.click("approve")))
    await asyncio.wait_for(taken.wait(), 300)
    await made.stop()
    await away.close()
    assert not pushed.done()
    pushed.cancel()


async def test_invalid_token_is_reported_and_retried_with_growing_pauses(
    office: Office, settings: SlackSettings
) -> None:
    """Without a connection the listener reports it, and retries with growing pauses."""
    office.workspace.failures["apps.connections.open"] = ["invalid_auth"] * 1_000
    made = SocketListener(settings, office.handler)
    await made.start()
    await until(lambda: office.workspace.called("apps.connections.open"))
    await until(lambda: "invalid_auth" in made.problem)
    await made.stop()
    assert len(office.workspace.called("apps.connections.open")) <= 4
