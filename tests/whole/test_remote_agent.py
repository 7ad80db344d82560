"""The whole way with an agent that lives behind an API server of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from promises.plant import ROOT, plant
from signoff.core.events import What
from worker.remote.api_server import ApiServer


@pytest.mark.timeout(120)
@pytest.mark.parametrize("word", ["approve", "reject over budget"])
async def test_an_agent_in_another_process_is_asked_for_and_resumed(
    tmp_path: Path, word: str
) -> None:
    """One table of settings, and its runs go the same way: mail, reply, tool, last word."""
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
            answering = asyncio.create_task(built.answer_everything(lambda _: word))
            run = await built.parts.desk.submit("books", "Reimburse me $2500", user="riley")
            ends = await built.ends([run.id])
            answering.cancel()
            assert ends[run.id].what is What.COMPLETED
            paid = server.journal.read_text() if server.journal.exists() else ""
            assert len(paid.splitlines()) == (1 if word == "approve" else 0)
    finally:
        server.kill()
