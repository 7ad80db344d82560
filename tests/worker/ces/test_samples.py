"""Tools and callbacks in the forms of Google's documentation, in a real agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event

from signoff.testing.model import ToolCall
from worker.ces.studio import Talk, app, result, run, write

ORDERS = '''
def update_order(order_id: str) -> dict:
    """Updates an order."""
    return {"order_state": {"id": order_id, "items": 2}}
'''

HEADER = """
import json
from typing import Optional

DISCLAIMER = "THIS CONVERSATION MAY BE RECORDED."

"""

CALLBACKS: dict[str, tuple[str, str]] = {
    "greets when a session starts": (
        """
def before_model_callback(callback_context: CallbackContext, llm_request: LlmRequest) -> Optional[LlmResponse]:
  for part in callback_context.get_last_user_input():
    if part.text == "go":
      return LlmResponse.from_parts(parts=[
          Part.from_customized_response(content="Please listen.", disable_barge_in=True),
          Part.from_text(text="How can I help?")
      ])
  return None
""",
        "How can I help?",
    ),
    "adds what the model forgot": (
        """
def after_model_callback(callback_context: CallbackContext, llm_response: LlmResponse) -> Optional[LlmResponse]:
    if callback_context.variables.get("first_turn", True) and llm_response.content.parts[0].text:
        callback_context.variables["first_turn"] = False
        for part in callback_context.get_last_agent_output():
            if part.text and DISCLAIMER in part.text:
                return None
        return LlmResponse.from_parts(parts=[Part.from_text(DISCLAIMER), *llm_response.content.parts])
    return None
""",
        "THIS CONVERSATION MAY BE RECORDED.",
    ),
    "puts a call in front of another one": (
        """
def after_model_callback(callback_context, llm_response):
    for index, part in enumerate(llm_response.content.parts):
        if part.has_function_call("update_order") and not get_variable("logged"):
            set_variable("logged", True)
            call = Part.from_function_call(name="update_order", args={"order_id": callback_context.session_id[:0] + "log"})
            parts = llm_response.content.parts
            return LlmResponse.from_parts(parts=parts[:index] + [call] + parts[index:])
""",
        "It gave {'order_state': {'id': 'o1', 'items': 2}}",
    ),
    "shows what a tool gave": (
        """
def before_model_callback(callback_context, llm_request):
    if llm_request.contents[-1].parts[-1].has_function_response("update_order"):
        state = llm_request.contents[-1].parts[-1].function_response.response["order_state"]
        chips = [f"{key}: {value}" for key, value in sorted(state.items())]
        return LlmResponse.from_parts([Part.from_text(json.dumps({"chips": chips}))])
    return None
""",
        '{"chips": ["id: o1", "items: 2"]}',
    ),
    "counts and gives up": (
        """
def _silent(parts) -> bool:
    return any("go" in (part.text_or_transcript() or "").lower() for part in parts)

def before_model_callback(callback_context, llm_request):
    if _silent(callback_context.get_last_user_input()):
        count = callback_context.variables.get("retries", 0) + 1
        callback_context.variables["retries"] = count
        if count >= 1:
            return LlmResponse.from_parts(parts=[Part.from_text(f"Bye after {count}.")])
""",
        "Bye after 1.",
    ),
    "stops a tool that may not be called": (
        """
def before_tool_callback(tool: Tool, input: dict, callback_context: CallbackContext) -> Optional[dict]:
    if tool.name.endswith("update_order") and not callback_context.variables.get("allowed"):
        return {"success": False, "error": "NOT_ALLOWED"}
""",
        "It gave {'success': False, 'error': 'NOT_ALLOWED'}",
    ),
}


def words(events: list[Event]) -> list[str]:
    """Return the agent's texts."""
    return [
        part.text
        for event in events
        if event.content
        for part in event.content.parts or []
        if part.text
    ]


@pytest.mark.parametrize("case", CALLBACKS)
async def test_sample_callback_runs_unchanged(tmp_path: Path, case: str) -> None:
    """A typical callback runs unchanged."""
    code, wanted = CALLBACKS[case]
    write(tmp_path, {"tools/update_order.py": ORDERS, "callbacks/a.py": HEADER + code})
    talk = Talk(
        app(
            tmp_path / "tools",
            ToolCall("update_order", {"order_id": "o1"}),
            callbacks=tmp_path / "callbacks",
        )
    )
    assert wanted in words(await talk.say("go"))


async def test_an_exported_app_has_its_callbacks_in_folders(tmp_path: Path) -> None:
    """`AGENT/before_agent_callbacks/NAME/python_code.py` is read for that agent."""
    code = """
import re
from typing import Optional

ORDER = re.compile(r"order\\s+#?([A-Za-z0-9-]{2,12})\\b", re.IGNORECASE)


def before_agent_callback(callback_context: CallbackContext) -> Optional[Content]:
    state = callback_context.state
    if "order_id" not in state:
        state["order_id"] = ""
    for part in callback_context.get_last_user_input():
        match = ORDER.search(part.text_or_transcript() or "")
        if match:
            state["order_id"] = match.group(1).strip()
    return None
"""
    files = {
        "agents/shop/before_agent_callbacks/one/python_code.py": code,
        "tools/update_order/python_function/python_code.py": ORDERS,
    }
    write(tmp_path, files)
    call = ToolCall("update_order", {"order_id": "o1"})
    talk = Talk(app(tmp_path / "tools", call, callbacks=tmp_path / "agents"))
    await talk.say("where is Order #A-17")
    assert (await talk.state())["order_id"] == "A-17"


async def test_tools_are_chained_in_code(tmp_path: Path) -> None:
    """The result of one tool is the argument of the next one."""
    files = {
        "first.py": "def first(order: str) -> dict:\n    return {'order': order + '1'}\n",
        "second.py": "def second(order: str) -> dict:\n    return {'order': order + '2'}\n",
        "process.py": (
            "def process(order: str) -> dict:\n    res = tools.first({'order': order})\n"
            "    return tools.second(res.json()).json()\n"
        ),
    }
    talk = Talk(app(write(tmp_path, files), ToolCall("process", {"order": "o"})))
    assert result(await talk.say("go")) == {"order": "o12"}


PYTHON: dict[str, tuple[str, Any]] = {
    "the first that fits": ("return next((x for x in [1, 2, 3] if x > 1), None)", 2),
    "none that fits": ("return next((x for x in []), 'none')", "none"),
    "a generator in a call": (
        "return [sum(x for x in [1, 2]), ','.join(x for x in 'ab'), any(x for x in [0])]",
        [3, "a,b", False],
    ),
    "a generator on several lines": (
        "return dict(\n    (x, y)\n    for x, y in [\n        ('a', 1),\n    ]\n)",
        {"a": 1},
    ),
    "generators inside of each other": (
        "return list(sum(y for y in range(x)) for x in (2, 3))",
        [1, 3],
    ),
    "a short sleep": ("import time\ntime.sleep(0.01)\nreturn 1", 1),
    "a short wait": (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0.01)\n    return 2\nreturn asyncio.run(f())",
        2,
    ),
}


@pytest.mark.parametrize("case", PYTHON)
async def test_generators_and_sleeps_run_as_in_python(case: str) -> None:
    """Consumed generators and sleeps work as in Python."""
    code, wanted = PYTHON[case]
    assert await run(code) == wanted
