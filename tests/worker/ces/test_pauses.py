"""Code that stops for an approval, and continues in another process."""

from __future__ import annotations

from typing import Any

import pytest

from builders import present
from signoff.broker import stages
from signoff.broker.freezes import Freezes
from signoff.broker.suspended import snapshots
from signoff.core.approvals.approval import State
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.worker.adk.history import confirmations
from signoff.worker.ces import rules as process_rules
from signoff.worker.ces import sandbox
from signoff.worker.ces.rules import Rules
from signoff.worker.suspended import claimed
from worker.ces.shop import KEY, another_worker, answer, waiting
from worker.office import MARA, Office
from worker.test_taken_up import Fuse, lay, work_until_death


async def test_a_loop_stops_at_each_call_that_needs_approval(office: Office) -> None:
    """Two of three refunds wait; each is asked about separately and runs once."""
    run = await office.submit("refunds", "refund 50, 200 and 300")
    first = await waiting(office, run)
    assert (first.call.name, first.call.args) == ("refund", {"order": "o2", "amount": 200})
    assert first.template is None
    assert [one["order"] for one in office.executed()] == ["o1"]
    run = await answer(office, run)
    second = await waiting(office, run)
    assert second.call.args == {"order": "o3", "amount": 300}
    assert [one["order"] for one in office.executed()] == ["o1", "o2"]
    run = await answer(office, run)
    assert run.state is RunState.COMPLETED
    assert '"refused": []' in run.text
    assert [one["order"] for one in office.executed()] == ["o1", "o2", "o3"]
    ended = await office.ledger.approvals([first.id, second.id])
    assert [one.handoff for one in ended] == [Handoff.RESUMED, Handoff.RESUMED]


async def test_a_rejection_is_caught_in_the_code(office: Office) -> None:
    """A rejection raises at the call with the reason; the loop continues with the next order."""
    run = await office.submit("refunds", "refund 200 and 300")
    run = await answer(office, run, yes=False, reason="no receipt")
    assert (await waiting(office, run)).call.args["order"] == "o2"
    run = await answer(office, run)
    assert run.state is RunState.COMPLETED
    assert "no receipt" in run.text
    assert [one["order"] for one in office.executed()] == ["o2"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(1, 8))
async def test_killed_worker_never_repeats_a_refund(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    """The next worker asks the open questions, or the run is in doubt; no refund runs twice."""
    run = await office.submit("refunds", "refund 50, 200, 60 and 300")
    for one in await office.ask(run):
        await office.decider.approve(one.id, MARA, channel="cli")
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=after))
        await work_until_death(office, stages.resume("refunds"))
    await another_worker(office)
    run = await office.resume(run)
    if run.state is RunState.PAUSED:
        assert (await waiting(office, run)).call.args["order"] == "o4"
        run = await answer(office, run)
        assert run.state is RunState.COMPLETED
        assert [one["order"] for one in office.executed()] == ["o1", "o2", "o3", "o4"]
    else:
        assert run.state is RunState.IN_DOUBT
        done = [one["order"] for one in office.executed()]
        assert done == ["o1", "o2", "o3"][: len(done)]


async def test_tool_with_require_confirmation_pauses_the_code(office: Office, shop: Any) -> None:
    """A tool with `require_confirmation` stops the code without a rule."""
    app = shop(
        Rules(key=KEY),
        "both",
        both="""
def both() -> dict:
    return {"paid": [tools.pay({"who": who}).json()["paid"] for who in ("a", "b")]}
""",
    )
    run = await office.submit(app, "go")
    for who in ("a", "b"):
        assert (await waiting(office, run)).call.args == {"who": who}
        run = await answer(office, run)
    assert run.text == "{'paid': ['a', 'b']}"


async def test_tool_that_only_declares_its_confirmation_pauses_the_code(
    office: Office, shop: Any
) -> None:
    """Code cannot run a tool for which ADK would ask first; it can run it where ADK would not."""
    app = shop(
        Rules(key=KEY),
        "order",
        order="""
def order() -> dict:
    return {"all": [tools.ship({"what": what}).json()["noted"] for what in ("sample", "desk")]}
""",
    )
    run = await office.submit(app, "go")
    assert (await waiting(office, run)).call.args == {"what": "desk"}
    assert office.executed() == [{"what": "sample"}]
    run = await answer(office, run)
    assert run.text == "{'all': ['sample', 'desk']}"
    assert office.executed() == [{"what": "sample"}, {"what": "desk"}]


async def test_asynchronous_calls_side_by_side_may_all_wait(office: Office, shop: Any) -> None:
    """Each of them is asked about; finished calls do not run again."""
    app = shop(
        Rules(key=KEY),
        "both",
        half="def half(x: float) -> dict:\n    set_variable('n', get_variable('n', 0) + 1)\n    return {'half': x / 2}\n",
        both="""
def both() -> dict:
    polls = [async_tools.half({"x": 4}), async_tools.pay({"who": "a"}), async_tools.pay({"who": "b"})]
    done = []
    for poll in polls:
        found = None
        while found is None:
            found = poll()
        done.append(found.json())
    return {"done": done, "n": get_variable("n")}
""",
    )
    run = await office.submit(app, "go")
    for who in ("a", "b"):
        assert (await waiting(office, run)).call.args == {"who": who}
        run = await answer(office, run)
    assert run.text == "{'done': [{'half': 2.0}, {'paid': 'a'}, {'paid': 'b'}], 'n': 1}"


async def test_pause_in_nested_code_pauses_and_resumes_both(office: Office, shop: Any) -> None:
    """A tool of the folder that another tool calls stops both."""
    app = shop(
        Rules(key=KEY),
        "outer",
        inner="""
def inner(who: str) -> dict:
    try:
        return tools.pay({"who": who}).json()
    except PermissionError:
        return {"paid": None}
""",
        outer="""
def outer() -> dict:
    first = tools.inner({"who": "a"}).json()
    second = tools.inner({"who": "b"}).json()
    return {"first": first, "second": second}
""",
    )
    run = await office.submit(app, "go")
    run = await answer(office, run)
    run = await answer(office, run, yes=False)
    assert run.text == "{'first': {'paid': 'a'}, 'second': {'paid': None}}"


async def test_variables_and_requests_can_be_marked(office: Office, shop: Any) -> None:
    """A condition may concern a variable, or an HTTP call by method and host."""
    rules = Rules(
        key=KEY,
        needs_approval=(
            'tool == "set_variable" && args.key == "tier"',
            'tool.startsWith("ces_requests.") && args.method == "POST" && args.host == "api.example.com"',
        ),
    )
    app = shop(
        rules,
        "mark",
        mark="""
def mark() -> dict:
    set_variable("free", 1)
    set_variable("tier", "gold")
    try:
        ces_requests.post("https://api.example.com/x", json={"a": 1})
    except PermissionError as error:
        said = "refused"
    context.state["tier"] = "platinum"
    try:
        tools.pay({"who": "a"})
    except PermissionError as error:
        return {"tier": get_variable("tier"), "said": said, "why": str(error)[:31]}
""",
    )
    run = await office.submit(app, "go")
    first = await waiting(office, run)
    assert (first.call.name, first.call.args) == ("set_variable", {"key": "tier", "value": "gold"})
    run = await answer(office, run)
    second = await waiting(office, run)
    assert second.call.name == "ces_requests.post"
    assert second.call.args["host"] == "api.example.com"
    run = await answer(office, run, yes=False)
    assert (
        run.text
        == "{'tier': 'gold', 'said': 'refused', 'why': 'the variable tier needs approval'}".replace(
            "approval'", "approva'"
        )
    )


async def snapshot_of(office: Office, run: Run) -> tuple[str, str]:
    """Return the name of the run's waiting snapshot, and the snapshot."""
    session = await office.session(run)
    [asked] = [one for event in session.events for one in confirmations(event)]
    code = claimed(asked.payload)
    assert code is not None
    assert not code.sealed
    return code.ref, await snapshots.fetch(office.ledger, code.ref)


@pytest.mark.parametrize("how", ["changed", "gone", "not whole", "another key"])
async def test_a_snapshot_that_was_tampered_with_is_not_resumed(office: Office, how: str) -> None:
    """A snapshot that is changed, missing or signed otherwise runs nothing; the error says so."""
    run = await office.submit("refunds", "refund 200")
    name, sealed = await snapshot_of(office, run)
    assert len(sealed) < 64_000
    async with office.ledger.store.translated_client() as client:
        key = office.ledger.store.prefix + "snapshot:" + name
        assert await office.ledger.store.client.strlen(key) < 10_000
        if how == "changed":
            found = await client.get(key)
            await client.set(key, present(found).replace("o1", "o9"))
        elif how == "gone":
            await client.delete(key)
        elif how == "not whole":
            [shared] = await client.keys(office.ledger.store.prefix + "sandbox:*")
            await client.delete(shared)
        else:
            process_rules.use(Rules(key="x" * 32))
    run = await answer(office, run)
    assert office.executed() == []
    assert "snapshot of this code" in run.text


async def test_snapshot_of_another_sandbox_version_fails_the_run(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker with another sandbox refuses; the run's error has the original version."""
    run = await office.submit("refunds", "refund 200")
    first = await waiting(office, run)
    monkeypatch.setattr(sandbox, "ENGINE", "pydantic-monty 9.9.9")
    run = await answer(office, run)
    assert "was suspended by pydantic-monty 1." in run.text
    ended = await office.ledger.approval(first.id)
    assert ended.state is State.APPROVED
    assert "was suspended by" in ended.result
    assert office.executed() == []


async def test_oversized_code_snapshot_fails_the_call(office: Office, shop: Any) -> None:
    """The call fails with that message, and nobody is asked."""
    app = shop(
        Rules(key=KEY, snapshot=2_000),
        "big",
        big="def big() -> dict:\n    tools.pay({'who': 'a'})\n    return {}\n",
    )
    run = await office.submit(app, "go")
    assert run.state is RunState.COMPLETED
    assert "2000 are allowed" in run.text


async def test_code_stops_at_a_call_that_is_frozen(office: Office) -> None:
    """A small refund needs no approval; frozen, it is asked about and runs after the freeze."""
    freezes = Freezes(office.ledger)
    await freezes.freeze(tool="refund", by="ops", why="the bank called")
    run = await office.submit("refunds", "refund 50")
    asked = await waiting(office, run)
    assert (asked.call.name, asked.call.args) == ("refund", {"order": "o1", "amount": 50})
    assert "refund() is frozen: the bank called" in asked.hint
    run = await answer(office, run)
    assert (run.state, run.held, office.executed()) == (RunState.ANSWERED, "refund", [])
    await freezes.thaw(tool="refund", by="ops")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert [one["order"] for one in office.executed()] == ["o1"]


async def test_a_result_that_cannot_be_stored_fails_the_call_and_not_the_run(
    office: Office, shop: Any
) -> None:
    """The approved call has run; the model reads why the result of the code is missing."""
    app = shop(
        Rules(key=KEY),
        "odd",
        odd="def odd() -> dict:\n    tools.pay({'who': 'a'})\n    return {'x': len}\n",
    )
    run = await answer(office, await office.submit(app, "go"))
    assert run.state is RunState.COMPLETED
    assert "odd.py: the result and the variables have to be plain data" in run.text
    [ended] = await office.ledger.approvals(run.approvals)
    assert ended.handoff is Handoff.RESUMED
