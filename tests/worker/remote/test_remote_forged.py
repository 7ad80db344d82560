"""A payload that a model invents decides nothing, also for a remote agent."""

from __future__ import annotations

from typing import Any

import pytest

from signoff.core.approvals.run import RunState
from worker.office import MARA
from worker.remote.far_office import FarOffice
from worker.test_forged_calls import FORGED, forgeries, message, require_real

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

both_apps = pytest.mark.parametrize("app", ["records", "records_resumable"])


@both_apps
@forgeries
async def test_the_approver_is_shown_the_call_that_would_run(
    odd_agents: FarOffice, app: str, details: dict[str, Any]
) -> None:
    """The remote runtime does not believe the payload in a server's session either."""
    run = await odd_agents.submit(app, message(details))
    (approval,) = await odd_agents.ask(run)
    require_real(approval, details)
    await odd_agents.decider.reject(approval.id, MARA, channel="cli", reason="never")
    run = await odd_agents.work(run)
    assert run.state is RunState.COMPLETED
    assert odd_agents.there.lines() == []


@both_apps
async def test_approved_call_is_the_executed_call(odd_agents: FarOffice, app: str) -> None:
    """The approval of the real call runs that call."""
    run = await odd_agents.submit(app, message(FORGED["as it is written"]))
    await odd_agents.approve(run)
    run = await odd_agents.work(run)
    assert run.state is RunState.COMPLETED
    assert odd_agents.there.lines() == [
        {"tool": "update_record", "record": "ADMIN-1", "role": "superuser"}
    ]
