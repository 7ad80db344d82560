"""A gate without a transport, and a server that counts its calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from builders import CLEO, MARA
from deciding import Decider
from signoff.channels.mcp.calls import Calls
from signoff.channels.mcp.messages import Answer, Call, call_of, read
from signoff.channels.mcp.records import Caller
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval
from signoff.core.policies.policy import Fallback, Policy

POLICIES = tuple(
    Policy.model_validate(one)
    for one in (
        {
            "name": "reads",
            "when": "tool.startsWith('bank.read')",
            "effect": "allow",
            "at_most": "20/h",
        },
        {
            "name": "drops",
            "when": "tool.startsWith('bank.drop')",
            "effect": "deny",
            "reason": "nobody drops tables",
        },
        {"name": "once", "when": "tool == 'bank.once'", "ask": ["mara"], "in_doubt": "fail"},
        {"name": "safe", "when": "tool == 'bank.safe'", "ask": ["mara"], "in_doubt": "retry"},
        {"name": "refunds", "when": "tool.startsWith('bank.')", "ask": ["mara"]},
    )
)
CALLER = Caller("desk", "riley", "s1", "bank")


def call(tool: str = "refund", args: JsonValue = None, **more: JsonValue) -> Call:
    """Return a call in the form of a client.

    Args:
        tool: The tool.
        args: The arguments; None for an amount.
        more: What the client answers to questions; anything else is in `_meta`.
    """
    given: JsonValue = {"amount": 10.50} if args is None else args
    answers: dict[str, JsonValue] = {
        name: more.pop(name) for name in ("inputResponses", "requestState") if name in more
    }
    params: JsonValue = {"name": tool, "arguments": given, "_meta": more, **answers}
    text = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    found = call_of(read(json.dumps(text).encode()))
    assert found is not None
    return found


def said(answer: Answer) -> str:
    """Return the text of a result."""
    return str(json.loads(answer.text)["content"][0]["text"])


@dataclass
class Server:
    """A server with one tool.

    Attributes:
        got: The arguments of its calls, besides the client's params.
        answers: Its answers in order; later calls get the plain result.
        holds: Set to release the answer, if the server waits.
        called: Set once it is called.
        running: The task of the last call.
    """

    got: list[Mapping[str, str]] = field(default_factory=list)
    answers: list[dict[str, Any] | Exception] = field(default_factory=list)
    holds: asyncio.Event | None = None
    called: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Task[Any] | None = None

    async def __call__(self, more: Mapping[str, str]) -> Answer:
        """Run the call."""
        self.got.append(more)
        self.running = asyncio.current_task()
        self.called.set()
        if self.holds is not None:
            await self.holds.wait()
        done = {"content": [{"type": "text", "text": f"done {len(self.got)}"}]}
        found = self.answers.pop(0) if self.answers else done
        if isinstance(found, Exception):
            raise found
        return Answer("result", json.dumps(found))


@dataclass
class Gatehouse:
    """The gate and its decisions."""

    decider: Decider
    router: Router
    server: Server = field(default_factory=Server)
    told: list[str] = field(default_factory=list)
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    valid_for: timedelta = timedelta(minutes=5)

    def calls(self, wait: float = 0) -> Calls:
        """Return the calls of a process."""
        router = self.router
        return Calls(
            self.decider, router.decide_unasked, router.hides, valid_for=self.valid_for, wait=wait
        )

    async def tell(self, text: str) -> None:
        """Record the progress messages to a client."""
        self.told.append(text)
        self.waits.set()

    async def ask(
        self, asked: Call, calls: Calls | None = None, *, delivered: bool = True
    ) -> Answer:
        """Make a call as a client does, and return its result."""
        process = calls or self.calls()
        answer = await process.answer_always(CALLER, asked, self.server, self.tell)
        if delivered:
            await process.delivered(answer)
        return answer

    async def pending(self) -> Approval:
        """Return the only waiting approval, once people are asked."""
        await self.router.drain()
        (found,) = await self.decider.ledger.pending()
        return found

    async def pending_after(self, asked: Call) -> Approval:
        """Make a call that needs approval, and return its approval."""
        await self.ask(asked)
        return await self.pending()

    async def approve(self, **values: JsonValue) -> Approval:
        """Let Mara approve the waiting call."""
        waiting = await self.pending()
        return await self.decider.approve(waiting.id, MARA, channel="inbox", values=values or None)


@pytest.fixture
async def gatehouse(decider: Decider) -> Gatehouse:
    """Return a gate before a bank."""
    router = Router(
        decider.ledger,
        policies=POLICIES,
        fallback=Fallback(ask=(CLEO.id,)),
        directory=decider.directory,
    )
    return Gatehouse(decider, router)
