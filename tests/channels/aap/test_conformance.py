"""The protocol's own gate passes against its reference provider and against this gateway.

Each scenario runs against the provider that the protocol's package has for tests, and against
this gateway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import pytest
from agentapprovalprotocol import Allow, AsyncClient, AsyncGate, Call, Deny, Pending
from agentapprovalprotocol.testing import FakeProvider

from channels.aap.conftest import Provider

Decide = Callable[[str, str, str], Awaitable[None]]
REFUND = Call(
    key="run-1:call-1",
    tool="refund",
    arguments={"amount": 49.1, "items": [1, 2.5, True], "note": "ü"},
    reasoning="charged twice",
    context={"session": "s"},
)


@dataclass
class Scene:
    """A provider and its decisions."""

    client: AsyncClient
    decide: Decide

    def gate(self, mode: Literal["sync", "async"] = "async") -> AsyncGate:
        """Return the gate that all framework integrations use."""
        return AsyncGate(self.client, mode=mode, timeout="30m")


@pytest.fixture(params=["reference", "signoff"])
async def scene(request: pytest.FixtureRequest, provider: Provider) -> Scene:
    """Yield each provider in turn."""
    if request.param == "reference":
        fake = FakeProvider(auto=None)

        async def decide(name: str, status: str, note: str) -> None:
            fake.decide(name, status, note or None)

        return Scene(fake.async_client(), decide)
    return Scene(await provider.client(), provider.decide)


async def test_an_approved_call_runs_once(scene: Scene) -> None:
    """Resuming, retrying or replaying the call never allows it a second time."""
    gate = scene.gate()
    pending = await gate.check(REFUND)
    assert isinstance(pending, Pending)
    assert await gate.check(REFUND) == pending
    await scene.decide(pending.request_id, "approved", "fine")
    verdict = await gate.check(REFUND)
    assert isinstance(verdict, Allow)
    assert await verdict.report("succeeded", "done")
    again = await gate.check(REFUND)
    assert isinstance(again, Deny)
    assert again.status == "consumed"


async def test_a_denied_call_returns_the_note_of_the_approver(scene: Scene) -> None:
    """The model reads the approver's note."""
    gate = scene.gate()
    pending = await gate.check(REFUND)
    assert isinstance(pending, Pending)
    await scene.decide(pending.request_id, "denied", "over budget")
    verdict = await gate.check(REFUND)
    assert isinstance(verdict, Deny)
    assert (verdict.status, "over budget" in verdict.reason) == ("denied", True)


async def test_a_cancelled_call_does_not_run(scene: Scene) -> None:
    """A cancellation differs from a denial."""
    gate = scene.gate()
    pending = await gate.check(REFUND)
    assert isinstance(pending, Pending)
    assert (await scene.client.cancel(pending.request_id)).status == "cancelled"
    verdict = await gate.check(REFUND)
    assert isinstance(verdict, Deny)
    assert verdict.status == "cancelled"


async def test_another_call_is_another_request(scene: Scene) -> None:
    """Changed arguments, or another run, ask again."""
    gate = scene.gate()
    first = await gate.check(REFUND)
    changed = Call(key=REFUND.key, tool=REFUND.tool, arguments={"amount": 50})
    other = Call(key="run-2:call-1", tool=REFUND.tool, arguments=REFUND.arguments)
    found = {one.request_id for one in (first, await gate.check(changed), await gate.check(other))}
    assert len(found) == 3


async def test_a_failed_call_is_reported(scene: Scene) -> None:
    """The guard reports it by the way in which its block ends."""
    gate = scene.gate()
    pending = await gate.check(REFUND)
    assert isinstance(pending, Pending)
    await scene.decide(pending.request_id, "approved", "")

    async def run() -> None:
        async with gate.guard(REFUND) as verdict:
            assert isinstance(verdict, Allow)
            raise RuntimeError("the bank is closed")

    with pytest.raises(RuntimeError):
        await run()
    outcome = (await scene.client.get(pending.request_id)).consumption
    assert outcome is not None
    assert outcome.outcome is not None
    assert outcome.outcome.status == "failed"
