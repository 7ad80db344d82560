"""Two agents that pause in one turn: each answer reaches its own agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from worker.office import MARA, Office
from worker.shapes import write_folders

pytestmark = [
    # ADK announces its experimental features by warning about them, and what it will take away.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .plugins. argument is deprecated:DeprecationWarning"),
]

SHAPES = ("parallel", "singles", "fan")
APPS = [f"{shape}_{manner}" for shape in SHAPES for manner in ("plain", "resumable")]
MORE = ["parallel_bare", "three_plain", "sequence_of_parallel_bare", "nodes_plain"]


@pytest.fixture(scope="module")
def agents_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of agents of all shapes."""
    return write_folders(tmp_path_factory.mktemp("shapes"))


async def pause(office: Office, app: str) -> tuple[Run, list[Approval]]:
    """Submit a run; return it and the approvals of its first pause, routed to Mara.

    ADK cancels a single-turn agent that has not paused when another one does, so both pause only if
    Redis does not answer one of them much later than the other.
    """
    for _ in range(5):
        run = await office.submit(app, "go")
        asked = await office.ask(run)
        if len(asked) > 1:
            return run, asked
    raise AssertionError(f"{app} has never asked about two calls")


def paid(office: Office) -> list[str]:
    """Return the recipients of payments, in alphabetical order."""
    return sorted(str(line["paid"]) for line in office.executed() if "paid" in line)


def payee(approval: Approval) -> str:
    """Return the recipient of an approval's payment."""
    return str(approval.call.args["to"])


@pytest.mark.parametrize("app", [*APPS, *MORE])
async def test_two_approved_calls_both_run(office: Office, app: str) -> None:
    """No approval counts as delivered if its tool did not run."""
    run, asked = await pause(office, app)
    for approval in asked:
        await office.decider.approve(approval.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    after = await office.ledger.approvals([one.id for one in asked])
    assert {one.handoff for one in after} == {Handoff.RESUMED}
    assert len(paid(office)) == len(set(paid(office))) == len(asked)
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("app", APPS)
async def test_rejection_of_one_agents_call_does_not_stop_the_other(
    office: Office, app: str, *, last: bool
) -> None:
    """The approved call runs and the rejected one does not, in either order."""
    run, asked = await pause(office, app)
    refused = asked[-1 if last else 0]
    for approval in asked:
        if approval is refused:
            await office.decider.reject(approval.id, MARA, channel="cli", reason="not this one")
        else:
            await office.decider.approve(approval.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert paid(office) == sorted(payee(one) for one in asked if one is not refused)


@pytest.mark.parametrize("app", ["transfer_to_parallel_plain", "sequence_in_graph_plain"])
async def test_an_answer_that_adk_drops_fails_the_run(office: Office, app: str) -> None:
    """The approval is not delivered, its tool has not run, and the approver is told."""
    run = await office.submit(app, "go")
    asked = await office.ask(run)
    for approval in asked:
        await office.decider.approve(approval.id, MARA, channel="cli")
    run = await office.resume(run)
    after = await office.ledger.approvals([one.id for one in asked])
    for one in after:
        ran = payee(one) in paid(office)
        assert (one.handoff is Handoff.RESUMED) is ran
    assert run.state is RunState.FAILED
    assert "did not resume from it" in run.problem
    told = await office.ledger.claim(stages.deliver("email"), limit=100)
    unheard = {str(one.body["approval"]) for one in told.items if "problem" in one.body}
    assert {one.id for one in after if one.handoff is Handoff.FAILED} <= unheard
