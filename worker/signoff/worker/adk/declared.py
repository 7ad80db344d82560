"""The tools that an agent declares, as far as they are known without running it."""

from __future__ import annotations

from collections.abc import Mapping

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps.app import App
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import BaseNode

from signoff.worker.adk.composites import is_composite


def declared_tools(app: App | BaseNode) -> dict[str, list[str]] | None:
    """Return the arguments of each tool, by its name; None if there may be other tools.

    The tools of a toolset, the calls of a code executor, and what other kinds of agents and nodes
    call are only known when they run.
    """
    tools: dict[str, list[str]] = {}
    root = app.root_agent if isinstance(app, App) else app
    return tools if _collect(root, tools, set()) else None


def _collect(node: object, tools: dict[str, list[str]], seen: set[int]) -> bool:
    """Add the tools of an agent and the agents below; return whether all of them are known."""
    if id(node) in seen:
        return True
    seen.add(id(node))
    if isinstance(node, LlmAgent):
        known = node.code_executor is None and all(_add(one, tools, seen) for one in node.tools)
    else:
        known = isinstance(node, BaseAgent) and is_composite(node)
    below = node.sub_agents if isinstance(node, BaseAgent) else []
    return known and all(_collect(one, tools, seen) for one in below)


def _add(tool: object, tools: dict[str, list[str]], seen: set[int]) -> bool:
    if callable(tool) and not isinstance(tool, BaseTool):
        tool = FunctionTool(tool)
    if not isinstance(tool, BaseTool):
        return False
    declaration = tool._get_declaration()  # noqa: SLF001 -- ADK has no other way
    if declaration is not None:
        schema = declaration.parameters_json_schema
        named = declaration.parameters.properties if declaration.parameters is not None else None
        found = schema.get("properties", {}) if isinstance(schema, Mapping) else named
        tools.setdefault(declaration.name or tool.name, []).extend(found or {})
    return _collect(tool.agent, tools, seen) if isinstance(tool, AgentTool) else True
