"""The prefixed tools of an OpenAPI document: a callback asks, and the shown call is sent."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from signoff.core.approvals.run import RunState
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker.office import Office
from worker.test_changed_arguments import begin, only, put

pytestmark = [
    # ADK announces its experimental features by warning about them.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    # It sends cookies in a deprecated way, which httpx warns about.
    pytest.mark.filterwarnings("ignore:Setting per-request cookies:DeprecationWarning"),
]

AGENT = """
import json
from google.adk.agents import Agent
from google.adk.tools.openapi_tool import OpenAPIToolset
from signoff.testing import ScriptedModel, ToolCall

def script(turn):
    if turn.tool_results:
        return json.dumps(dict(turn.tool_results[-1].response))
    return ToolCall(*json.loads(turn.user_text)[0])

def gate(tool, args, tool_context):
    if iban := tool_context.state.get("iban"):
        args["iban"] = iban
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="May it?")
        return {"status": "pending"}

root_agent = Agent(
    name="bank",
    model=ScriptedModel(script=script),
    tools=[
        OpenAPIToolset(
            spec_dict=SPEC, tool_name_prefix="bank", allow_private_network_access=True
        )
    ],
    before_tool_callback=gate,
)
"""


def spec(url: str) -> dict[str, Any]:
    """Return an OpenAPI document of one operation."""
    schema = {"type": "object", "properties": {"iban": {"type": "string"}}}
    body = {"content": {"application/json": {"schema": schema}}}
    answer = {"200": {"description": "ok"}}
    operation = {"operationId": "pay", "requestBody": body, "responses": answer}
    return {
        "openapi": "3.0.0",
        "info": {"title": "bank", "version": "1"},
        "servers": [{"url": url}],
        "paths": {"/pay": {"post": operation}},
    }


@pytest.fixture
def bank() -> Iterator[tuple[str, list[Any]]]:
    """Return a server and the bodies that it received."""
    sent: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"paid": true}')

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", sent
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def app(office: Office, bank: tuple[str, list[Any]], tmp_path: Path) -> str:
    """Return an agent with the tools of that server."""
    name = f"bank_{uuid.uuid4().hex}"
    folder = tmp_path / "agents" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from . import agent as agent\n")
    (folder / "agent.py").write_text(AGENT.replace("SPEC", repr(spec(bank[0]))))
    guard = GuardPlugin(office.ledger)
    office.apps = Apps(tmp_path / "agents", office.apps.sessions, lambda: guard)
    office.executor = Executor(office.ledger, AdkRuntime(office.apps, guard))
    return name


async def test_approved_openapi_request_is_sent_once(
    office: Office, bank: tuple[str, list[Any]], app: str
) -> None:
    """Each step makes a renamed copy of the tool; it still runs once."""
    run = await begin(office, app, ["bank_pay", {"iban": "made up"}], iban="DE-1")
    approval = await only(office, run)
    assert (approval.call.name, approval.call.args) == ("bank_pay", {"iban": "DE-1"})
    assert bank[1] == []
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert bank[1] == [{"iban": "DE-1"}]
    assert json.loads((await office.ledger.approval(approval.id)).result) == {"paid": True}


async def test_changed_openapi_arguments_are_asked_about_again(
    office: Office, bank: tuple[str, list[Any]], app: str
) -> None:
    """With another state the callback gives other arguments, so the call is asked about again."""
    run = await begin(office, app, ["bank_pay", {"iban": "DE-1"}])
    await office.approve(run)
    await put(office, run, iban="DE-EVIL")
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert bank[1] == []
