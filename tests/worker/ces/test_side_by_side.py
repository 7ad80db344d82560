"""Parallel code shares its variables, and no part reverts another part's change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.base_tool import BaseTool

from signoff.worker.ces.errors import SnapshotRefused
from signoff.worker.ces.host import CodeHost, require_pending
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.sandbox import Done, SuspendedCall
from worker.ces.shop import KEY, answer, waiting
from worker.office import Office


class Sets(BaseTool):
    """A code tool that sets variables in its own copy."""

    def __init__(self, gate: asyncio.Event, **values: Any) -> None:
        super().__init__(name="sets", description="Set variables.")
        self.gate, self.values = gate, values

    async def in_sandbox(self, args: dict[str, Any], host: CodeHost) -> Done:
        """Set them when allowed."""
        mine = dict(host.variables())
        await self.gate.wait()
        mine.update(self.values)
        for key in [key for key, value in mine.items() if value is None]:
            del mine[key]
        await host("end", {}, mine)
        return Done({}, [])


@pytest.fixture
async def context() -> Context:
    """The context of a tool call in a session with some state."""
    service = InMemorySessionService()
    session = await service.create_session(
        app_name="shop", user_id="riley", state={"kept": [1], "removed": 1}
    )
    agent = LlmAgent(name="shop")
    invocation = InvocationContext(
        session_service=service, invocation_id="e-1", agent=agent, session=session
    )
    return Context(invocation, function_call_id="c-1")


async def beside(context: Context, outer: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Start code that sets variables, let it end, and then let the outer code make a call.

    Returns:
        The variables that the outer code gets.
    """
    gate = asyncio.Event()
    host = CodeHost(Rules(), context, {"sets": Sets(gate, **values)})
    given = dict(host.variables())
    await host("start", {"name": "sets", "args": {}}, given)
    gate.set()
    await host.settle()
    # The outer code does not know it yet: it computes with its own copy.
    told = await host("tool", {"name": "sets", "args": {}}, {**given, **outer})
    assert isinstance(told, dict)
    await host.close()
    return dict(told["state"])


async def test_parallel_call_keeps_variables_set_by_the_other(context: Context) -> None:
    """Each part learns what the other has set or changed."""
    state = await beside(context, {}, n=1, kept=[1, 2])
    assert state == {"n": 1, "kept": [1, 2], "removed": 1}
    assert context.state["n"] == 1


async def test_parallel_call_does_not_restore_a_removed_variable(context: Context) -> None:
    """A removed variable stays removed."""
    assert "removed" not in await beside(context, {}, removed=None)


async def test_changes_of_both_parallel_calls_are_kept(context: Context) -> None:
    """Both changes are kept."""
    state = await beside(context, {"mine": 2}, n=1)
    assert (state["mine"], state["n"], state["removed"]) == (2, 1, 1)


async def test_a_value_that_a_tool_changes_in_place_is_not_changed_back(context: Context) -> None:
    """A tool of ADK may change a list in the state without setting it."""
    host = CodeHost(Rules(), context, {"sets": Sets(asyncio.Event())})
    given = dict(host.variables())
    context.state["kept"].append(2)
    await host("set_variable", {"key": "x", "value": 1}, given)
    assert context.state["kept"] == [1, 2]


async def test_variable_set_beside_a_pause_is_kept(office: Office, shop: Any) -> None:
    """The code sleeps until the other call has ended, and stops before it learns of it."""
    app = shop(
        Rules(key=KEY),
        "both",
        half="def half() -> dict:\n    set_variable('n', get_variable('n', 0) + 1)\n    return {}\n",
        both="""
def both() -> dict:
    poll = async_tools.half({})
    while poll() is None:
        pass
    paid = tools.pay({"who": "a"}).json()["paid"]
    again = async_tools.half({})
    paid += tools.pay({"who": "b"}).json()["paid"]
    while again() is None:
        pass
    return {"paid": paid, "n": get_variable("n")}
""",
    )
    run = await office.submit(app, "go")
    for who in ("a", "b"):
        assert (await waiting(office, run)).call.args == {"who": who}
        run = await answer(office, run)
    assert run.text == "{'paid': 'ab', 'n': 2}"


class Taking(BaseTool):
    """A tool of ADK that modifies its arguments before it asks."""

    def __init__(self) -> None:
        super().__init__(name="taking", description="Pay somebody.")

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Ask."""
        args["to"].append(args.pop("who"))
        tool_context.request_confirmation(hint="May it?")
        return {}


async def test_tool_that_unpacks_arguments_is_asked_about_with_the_original_call(
    context: Context,
) -> None:
    """The displayed and executed call is the one that the code made."""
    host = CodeHost(Rules(), context, {"taking": Taking()})
    args = {"who": "a", "to": ["b"]}
    held = await host("tool", {"name": "taking", "args": args}, dict(host.variables()))
    assert isinstance(held, SuspendedCall)
    assert held.args == {"who": "a", "to": ["b"]}
    assert host.pending == ["tool", {"name": "taking", "args": {"who": "a", "to": ["b"]}}]


@pytest.mark.parametrize(
    ("pending", "same"),
    [
        (["tool", {"name": "pay", "args": {"who": "a"}}], True),
        (["start", {"name": "pay", "args": {"who": "a"}}], True),
        (["tool", {"name": "pay", "args": {"who": "b"}}], False),
        (["tool", {"name": "refund", "args": {"who": "a"}}], False),
        (["set_variable", {"who": "a"}], False),
        (["http", {"method": "GET", "url": "nonsense"}], False),
    ],
)
def test_code_resumes_with_the_answered_call(pending: list[Any], same: bool) -> None:
    """Another call is not made, whatever else the snapshot contains."""
    if same:
        require_pending(pending, "pay", {"who": "a"})
        return
    with pytest.raises(SnapshotRefused, match="not suspended at pay"):
        require_pending(pending, "pay", {"who": "a"})
