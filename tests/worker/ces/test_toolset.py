"""A folder of Python tools in a real agent, run by a real Runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.tools.tool_context import ToolContext

from builders import present
from signoff.core.base.errors import ConfigError
from signoff.testing.model import ToolCall
from signoff.worker.ces.errors import CodeRefused
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.toolset import CesToolset
from worker.ces.studio import Talk, app, result, write

SIGNED = '''
from typing import Any, Literal, Optional

def quote(sku: str, count: int = 1, price: Optional[float] = None, tags: list[str] = [], kind: Literal["a", "b"] = "a", more: dict[str, Any] | None = None) -> dict:
    """Gives a price.

    Args:
        sku: The article.
        count (int): How many.

    Returns:
        The price.
    """
    return {"sku": sku, "count": count}
'''


def lookup(order: str, tool_context: ToolContext) -> dict[str, Any]:
    """Find an order."""
    tool_context.state["looked"] = order
    return {"order": order, "seen": tool_context.state.get("tier")}


async def test_the_signature_and_the_docstring_are_the_declaration(tmp_path: Path) -> None:
    """Types, defaults, and the docstring's text for each argument reach the model."""
    [tool] = await CesToolset(write(tmp_path, {"quote.py": SIGNED})).get_tools()
    declared = tool._get_declaration()
    assert declared is not None
    assert (declared.name, (declared.description or "").splitlines()[0]) == (
        "quote",
        "Gives a price.",
    )
    assert declared.parameters_json_schema == {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "description": "The article."},
            "count": {"type": "integer", "description": "How many.", "default": 1},
            "price": {"type": "number", "nullable": True},
            "tags": {"type": "array", "items": {"type": "string"}, "default": []},
            "kind": {"enum": ["a", "b"], "type": "string", "default": "a"},
            "more": {"type": "object", "nullable": True},
        },
        "required": ["sku"],
    }


async def test_a_tool_runs_in_an_agent_and_shares_its_state(tmp_path: Path) -> None:
    """The code calls another tool of the agent; both see and change one state."""
    source = (
        'def chain(order: str) -> dict:\n    """Chains."""\n    context.state["tier"] = "gold"\n'
        '    found = tools.lookup({"order": order}).json()\n'
        '    set_variable("from", context.state["looked"])\n    return found\n'
    )
    talk = Talk(
        app(write(tmp_path, {"chain.py": source}), ToolCall("chain", {"order": "o1"}), lookup)
    )
    assert result(await talk.say("go")) == {"order": "o1", "seen": "gold"}
    assert await talk.state() == {"tier": "gold", "looked": "o1", "from": "o1"}


async def test_a_result_that_is_not_json_is_a_failed_call_of_the_tool(tmp_path: Path) -> None:
    """The code reads it as any other failure of the tool, whose call has ended."""

    def odd() -> dict[Any, Any]:
        """Return a dictionary that JSON does not have."""
        return {(1, 2): 3}

    source = (
        'def ask() -> dict:\n    """Asks."""\n    found = tools.odd({})\n'
        '    return {"status": found.status_code, "why": found.reason}\n'
    )
    talk = Talk(app(write(tmp_path, {"ask.py": source}), ToolCall("ask", {}), odd))
    told = result(await talk.say("go"))
    assert told["status"] == 500
    assert "odd raised TypeError: keys must be str" in told["why"]


@pytest.mark.parametrize("values", [("1", "True"), ("True", "1"), ("[0]", "[False]"), ("1", "1.0")])
async def test_a_variable_may_change_to_a_value_that_is_equal_only_in_python(
    tmp_path: Path, values: tuple[str, str]
) -> None:
    """1 and True are different JSON; the session has the last one."""
    before, after = values
    source = (
        f'def change() -> dict:\n    """Changes."""\n    context.state["x"] = {before}\n'
        f'    tools.lookup({{"order": "o1"}})\n    context.state["x"] = {after}\n    return {{}}\n'
    )
    talk = Talk(app(write(tmp_path, {"change.py": source}), ToolCall("change", {}), lookup))
    await talk.say("go")
    assert repr((await talk.state())["x"]) == after


async def test_the_context_is_that_of_the_talk(tmp_path: Path) -> None:
    """Session, agent, call, last text and events are those of ADK."""
    source = (
        'def who() -> dict:\n    """Says."""\n'
        "    return {'agent': context.agent_name, 'said': context.get_last_user_input()[0].text,\n"
        "            'content': context.user_content.parts[0].text, 'call': context.function_call_id,\n"
        "            'events': len(context.events), 'calls': context.events[-1].parts()[0].has_function_call('who')}\n"
    )
    talk = Talk(app(write(tmp_path, {"who.py": source}), ToolCall("who", {})))
    found = result(await talk.say("hello"))
    assert found.pop("call")
    assert found == {
        "agent": "shop",
        "said": "hello",
        "content": "hello",
        "events": 2,
        "calls": True,
    }


async def test_code_may_call_code_and_wait_for_several(tmp_path: Path) -> None:
    """Tools of the folder call each other; asynchronous calls run side by side."""
    files = {
        "half.py": 'def half(x: float) -> dict:\n    """Halves."""\n    set_variable("last", x)\n    return {"half": x / 2}\n',
        "both.py": (
            'def both() -> dict:\n    """Both."""\n    polls = [async_tools.half({"x": x}) for x in (2, 6)]\n    done = []\n'
            "    for poll in polls:\n        found = None\n        while found is None:\n            found = poll()\n"
            "        done.append(found.json()['half'])\n    return {'done': done}\n"
        ),
    }
    talk = Talk(app(write(tmp_path, files), ToolCall("both", {})))
    assert result(await talk.say("go")) == {"done": [1.0, 3.0]}


async def test_error_in_code_is_one_failed_call(tmp_path: Path) -> None:
    """An error in the code, or in a tool that it calls, is a result; the run continues."""

    def broken() -> dict[str, Any]:
        """Break."""
        raise OSError("no disk")

    source = 'def boom() -> dict:\n    """Boom."""\n    r = tools.broken({})\n    raise ValueError(r.reason)\n'
    talk = Talk(app(write(tmp_path, {"boom.py": source}), ToolCall("boom", {}), broken))
    events = await talk.say("go")
    assert result(events) == {
        "error": "boom.py, line 4: ValueError: broken raised OSError: no disk"
    }
    assert present(present(events[-1].content).parts)[0].text


async def test_a_removed_variable_is_gone(tmp_path: Path) -> None:
    """A variable that one call removes is missing in the next one."""
    source = (
        'def flip() -> dict:\n    """Flips."""\n    if get_variable("x", None) is None:\n        set_variable("x", 1)\n'
        '    else:\n        remove_variable("x")\n    return {"state": context.state}\n'
    )
    talk = Talk(app(write(tmp_path, {"flip.py": source}), ToolCall("flip", {})))
    found = [(await talk.say("go"))[1] for _ in range(3)]
    states = [event.get_function_responses()[0].response for event in found]
    assert states == [{"state": {"x": 1}}, {"state": {}}, {"state": {"x": 1}}]


async def test_exported_app_is_read_unchanged(tmp_path: Path) -> None:
    """`NAME/python_function/python_code.py` is the tool NAME."""
    write(tmp_path, {"greet/python_function/python_code.py": "def greet():\n    return 'hi'\n"})
    assert [one.name for one in await CesToolset(tmp_path).get_tools()] == ["greet"]


@pytest.mark.parametrize(
    ("files", "error", "words"),
    [
        ({}, ConfigError, "no Python file"),
        (
            {"a.py": "def b():\n    pass\n"},
            CodeRefused,
            r"a\.py has no function a\(\).*there are: b",
        ),
        ({"a.py": "def a(*args):\n    pass\n"}, CodeRefused, "named arguments only"),
    ],
)
def test_invalid_folder_is_an_error_with_its_reason(
    tmp_path: Path, files: dict[str, str], error: type[Exception], words: str
) -> None:
    """A faulty folder or file is an error when the agent loads."""
    with pytest.raises(error, match=words):
        CesToolset(write(tmp_path, files), Rules())


async def test_under_plain_adk_the_session_carries_the_snapshot(tmp_path: Path) -> None:
    """Without Signoff's worker the code stops too, and ADK's own answer continues it."""
    source = "def chain() -> dict:\n    before = 1\n    return {'before': before, **tools.lookup({'order': 'o1'}).json()}\n"
    rules = Rules(needs_approval=('tool == "lookup"',))
    talk = Talk(
        app(write(tmp_path, {"chain.py": source}), ToolCall("chain", {}), lookup, rules=rules)
    )
    asked = [call for one in await talk.say("go") for call in one.get_function_calls()][-1]
    assert asked.name == "adk_request_confirmation"
    answered = await talk.answer(asked.id or "", confirmed=True)
    assert result(answered) == {"before": 1, "order": "o1", "seen": None}
