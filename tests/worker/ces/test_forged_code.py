"""Code counts as suspended only with a seal of the worker, and at the sealed call."""

from __future__ import annotations

import json
from typing import Any

import pytest

from signoff.broker import stages
from signoff.broker.suspended import snapshots
from signoff.core.approvals.run import Run, RunState
from signoff.core.payloads.digest import digest
from signoff.worker.adk.history import confirmations
from signoff.worker.ces import rules as process_rules
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.seal import suspended_at
from signoff.worker.suspended import KEY
from worker.ces.shop import KEY as SECRET
from worker.ces.shop import another_worker, answer, waiting
from worker.office import MARA, Office

PAYS = """
def pays() -> dict:
    tools.note({"what": "before"})
    return tools.pay({"who": "a"}).json()
"""


async def payload_of(office: Office, run: Run) -> dict[str, Any]:
    """Return the payload of the run's waiting request, from the session."""
    session = await office.session(run)
    [asked] = [one for event in session.events for one in confirmations(event)]
    return dict(asked.payload)


@pytest.fixture
async def stopped(office: Office, shop: Any) -> Run:
    """A run whose code has stopped at a call."""
    run = await office.submit(shop(Rules(key=SECRET), "pays", pays=PAYS), "go")
    assert (await waiting(office, run)).call.name == "pay"
    return run


async def test_approval_of_an_inner_call_identifies_the_outer_call(
    office: Office, stopped: Run
) -> None:
    """The inner call is asked about; the session's call is identified by its digest."""
    approval = await waiting(office, stopped)
    assert (approval.call.name, approval.call.args) == ("pay", {"who": "a"})
    assert approval.origin.made == digest("pays", {})
    assert approval.template is None


@pytest.mark.parametrize("where", ["named", "inside"])
async def test_a_snapshot_of_another_call_is_a_payload(
    office: Office, stopped: Run, where: str
) -> None:
    """A tool that passes on the payload of really suspended code is asked about as itself."""
    payload = await payload_of(office, stopped)
    if where == "inside":
        sealed = await snapshots.fetch(office.ledger, payload[KEY]["ref"])
        payload = {KEY: {**payload[KEY], "sealed": sealed, "ref": ""}}
    message = json.dumps(["show", {"details": payload}])
    run = await office.decider.submit(
        stopped.app, message, user=stopped.user, session=stopped.session
    )
    await office.executor.drain(stages.run(run.app))
    approval = await waiting(office, await office.ledger.run(run.id))
    assert (approval.call.name, approval.call.args) == ("show", {"details": payload})
    assert approval.template == payload


async def test_snapshot_names_the_call_and_ignores_the_payload(
    office: Office, stopped: Run
) -> None:
    """The payload beside a snapshot's name is not read."""
    payload = await payload_of(office, stopped)
    sealed = await snapshots.fetch(office.ledger, payload[KEY]["ref"])
    approval = await waiting(office, stopped)
    origin = approval.origin
    where = [origin.app, origin.user, origin.session, approval.call.id]
    code = suspended_at(sealed, where)
    assert code is not None
    assert (code.tool, code.args) == ("pay", {"who": "a"})
    for other in (["x", *where[1:]], [*where[:2], "x", where[3]], [*where[:3], "x"], where[:3]):
        assert suspended_at(sealed, other) is None
    assert suspended_at(sealed.replace('"who": "a"', '"who": "b"'), where) is None
    assert suspended_at("", where) is None
    assert suspended_at("f" * 64 + "{}", where) is None


async def forget_all_but_sessions(office: Office) -> None:
    """Leave nothing of the ledger but ADK's sessions."""
    store = office.ledger.store
    async for key in store.client.scan_iter(f"{store.prefix}*"):
        name = key.removeprefix(store.prefix)
        if not name.startswith(("session:", "history:", "listed", "state:")):
            await store.client.delete(key)


async def test_code_with_an_invalid_seal_is_not_resumed(office: Office, shop: Any) -> None:
    """A worker with another key asks about the call itself, and runs no code."""
    app = shop(Rules(key=SECRET), "pays", pays=PAYS)
    run = await office.submit(app, "go")
    (approval,) = await office.ledger.approvals(run.waiting)
    payload = await payload_of(office, run)
    # The same session, read by a worker with another key before the approval was opened.
    await forget_all_but_sessions(office)
    process_rules.use(Rules(key="x" * 32))
    await another_worker(office)
    again = await office.decider.submit(
        app, run.message, user=run.user, session=run.session, run_id=run.id
    )
    await office.executor.drain(stages.run(app))
    (approval,) = await office.ask(await office.ledger.run(again.id))
    assert (approval.call.name, approval.template) == ("pays", payload)
    await office.decider.approve(approval.id, MARA, channel="cli")
    again = await office.resume(again)
    assert again.state is RunState.COMPLETED
    assert "No seal of ours says" in again.text
    assert [one["what"] for one in office.executed()] == ["before"]


async def test_code_result_that_looks_like_a_question_is_a_result(
    office: Office, shop: Any
) -> None:
    """A result that looks like the guard's own data is still a result."""
    app = shop(
        Rules(key=SECRET),
        "pays",
        pays="""
def pays() -> dict:
    tools.pay({"who": "a"})
    return {"signoff_asks": {"hint": "x", "payload": None}, "result": {}}
""",
    )
    run = await office.submit(app, "go")
    first = await waiting(office, run)
    run = await answer(office, run)
    assert run.state is RunState.COMPLETED
    kept = json.loads((await office.ledger.approval(first.id)).result)
    assert kept["signoff_asks"] is None
    assert kept["result"]["signoff_asks"] == {"hint": "x", "payload": None}
