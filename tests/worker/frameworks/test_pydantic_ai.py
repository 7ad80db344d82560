"""Features of Pydantic AI itself."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from worker.frameworks.script import paying, plan
from worker.frameworks.test_contract import Machine, approvals_of, here

__all__ = ["here"]

pytestmark = pytest.mark.skipif(not find_spec("pydantic_ai"), reason="pydantic-ai is not installed")


async def test_a_tool_that_asks_again_after_its_approval(here: Machine) -> None:
    """Nobody is asked the same again and again: the run ends, and the error says why."""
    run = await here.submit("forgetful_office", plan(paying("anna")))
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert "ctx.tool_call_approved" in run.problem
    (approval,) = await approvals_of(here, run)
    assert approval.handoff is Handoff.FAILED
