"""Callbacks in a real agent, run by a real Runner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.tools.function_tool import FunctionTool

from signoff.core.base.errors import ConfigError
from signoff.testing import ScriptedModel
from signoff.testing.model import Reply, ToolCall, Turn
from signoff.worker.adk.inspection import concerns
from signoff.worker.ces.errors import CodeRefused
from signoff.worker.ces.plugin import CesCallbacks
from signoff.worker.ces.rules import Rules
from worker.ces.studio import Talk, app, result, write

TOOL = {
    "tools/greet.py": 'def greet(name: str) -> dict:\n    """Greets."""\n    return {"hi": name}\n'
}


def talk(folder: Path, callbacks: dict[str, str], rules: Rules | None = None) -> Talk:
    """Return a talk with an agent that calls `greet`, with these callbacks."""
    write(folder, {**TOOL, **{f"callbacks/{name}": text for name, text in callbacks.items()}})
    call = ToolCall("greet", {"name": "Riley"})
    return Talk(app(folder / "tools", call, callbacks=folder / "callbacks", rules=rules))


def texts(events: list[Any]) -> list[str]:
    """What the agent has said."""
    return [
        part.text for event in events if event.content for part in event.content.parts if part.text
    ]


async def test_a_model_callback_may_answer_in_its_place(tmp_path: Path) -> None:
    """The result of `before_model_callback` is sent, and the model does not run."""
    source = (
        "def before_model_callback(callback_context, llm_request):\n"
        "    for part in callback_context.get_last_user_input():\n"
        "        if part.text == 'hello':\n"
        "            return LlmResponse.from_parts(parts=[Part.from_text(text='Welcome.')])\n"
    )
    assert texts(await talk(tmp_path, {"a.py": source}).say("hello")) == ["Welcome."]


async def test_a_model_callback_may_change_the_request(tmp_path: Path) -> None:
    """A hidden tool is not offered, and the model gets a changed instruction."""
    source = (
        "def before_model_callback(callback_context, llm_request):\n"
        "    llm_request.config.hide_tool('greet')\n"
        "    llm_request.config.system_instruction = 'Be brief.'\n"
        "    callback_context.variables['model'] = llm_request.config.tools[0].function_declarations[0].name\n"
    )
    one = talk(tmp_path, {"a.py": source})
    seen: list[Any] = []
    agent = one.runner.agent
    assert isinstance(agent, LlmAgent)
    assert isinstance(agent.model, ScriptedModel)

    def script(turn: Turn) -> Reply:
        seen.append(turn.tools)
        return "no tools"

    agent.model.script = script
    assert texts(await one.say("go")) == ["no tools"]
    assert seen == [()]
    assert (await one.state())["model"] == "greet"


async def test_model_callback_may_replace_the_models_text(tmp_path: Path) -> None:
    """The result of `after_model_callback` replaces the model's text."""
    source = (
        "def after_model_callback(callback_context, llm_response):\n"
        "    if llm_response.content.parts[0].text:\n"
        "        return LlmResponse.from_parts([Part.from_text('Recorded.'), *llm_response.content.parts])\n"
    )
    said = texts(await talk(tmp_path, {"a.py": source}).say("go"))
    assert said[0] == "Recorded."
    assert said[1].startswith("It gave")


async def test_tool_callbacks_may_replace_a_tool_and_its_result(tmp_path: Path) -> None:
    """`before_tool_callback` may replace a tool, and `after_tool_callback` its result."""
    before = "def before_tool_callback(tool, input, callback_context):\n    return {'asked': [tool.name, input['name']]}\n"
    after = "def after_tool_callback(tool, input, callback_context, tool_response):\n    return {**tool_response, 'after': True}\n"
    assert result(await talk(tmp_path / "1", {"a.py": before}).say("go")) == {
        "asked": ["greet", "Riley"]
    }
    assert result(await talk(tmp_path / "2", {"a.py": after}).say("go")) == {
        "hi": "Riley",
        "after": True,
    }


async def test_agent_callbacks_share_the_state_and_may_answer(tmp_path: Path) -> None:
    """`before_agent_callback` and `after_agent_callback` see the state, and may send text."""
    source = (
        "def before_agent_callback(callback_context):\n    set_variable('begun', callback_context.agent_name)\n\n"
        "def after_agent_callback(callback_context):\n    return Content(parts=[Part.from_text('Bye.')], role='model')\n"
    )
    one = talk(tmp_path, {"a.py": source})
    assert texts(await one.say("go"))[-1] == "Bye."
    assert (await one.state())["begun"] == "shop"


async def test_callbacks_run_in_order_and_by_agent(tmp_path: Path) -> None:
    """Files of one kind run by name until one returns a value; a folder belongs to one agent."""

    def source(name: str, end: str) -> str:
        return f"def before_agent_callback(callback_context):\n    set_variable('{name}', True)\n    {end}\n"

    files = {
        "a.py": source("a", "return None"),
        "b.py": source("b", "return Content(parts=[Part.from_text('b')], role='model')"),
        "c.py": source("c", "return None"),
        "other/d.py": source("d", "return None"),
        "shop/aa.py": source("shop", "return None"),
    }
    one = talk(tmp_path, files)
    assert texts(await one.say("go")) == ["b"]
    assert await one.state() == {"a": True, "b": True}


async def test_a_callback_that_fails_ends_the_run(tmp_path: Path) -> None:
    """The run must not continue without a check that failed."""
    source = "def before_tool_callback(tool, input, callback_context):\n    return 1 / 0\n"
    with pytest.raises(RuntimeError, match=r"a\.py, line 2: ZeroDivisionError"):
        await talk(tmp_path, {"a.py": source}).say("go")


async def test_a_callback_cannot_wait_for_an_approval(tmp_path: Path) -> None:
    """Such a call is refused in a callback; the code can catch the error."""
    source = (
        "def before_agent_callback(callback_context):\n    try:\n        tools.greet({'name': 'x'})\n"
        "    except PermissionError as error:\n        set_variable('no', str(error))\n"
    )
    one = talk(tmp_path, {"a.py": source}, Rules(needs_approval=('tool == "greet"',)))
    await one.say("go")
    assert (await one.state())["no"] == (
        "greet needs approval, and a callback cannot wait for one. Make this call in a tool, which "
        "can wait."
    )


def test_folder_without_callbacks_is_an_error_at_load(tmp_path: Path) -> None:
    """A missing folder, or a file without a callback, is an error when the agent loads."""
    with pytest.raises(ConfigError, match="not a folder"):
        CesCallbacks(tmp_path / "none")
    with pytest.raises(CodeRefused, match=r"a\.py has no callback"):
        CesCallbacks(write(tmp_path, {"a.py": "def f():\n    pass\n"}))


def test_calls_of_a_callback_that_may_have_to_wait_are_found_beforehand(tmp_path: Path) -> None:
    """`signoff doctor` names each with its line; calls without a rule are left out."""
    source = """
def after_model_callback(callback_context, llm_response):
    tools.lookup({"order": "o1"})
    tools.refund({"amount": 5})
    async_tools.pay({"who": "a"})
    ces_requests.post("https://api.example.com/x")
    ces_requests.get("https://api.example.com/x")
    callback_context.set_variable("tier", "gold")
"""
    rules = Rules(
        needs_approval=(
            'tool == "refund" && args.amount > 100',
            'tool == "ces_requests.post" && args.host == "api.example.com"',
            'tool == "set_variable" && args.key == "tier"',
        )
    )

    def pay(who: str) -> None:
        """Pay."""

    root = LlmAgent(name="shop", tools=[FunctionTool(pay, require_confirmation=True)])
    plugin = CesCallbacks(write(tmp_path, {"a.py": source}), rules)
    found = concerns(App(name="shop", root_agent=root, plugins=[plugin]))
    said = [str(one).split(" may need")[0] for one in found]
    assert said == [
        "ces_callbacks: a.py, line 4: refund",
        "ces_callbacks: a.py, line 5: pay",
        "ces_callbacks: a.py, line 6: ces_requests.post",
        "ces_callbacks: a.py, line 8: set_variable",
    ]
    assert not any(one.broken for one in found)
    assert "Make it in a tool" in found[0].text
