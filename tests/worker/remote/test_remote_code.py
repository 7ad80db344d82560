"""Code that waits where the agent runs elsewhere: shown as what it is, if its seal can be read."""

from __future__ import annotations

import pytest

from signoff.core.approvals.run import RunState
from signoff.core.payloads.digest import digest
from signoff.worker.ces import rules as process_rules
from signoff.worker.ces.rules import Rules
from signoff.worker.suspended import KEY
from worker.office import MARA
from worker.remote.far_office import FarOffice

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")

SECRET = "the key of the agents of the tests"


@pytest.mark.parametrize("yes", [True, False], ids=["approved", "rejected"])
async def test_with_the_same_key_the_call_inside_is_asked_about(
    odd_agents: FarOffice, monkeypatch: pytest.MonkeyPatch, yes: bool
) -> None:
    """The session carries the snapshot; its seal says which call it has stopped at."""
    monkeypatch.setattr(process_rules, "_current", [Rules(key=SECRET)])
    run = await odd_agents.submit("coded", "pay A")
    (approval,) = await odd_agents.ask(run)
    assert (approval.call.name, approval.call.args) == ("pay", {"to": "A"})
    assert approval.origin.made == digest("pays", {"who": "A"})
    assert approval.template is None
    if yes:
        await odd_agents.decider.approve(approval.id, MARA, channel="cli")
    else:
        await odd_agents.decider.reject(approval.id, MARA, channel="cli")
    run = await odd_agents.work(run)
    assert run.state is RunState.COMPLETED
    assert odd_agents.there.lines() == ([{"paid": "A"}] if yes else [])


async def test_without_it_the_call_of_the_model_is_asked_about(odd_agents: FarOffice) -> None:
    """Nothing vouches for what its payload says, which is shown as a payload."""
    run = await odd_agents.submit("coded", "pay A")
    (approval,) = await odd_agents.ask(run)
    assert (approval.call.name, approval.call.args) == ("pays", {"who": "A"})
    assert approval.origin.made == ""
    assert isinstance(approval.template, dict)
    code = approval.template[KEY]
    assert isinstance(code, dict)
    assert code["tool"] == "pay"
