"""Suspended code of a remote agent: its inner call is shown if its seal can be read."""

from __future__ import annotations

from collections.abc import Iterator

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


@pytest.fixture(autouse=True)
def same_rules() -> Iterator[None]:
    """Restore the rules of this process after the test."""
    before = process_rules.current()
    yield
    process_rules.use(before)


@pytest.mark.parametrize("yes", [True, False], ids=["approved", "rejected"])
async def test_same_key_asks_about_the_inner_call(odd_agents: FarOffice, yes: bool) -> None:
    """The session has the snapshot, and its seal names the call at which it stopped."""
    process_rules.use(Rules(key=SECRET))
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


async def test_missing_key_asks_about_the_models_call(odd_agents: FarOffice) -> None:
    """Nothing proves the payload's content, so it is shown as a payload."""
    run = await odd_agents.submit("coded", "pay A")
    (approval,) = await odd_agents.ask(run)
    assert (approval.call.name, approval.call.args) == ("pays", {"who": "A"})
    assert approval.origin.made == ""
    assert isinstance(approval.template, dict)
    code = approval.template[KEY]
    assert isinstance(code, dict)
    assert code["tool"] == "pay"
