"""Agents of every shape, which run each other, pay, ask and take notes.

Each shape exists in three manners: `bare` (a module with only a root agent), `plain` (in an App
that is not resumable) and `resumable`. Paying asks for a confirmation, noting does not; each agent
pays and notes under its own name, so that the journal shows what was done and how often.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from google.adk.agents import Agent, BaseAgent, LoopAgent, ParallelAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.code_executors.unsafe_local_code_executor import UnsafeLocalCodeExecutor
from google.adk.events.event import Event
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.exit_loop_tool import exit_loop
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import BaseNode, FunctionNode, JoinNode, Workflow
from google.genai import types

Calls = list[tuple[str, dict[str, Any]]]
Step = str | Calls
"""A model's next step: text or calls."""

Manner = Literal["bare", "plain", "resumable"]
MANNERS: tuple[Manner, ...] = ("bare", "plain", "resumable")


def journal(line: dict[str, object]) -> None:
    """Record an effect."""
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pay(to: str) -> dict[str, str]:
    """Pay somebody."""
    journal({"paid": to})
    return {"paid": to}


def note(text: str) -> dict[str, str]:
    """Take a note."""
    journal({"noted": text})
    return {"noted": text}


def pay_and_tell(to: str, tool_context: ToolContext) -> dict[str, str]:
    """Pay somebody, and write that into the state."""
    journal({"paid": to})
    tool_context.state["paid"] = to
    return {"paid": to}


def note_state(tool_context: ToolContext) -> dict[str, str]:
    """Take a note of the state."""
    return note(f"{tool_context.state.get('paid')} in state")


def pay_and_leave(to: str, tool_context: ToolContext) -> dict[str, str]:
    """Pay somebody, and hand the turn to the agent b."""
    journal({"paid": to})
    tool_context.actions.transfer_to_agent = "b"
    return {"paid": to}


def note_and_stop(text: str, tool_context: ToolContext) -> dict[str, str]:
    """Take a note, and end the loop after this agent."""
    tool_context.actions.escalate = True
    return note(text)


def pay_as_noted(to: str, tool_context: ToolContext) -> dict[str, str]:
    """Write into the state who is to be paid, ask, and pay."""
    if tool_context.tool_confirmation is None:
        tool_context.state["to"] = to
        tool_context.request_confirmation(hint="May I?")
        return {"status": "pending"}
    return pay(tool_context.state.get("to", "nobody"))


def pay_in_two_steps(to: str, tool_context: ToolContext) -> dict[str, str]:
    """Pay somebody after two questions."""
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint="May I?")
        return {"status": "pending"}
    if not tool_context.state.get(f"sure of {to}"):
        tool_context.state[f"sure of {to}"] = True
        tool_context.request_confirmation(hint="Really?")
        return {"status": "pending"}
    return pay(to)


def gated_pay() -> FunctionTool:
    """Build the tool that asks for a confirmation."""
    return FunctionTool(pay, require_confirmation=True)


class Actor(BaseLlm):
    """A model that follows a plan; the conversation shows its position in it.

    Attributes:
        plan: The plan.
        call_id: The id of all its calls, as some models have it; None leaves that to ADK.
    """

    model: str = "actor"
    plan: list[Step]
    call_id: str | None = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Return the next step of the plan."""
        step = next_step(self.plan, llm_request.contents)
        if isinstance(step, str):
            parts = [types.Part(text=step)]
        else:
            calls = [
                types.FunctionCall(id=self.call_id, name=name, args=args) for name, args in step
            ]
            parts = [types.Part(function_call=call) for call in calls]
        # ADK logs a warning if a model does not report its usage.
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=0, candidates_token_count=0, total_token_count=0
        )
        content = types.Content(role="model", parts=parts)
        yield LlmResponse(content=content, usage_metadata=used)


def next_step(plan: Sequence[Step], contents: Sequence[types.Content]) -> Step:
    """Return the first step that the conversation does not show as done.

    If a model sees a call that still waits, it is an error, which goes into the journal. A model
    that reads that a call was lost makes the call again.
    """
    parts = [(content.role, part) for content in contents for part in content.parts or []]
    said = sum(role == "model" and bool(part.text) for role, part in parts)
    given = [part.function_response for _, part in parts if part.function_response]
    if any("requires confirmation" in str(one.response) for one in given):
        journal({"misled": plan[0]})
    done = sum("may or may not have happened" not in str(one.response) for one in given)
    for step in plan:
        if isinstance(step, str):
            if not said:
                return step
            said -= 1
        elif done < len(step):
            return step
        else:
            done -= len(step)
    return "I have nothing more to do."


def actor(name: str, *plan: Step, call_id: str | None = None, **more: Any) -> Agent:
    """Build an agent that follows a plan."""
    model = Actor(plan=list(plan), call_id=call_id)
    return Agent(name=name, description=name, model=model, **more)


def payer(name: str, rounds: int = 1, **more: Any) -> Agent:
    """Build an agent that pays, once in each round of a loop."""
    plan: list[Step] = []
    for number in range(1, rounds + 1):
        plan += [[("pay", {"to": f"{name}{number}"})], f"{name} has paid {number}."]
    return actor(name, *plan, tools=[gated_pay()], **more)


def leave_trace(callback_context: CallbackContext) -> None:
    """Write into the state that an agent begins, or has ended."""
    callback_context.state[callback_context.agent_name] = "here"


def noter(name: str, rounds: int = 1, **more: Any) -> Agent:
    """Build an agent that takes a note, once in each round of a loop, without asking."""
    plan: list[Step] = []
    for number in range(1, rounds + 1):
        plan += [[("note", {"text": f"{name}{number}"})], f"{name} has noted {number}."]
    return actor(name, *plan, tools=[note], **more)


def twice(name: str, **more: Any) -> Agent:
    """Build an agent that pays a second time after it has paid."""
    first, second = [("pay", {"to": f"{name}1"})], [("pay", {"to": f"{name}2"})]
    return actor(name, first, second, f"{name} is done.", tools=[gated_pay()], **more)


def calling(*names: str) -> Calls:
    """Return one step that calls agents as tools."""
    return [(name, {"request": "go"}) for name in names]


def transferring(to: str) -> Calls:
    """Return one step that transfers to another agent."""
    return [("transfer_to_agent", {"agent_name": to})]


class Relay(BaseAgent):
    """A custom agent that runs its sub-agents one after the other."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for agent in self.sub_agents:
            async for event in agent.run_async(ctx):
                yield event


def sequence(name: str, *agents: BaseAgent) -> SequentialAgent:
    """Build a sequence."""
    return SequentialAgent(name=name, sub_agents=list(agents))


def parallel(name: str, *agents: BaseAgent) -> ParallelAgent:
    """Run agents side by side."""
    return ParallelAgent(name=name, sub_agents=list(agents))


def loop(name: str, *agents: BaseAgent) -> LoopAgent:
    """Run agents in two rounds."""
    return LoopAgent(name=name, max_iterations=2, sub_agents=list(agents))


def stopper(name: str) -> Agent:
    """Build an agent that pays, and then leaves its loop."""
    pays: Calls = [("pay", {"to": f"{name}1"})]
    return actor(name, pays, [("exit_loop", {})], tools=[gated_pay(), exit_loop])


def early_stopper(name: str) -> Agent:
    """Build an agent that pays after it has ended its loop."""
    stops: Calls = [("note_and_stop", {"text": f"{name}1"})]
    pays: Calls = [("pay", {"to": f"{name}2"})]
    return actor(name, stops, pays, f"{name} is done.", tools=[gated_pay(), note_and_stop])


def graph(*nodes: BaseNode) -> Workflow:
    """Run nodes one after the other."""
    edges: list[Any] = [("START", nodes[0]), *pairwise(nodes)]
    return Workflow(name="root", edges=edges)


def fan(*nodes: BaseNode) -> Workflow:
    """Run nodes in parallel, and then take a note."""
    join = JoinNode(name="join")
    edges: list[Any] = [("START", nodes), *((one, join) for one in nodes), (join, noter("last"))]
    return Workflow(name="root", edges=edges)


def asking_node(name: str) -> FunctionNode:
    """Build a node that asks whether it may run."""

    def paid() -> str:
        journal({"paid": f"{name}1"})
        return name

    paid.__name__ = name
    return FunctionNode(func=paid, require_confirmation=True, rerun_on_resume=True)


def single(name: str) -> Agent:
    """Build an agent that pays, and is called as a tool."""
    return payer(name, mode="single_turn")


def task() -> Agent:
    """Delegate to an agent that reports when it is done."""
    pays: Calls = [("pay", {"to": "a1"})]
    over: Calls = [("finish_task", {"result": "paid"})]
    a = actor("a", pays, over, "over", mode="task", tools=[gated_pay()])
    return actor("root", calling("a"), "Done.", sub_agents=[a])


def agent_tool() -> Agent:
    """Call an agent in a session of its own, and then pay."""
    pays: Calls = [("pay", {"to": "root1"})]
    tools = [AgentTool(noter("a")), gated_pay()]
    return actor("root", calling("a"), pays, "Done.", tools=tools)


def two_steps(*others: tuple[str, dict[str, Any]]) -> Agent:
    """Build an agent that pays after two questions, and makes other calls in the same step."""
    step: Calls = [("pay_in_two_steps", {"to": "a1"}), *others]
    return actor("a", step, "a is done.", tools=[pay_in_two_steps, gated_pay(), note])


def same_ids(*names: str, **more: Any) -> list[BaseAgent]:
    """Build agents that pay, and whose models give all calls one id."""
    return [payer(one, call_id="call_0", **more) for one in names]


def teller() -> Agent:
    """Build an agent that pays, and then reads from the state what its tool has written."""
    tools: list[Any] = [FunctionTool(pay_and_tell, require_confirmation=True), note_state]
    steps: list[Calls] = [[("pay_and_tell", {"to": "a1"})], [("note_state", {})]]
    return actor("a", *steps, "a is done.", tools=tools)


def leaver(tool: Callable[..., object] | None = None) -> Agent:
    """Build an agent that pays and leaves its turn to b, with one tool or with two calls."""
    step: Calls = [("pay", {"to": "a1"}), ("transfer_to_agent", {"agent_name": "b"})]
    tools = [gated_pay()]
    if tool is not None:
        step, tools = (
            [(tool.__name__, {"to": "a1"})],
            [FunctionTool(tool, require_confirmation=True)],
        )
    return actor("a", step, "a has not left.", tools=tools, sub_agents=[payer("b")])


def coder() -> Agent:
    """Build an agent that runs code, and then pays."""
    code = "```python\nprint(2500)\n```"
    pays: Calls = [("pay", {"to": "a1"})]
    executor = UnsafeLocalCodeExecutor()
    return actor("a", code, pays, "a is done.", tools=[gated_pay()], code_executor=executor)


def transfers(*names: str) -> Agent:
    """Build agents each of which transfers to the next one, and the last one pays."""
    *rest, last = names
    agent = payer(last)
    for name in reversed(rest):
        agent = actor(name, transferring(agent.name), sub_agents=[agent])
    return agent


def two_calls(**more: Any) -> Agent:
    """Build an agent that pays twice in one step."""
    step: Calls = [("pay", {"to": "a1"}), ("pay", {"to": "a2"})]
    return actor("a", step, "a has paid.", tools=[gated_pay()], **more)


def both(name: str, **more: Any) -> Agent:
    """Build an agent that pays and takes a note in one step."""
    step: Calls = [("pay", {"to": f"{name}1"}), ("note", {"text": f"{name}2"})]
    return actor(name, step, f"{name} is done.", tools=[gated_pay(), note], **more)


SHAPES: dict[str, Callable[[], BaseNode]] = {
    "llm": lambda: payer("root"),
    "sequence": lambda: sequence("root", noter("a"), payer("b"), noter("c")),
    "parallel": lambda: parallel("root", payer("a"), payer("b"), noter("c")),
    "loop": lambda: loop("root", noter("a", 2), payer("b", 2)),
    "transfer": lambda: actor("root", transferring("a"), sub_agents=[payer("a")]),
    "agent_tool": agent_tool,
    "singles": lambda: actor(
        "root", calling("a", "b"), "Both have paid.", sub_agents=[single("a"), single("b")]
    ),
    "singles_twice": lambda: actor(
        "root",
        calling("a", "b"),
        "Both have paid.",
        sub_agents=[twice("a", mode="single_turn"), single("b")],
    ),
    "task": task,
    "graph": lambda: graph(noter("a"), payer("b"), noter("c")),
    "fan": lambda: fan(payer("a"), payer("b")),
    "parallel_of_sequences": lambda: parallel(
        "root",
        sequence("left", noter("a"), payer("b"), noter("c")),
        sequence("right", noter("d"), payer("e"), noter("f")),
    ),
    "sequence_of_parallel": lambda: sequence(
        "root", noter("a"), parallel("both", payer("b"), payer("c")), noter("d")
    ),
    "loop_of_parallel": lambda: loop("root", parallel("both", payer("a", 2), noter("b", 2))),
    "sequence_of_loop": lambda: sequence("root", loop("twice", payer("a", 2)), noter("b")),
    "loop_with_parallel": lambda: loop(
        "root",
        payer("a", 2),
        parallel("both", noter("b", 2), noter("c", 2, after_agent_callback=leave_trace)),
    ),
    "left_loop": lambda: loop("root", noter("a", 2), stopper("b"), noter("c")),
    "early_left_loop": lambda: loop("root", noter("a", 2), early_stopper("b"), noter("c")),
    "left_loop_of_sequence": lambda: loop(
        "root", sequence("line", stopper("a"), noter("b", 2)), noter("c")
    ),
    "sequence_of_left_loop": lambda: sequence(
        "root", loop("twice", loop("inner", stopper("a"), noter("b")), noter("c")), noter("d")
    ),
    "three": lambda: parallel("root", payer("a"), payer("b"), payer("c")),
    "parallel_twice": lambda: parallel("root", twice("a"), twice("b")),
    "two_calls": lambda: sequence("root", two_calls(), noter("b")),
    "two_calls_of_single": lambda: actor(
        "root",
        calling("a"),
        [("note", {"text": "b1"})],
        "Done.",
        tools=[note],
        sub_agents=[two_calls(mode="single_turn")],
    ),
    "two_calls_in_graph": lambda: graph(two_calls(), noter("b")),
    "beside": lambda: both("a"),
    "beside_in_sequence": lambda: sequence("root", both("a"), noter("b")),
    "beside_in_graph": lambda: graph(both("a"), noter("b")),
    "transfer_in_sequence": lambda: sequence(
        "root", actor("a", transferring("b"), sub_agents=[payer("b")]), noter("c")
    ),
    "transfer_in_graph": lambda: graph(
        actor("a", transferring("b"), sub_agents=[payer("b")]), noter("c")
    ),
    "singles_in_graph": lambda: graph(
        actor("a", calling("b", "c"), "Both have paid.", sub_agents=[single("b"), single("c")]),
        noter("d"),
    ),
    "nodes": lambda: fan(asking_node("a"), asking_node("b"), payer("c")),
    "own_in_sequence": lambda: sequence(
        "root", noter("a"), Relay(name="relay", sub_agents=[payer("b")]), noter("c")
    ),
    "own": lambda: Relay(name="root", sub_agents=[noter("a"), payer("b"), noter("c")]),
    "transfer_to_sequence": lambda: actor(
        "root",
        transferring("line"),
        sub_agents=[sequence("line", noter("a"), payer("b"), noter("c"))],
    ),
    "transfer_to_parallel": lambda: actor(
        "root", transferring("both"), sub_agents=[parallel("both", payer("a"), payer("b"))]
    ),
    "sequence_in_graph": lambda: graph(
        noter("a"), sequence("line", noter("b"), payer("c"), noter("d"))
    ),
    "state": teller,
    "state_in_sequence": lambda: sequence("root", teller(), noter("b")),
    "same_ids": lambda: parallel("root", *same_ids("a", "b")),
    "same_ids_in_sequence": lambda: sequence("root", *same_ids("a", "b")),
    "same_ids_in_step": lambda: actor(
        "root",
        [("pay", {"to": "a1"}), ("pay", {"to": "a2"}), ("note", {"text": "a3"})],
        "Done.",
        call_id="call_0",
        tools=[gated_pay(), note],
    ),
    "same_ids_of_singles": lambda: actor(
        "root", calling("a", "b"), "Both.", sub_agents=same_ids("a", "b", mode="single_turn")
    ),
    "state_of_question": lambda: actor(
        "a", [("pay_as_noted", {"to": "a1"})], "a is done.", tools=[pay_as_noted]
    ),
    "two_steps": two_steps,
    "two_steps_in_sequence": lambda: sequence("root", two_steps(), noter("b")),
    "two_steps_beside": lambda: sequence(
        "root", two_steps(("pay", {"to": "a2"}), ("note", {"text": "a3"})), noter("b")
    ),
    "two_steps_in_parallel": lambda: parallel("root", two_steps(), payer("b"), noter("c")),
    "two_steps_in_graph": lambda: graph(two_steps(), noter("b")),
    "agent_tool_in_sequence": lambda: sequence(
        "root",
        actor("a", calling("inner"), "a is done.", tools=[AgentTool(twice("inner"))]),
        noter("b"),
    ),
    "tracing": lambda: both("a", before_agent_callback=leave_trace),
    "tracing_in_sequence": lambda: sequence(
        "root",
        both("a", before_agent_callback=leave_trace, after_agent_callback=leave_trace),
        noter("b"),
    ),
    "tracing_in_graph": lambda: graph(both("a", before_agent_callback=leave_trace), noter("b")),
    "tracing_in_fan": lambda: fan(both("a", before_agent_callback=leave_trace), payer("b")),
    "transfer_beside": leaver,
    "transfer_by_tool": lambda: leaver(pay_and_leave),
    "transfer_twice": lambda: transfers("root", "a", "b", "c"),
    "code": coder,
    "code_in_sequence": lambda: sequence("root", coder(), noter("b")),
    "three_deep": lambda: sequence(
        "root",
        parallel("both", sequence("line", loop("twice", payer("a", 2)), noter("b")), payer("c")),
        noter("d"),
    ),
}
"""The shapes, by name."""

EFFECTS: dict[str, set[str]] = {
    "llm": {"root1"},
    "sequence": {"a1", "b1", "c1"},
    "parallel": {"a1", "b1", "c1"},
    "loop": {"a1", "b1", "a2", "b2"},
    "transfer": {"a1"},
    "agent_tool": {"a1", "root1"},
    "singles": {"a1", "b1"},
    "singles_twice": {"a1", "a2", "b1"},
    "task": {"a1"},
    "graph": {"a1", "b1", "c1"},
    "fan": {"a1", "b1", "last1"},
    "parallel_of_sequences": {"a1", "b1", "c1", "d1", "e1", "f1"},
    "sequence_of_parallel": {"a1", "b1", "c1", "d1"},
    "loop_of_parallel": {"a1", "b1", "a2", "b2"},
    "sequence_of_loop": {"a1", "a2", "b1"},
    "loop_with_parallel": {"a1", "b1", "c1", "a2", "b2", "c2"},
    "left_loop": {"a1", "b1"},
    "early_left_loop": {"a1", "b1", "b2"},
    "left_loop_of_sequence": {"a1", "b1"},
    "sequence_of_left_loop": {"a1", "d1"},
    "three": {"a1", "b1", "c1"},
    "parallel_twice": {"a1", "b1", "a2", "b2"},
    "two_calls": {"a1", "a2", "b1"},
    "two_calls_of_single": {"a1", "a2", "b1"},
    "two_calls_in_graph": {"a1", "a2", "b1"},
    "beside": {"a1", "a2"},
    "beside_in_sequence": {"a1", "a2", "b1"},
    "beside_in_graph": {"a1", "a2", "b1"},
    "transfer_in_sequence": {"b1", "c1"},
    "transfer_in_graph": {"b1", "c1"},
    "singles_in_graph": {"b1", "c1", "d1"},
    "nodes": {"a1", "b1", "c1", "last1"},
    "own_in_sequence": {"a1", "b1", "c1"},
    "own": {"a1", "b1", "c1"},
    "transfer_to_sequence": {"a1", "b1", "c1"},
    "transfer_to_parallel": {"a1", "b1"},
    "sequence_in_graph": {"a1", "b1", "c1", "d1"},
    "state": {"a1", "a1 in state"},
    "state_in_sequence": {"a1", "a1 in state", "b1"},
    "same_ids": {"a1", "b1"},
    "same_ids_in_sequence": {"a1", "b1"},
    "same_ids_in_step": {"a1", "a2", "a3"},
    "same_ids_of_singles": {"a1", "b1"},
    "state_of_question": {"a1"},
    "two_steps": {"a1"},
    "two_steps_in_sequence": {"a1", "b1"},
    "two_steps_beside": {"a1", "a2", "a3", "b1"},
    "two_steps_in_parallel": {"a1", "b1", "c1"},
    "two_steps_in_graph": {"a1", "b1"},
    "agent_tool_in_sequence": {"inner1", "inner2", "b1"},
    "tracing": {"a1", "a2"},
    "tracing_in_sequence": {"a1", "a2", "b1"},
    "tracing_in_graph": {"a1", "a2", "b1"},
    "tracing_in_fan": {"a1", "a2", "b1", "last1"},
    "transfer_beside": {"a1", "b1"},
    "transfer_by_tool": {"a1", "b1"},
    "transfer_twice": {"c1"},
    "code": {"a1"},
    "code_in_sequence": {"a1", "b1"},
    "three_deep": {"a1", "a2", "b1", "c1", "d1"},
}
"""The payments and notes after all approvals and all work; no run makes others."""


def build(shape: str, manner: Manner) -> App | BaseNode:
    """Build a shape in one of the manners."""
    root = SHAPES[shape]()
    if manner == "bare":
        return root
    config = ResumabilityConfig(is_resumable=True) if manner == "resumable" else None
    return App(name=f"{shape}_{manner}", root_agent=root, resumability_config=config)


def write_folders(folder: Path) -> Path:
    """Write a folder for each shape in each manner, as `adk web` loads it."""
    for shape in SHAPES:
        for manner in MANNERS:
            home = folder / f"{shape}_{manner}"
            home.mkdir(parents=True)
            name = "root_agent" if manner == "bare" else "app"
            (home / "__init__.py").write_text("from . import agent\n")
            (home / "agent.py").write_text(
                f"from worker.shapes import build\n\n{name} = build({shape!r}, {manner!r})\n"
            )
    return folder
