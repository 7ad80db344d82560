"""Inspects agents before they run: finds gates that reach nobody, and gates that fail."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.tools.agent_tool import AgentTool, _SingleTurnAgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import BaseNode

from signoff.worker.adk.composites import (
    is_composite,
    is_workflow,
    llm_agents,
    undone,
    unheard_because,
)

ASKS: Final = frozenset({"request_confirmation", "request_credential"})
"""The methods of the context by which a tool asks in its own code."""

_INSIDE: Final = (
    "What happens in an AgentTool is not seen by its runner (ADK: AgentTool cannot resume), so "
    "nobody is ever asked. Make the agent a sub-agent, with `mode='single_turn'` if it is to be "
    "used like a tool, or gate the AgentTool's caller"
)

_AGAIN: Final = (
    "Once that is decided, the agent runs again from its beginning, and its tools that need no "
    "approval run again. A request for a confirmation with a payload reaches nobody. A sub-agent "
    "with `mode='single_turn'` goes on where it was"
)


_AUTHENTICATED: Final = frozenset(
    {
        "google.adk.tools.authenticated_function_tool.AuthenticatedFunctionTool",
        "google.adk.tools.base_authenticated_tool.BaseAuthenticatedTool",
    }
)
"""Named as text, because importing these classes would also import OAuth and OpenAPI."""

_CREDENTIAL: Final = (
    "it may ask for a credential, which no approver can give: a run that waits for one fails and "
    "says so. Give the tool a credential of its own (a service account, an API key), or sign in "
    "once where the agent keeps its credentials"
)


_NO_QUEUE: Final = (
    "ADK cannot run a sub-agent with `mode='single_turn'` if the root is {root!r}, which is no LLM "
    "agent and no Workflow: the model reads an error, and the calls of the sub-agent are never "
    "made or asked about. Make the root a Workflow or an LLM agent"
)

_RESUMABLE: Final = (
    "make the app resumable (`App(…, resumability_config=ResumabilityConfig(is_resumable=True))`), "
    "or define the root agent without an App"
)

_FLAT: Final = "Make its LLM agents the nodes of the workflow, or the root's own sub-agents"


@runtime_checkable
class Inspected(Protocol):
    """A plugin that can report in advance what will not work."""

    def concerns(self, gated: Collection[str]) -> list[str]:
        """Return the problems, given the names of the tools that ask for a confirmation."""


@dataclass(frozen=True, slots=True)
class Concern:
    """A part of an agent that will not work as expected.

    Attributes:
        where: The path to it: ``desk > cashier > pay``.
        text: The problem and the remedy.
        broken: Whether it fails or hangs; otherwise it works with a limitation.
    """

    where: str
    text: str
    broken: bool = True

    def __str__(self) -> str:
        return f"{self.where}: {self.text}."


def concerns(app: App | BaseNode) -> list[Concern]:
    """Return the problems of an agent without running it.

    Decisions that toolsets and tools make at run time are unknown: a toolset is judged by what it
    declares, and a function by the names that it uses.

    Args:
        app: What the folder of the agent defines: its App or its root agent.
    """
    root = app.root_agent if isinstance(app, App) else app
    found: list[Concern] = []
    if root is not None:
        resumable = is_resumable(app)
        found += _of_node(root, (), None, set())
        found += _of_turns(root, resumable=resumable)
        found += _of_single_turn_agents(root)
        found += _of_answers(root, resumable=resumable)
    gated = {_name(tool) for tool in _tools_of(root) if _gate(tool)}
    plugins = app.plugins if isinstance(app, App) else []
    return found + [
        Concern(plugin.name, text, broken=False)
        for plugin in plugins
        if isinstance(plugin, Inspected)
        for text in plugin.concerns(gated)
    ]


def is_resumable(app: App | BaseNode) -> bool:
    """Return whether a worker treats an app as resumable: by its setting, or by a bare ADK root.

    A folder that defines only a `SequentialAgent`, `LoopAgent` or `ParallelAgent` has no such
    setting, and ADK runs the remaining agents after an approval only in a resumable app.
    """
    if isinstance(app, App):
        return app.resumability_config is not None and app.resumability_config.is_resumable
    return is_composite(app)


def _of_turns(root: BaseNode, *, resumable: bool) -> Iterator[Concern]:
    """Return what happens to a turn if its worker dies."""
    own = isinstance(root, BaseAgent) and not isinstance(root, LlmAgent) and not is_composite(root)
    if own or (is_composite(root) and not resumable):
        remedy = "build it from ADK's own agents or as a Workflow" if own else _RESUMABLE
        text = (
            "when a worker dies in the middle of a turn, ADK cannot take it up: the run fails, and "
            f"what was still to do is not done. To have it go on, {remedy}"
        )
        yield Concern(root.name, text, broken=False)


def _of_single_turn_agents(root: BaseNode) -> Iterator[Concern]:
    """Return the agents with ``mode='single_turn'`` that ADK cannot run below this root.

    It runs them as nodes, whose events go through a queue that only the run of an LLM agent or of a
    workflow has (google.adk.runners, `InvocationContext._event_queue`).
    """
    if not isinstance(root, BaseAgent) or isinstance(root, LlmAgent):
        return
    for agent in llm_agents(root):
        for tool in agent.tools:
            if isinstance(tool, _SingleTurnAgentTool):
                where = f"{root.name} > … > {agent.name} > {_name(tool)}"
                yield Concern(where, _NO_QUEUE.format(root=root.name))


def _of_answers(root: BaseNode, *, resumable: bool) -> Iterator[Concern]:
    """Return which answers have no effect, and what is not done after the others."""
    for agent in llm_agents(root):
        for tool in agent.tools:
            if not (gate := _gate(tool)):
                continue
            where = f"{root.name} > … > {agent.name} > {_name(tool)}"
            if why := unheard_because(root, agent.name):
                text = f"it {gate}, and never hears the answer: {why}. {_FLAT}"
                yield Concern(where, text)
            elif left := undone(root, [agent.name], resumable=resumable):
                remedy = (
                    _RESUMABLE if is_composite(root) else "build it as a Workflow of LLM agents"
                )
                text = (
                    f"it {gate}, and after the answer ADK goes on with {agent.name!r} alone: "
                    f"{left} is not run any more. To have it run, {remedy}"
                )
                yield Concern(where, text)


def _tools_of(node: object) -> Iterator[object]:
    if isinstance(node, LlmAgent):
        yield from node.tools
    if isinstance(node, BaseAgent):
        for one in node.sub_agents:
            yield from _tools_of(one)


def _of_node(
    node: BaseNode, way: tuple[str, ...], inside: AgentTool | None, seen: set[int]
) -> Iterator[Concern]:
    """Inspect an agent or a node; `inside` is the AgentTool that runs it, or None."""
    if id(node) in seen:
        return
    seen.add(id(node))
    here = (*way, node.name)
    if isinstance(node, LlmAgent):
        for tool in node.tools:
            yield from _of_tool(tool, here, inside, seen)
    if getattr(node, "auth_config", None) is not None:
        yield Concern(" > ".join(here), _CREDENTIAL, broken=False)
    # A node that wraps a tool, and a node that runs another node in parallel.
    if isinstance(wrapped := getattr(node, "tool", None), BaseTool):
        yield from _of_tool(wrapped, way, inside, seen)
    children: list[object] = [getattr(node, "_node", None)]
    if isinstance(node, BaseAgent):
        children += node.sub_agents
    if is_workflow(node) and node.graph is not None:
        children += node.graph.nodes
    for child in children:
        if isinstance(child, BaseNode):
            yield from _of_node(child, here, inside, seen)


def _of_tool(
    tool: object, way: tuple[str, ...], inside: AgentTool | None, seen: set[int]
) -> Iterator[Concern]:
    here = " > ".join((*way, _name(tool)))
    if inside is not None and (gate := _gate(tool)):
        heard = _confirms(tool) and inside.include_plugins
        text = f"it {gate} inside the AgentTool {inside.name!r}. {_AGAIN if heard else _INSIDE}"
        yield Concern(here, text, broken=not heard)
    elif _asks_for_credential(tool):
        yield Concern(here, _CREDENTIAL, broken=False)
    if isinstance(tool, FunctionTool) and (mismatch := _mismatch(tool)):
        yield Concern(here, mismatch)
    if isinstance(tool, AgentTool) and not isinstance(tool, _SingleTurnAgentTool):
        if _is_gated(tool):
            yield Concern(
                here,
                "the AgentTool itself asks for a confirmation: one yes lets all of its agent run, "
                "and when the worker dies meanwhile the whole of it is in doubt",
                broken=False,
            )
        without_guard = inside is not None and not inside.include_plugins
        yield from _of_node(tool.agent, way, inside if without_guard else tool, seen)
    elif isinstance(node := getattr(tool, "node", None), BaseNode):
        yield from _of_node(node, way, inside, seen)


def _gate(tool: object) -> str:
    """Return how a tool asks a person; "" if it does not."""
    if getattr(tool, "is_long_running", False):
        return "waits for a result from outside"
    if _is_gated(tool):
        return "asks for a confirmation"
    function = tool.func if isinstance(tool, FunctionTool) else tool
    asks = ASKS & set(_names_in(function))
    return "asks for something in its own code" if asks else ""


def _confirms(tool: object) -> bool:
    """Return whether a tool asks only for confirmations."""
    if getattr(tool, "is_long_running", False):
        return False
    function = tool.func if isinstance(tool, FunctionTool) else tool
    return "request_credential" not in _names_in(function)


def _asks_for_credential(tool: object) -> bool:
    """Return whether a tool, or ADK on behalf of it, may ask for a credential."""
    function = tool.func if isinstance(tool, FunctionTool) else tool
    by_itself = "request_credential" in _names_in(function)
    classes = {f"{one.__module__}.{one.__qualname__}" for one in type(tool).__mro__}
    return by_itself or bool(classes & _AUTHENTICATED)


def _is_gated(tool: object) -> bool:
    if isinstance(tool, FunctionTool):
        return bool(tool._require_confirmation)  # noqa: SLF001 -- ADK has no other way to ask
    if isinstance(tool, BaseToolset):
        return bool(getattr(tool, "require_confirmation", False))
    if isinstance(tool, BaseTool):
        return type(tool).check_require_confirmation is not BaseTool.check_require_confirmation
    return False


def _mismatch(tool: FunctionTool) -> str:
    """Return the parameters of a threshold function that it will not get; "" if it fits.

    ADK calls it only with the parameters of the tool's own function, and passes `tool_context` only
    if the tool takes one.
    """
    threshold = tool._require_confirmation  # noqa: SLF001 -- ADK has no other way to ask
    if not callable(threshold):
        return ""
    wanted, given = _parameters(threshold), _parameters(tool.func)
    if wanted is None or given is None:
        return ""
    name = getattr(threshold, "__name__", "the threshold function")
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in wanted.values())
    lacking = [
        one.name
        for one in wanted.values()
        if one.default is inspect.Parameter.empty
        and one.kind in {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
        and one.name not in given
    ]
    beyond = [
        one.name
        for one in given.values()
        if one.default is inspect.Parameter.empty and one.name not in wanted and not takes_all
    ]
    if lacking:
        return (
            f"{name}() decides whether it asks and takes {', '.join(lacking)}, which "
            f"{_name(tool)}() does not: every call would fail. Let {_name(tool)}() take it too"
        )
    if beyond:
        return (
            f"{name}() decides whether it asks and does not take {', '.join(beyond)}, which "
            f"{_name(tool)}() is called with: every call would fail. Give it `**_`"
        )
    return ""


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter] | None:
    try:
        return dict(inspect.signature(function).parameters)
    except (ValueError, TypeError):
        return None


def _names_in(function: object) -> tuple[str, ...]:
    code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
    return code.co_names if code is not None else ()


def _name(tool: object) -> str:
    name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    return str(name or type(tool).__name__)
