"""A whole run with an agent behind its own API server."""

from __future__ import annotations

import asyncio
import json
from email.message import EmailMessage
from pathlib import Path

import pytest

from promises.plant import ROOT, plant
from signoff.broker.submit import submit
from signoff.core.approvals.events import What
from worker.remote.api_server import ApiServer


def word(mail: EmailMessage) -> str:
    """Answer a card: reject the larger amount."""
    body = mail.get_body(("plain",))
    assert body is not None
    return "reject over budget" if "3500" in body.get_content() else "approve"


@pytest.mark.soak
async def test_an_agent_in_another_process_is_asked_for_and_resumed(tmp_path: Path) -> None:
    """With one table of settings, its runs work as usual: mail, reply, tool, last message."""
    far, here = tmp_path / "far", tmp_path / "here"
    for folder in (far, here, here / "agents"):
        folder.mkdir()
    server = ApiServer(ROOT / "examples" / "agents", far)
    await asyncio.to_thread(server.start)
    settings = f'[agents.remote.books]\nurl = "{server.url}"\napp_name = "finance"'
    try:
        async with plant(
            here, "worker", "channels", "gateway", agents=here / "agents", gateway=settings
        ) as built:
            answering = asyncio.create_task(built.answer_everything(word))
            runs = [
                await submit(built.parts.ledger, "books", f"Reimburse me ${amount}", user="riley")
                for amount in (2500, 3500)
            ]
            ends = await built.ends([run.id for run in runs])
            answering.cancel()
            assert {one.what for one in ends.values()} == {What.COMPLETED}
            (paid,) = server.journal.read_text().splitlines()
            assert json.loads(paid)["amount"] == 2500
    finally:
        server.kill()
