"""The same as `siblings`, as a resumable app."""

from google.adk.agents import Agent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.tools.function_tool import FunctionTool
from siblings.agent import look, pay, script

from signoff.testing import ScriptedModel

app = App(
    name="siblings_resumable",
    root_agent=Agent(
        name="siblings",
        model=ScriptedModel(script=script),
        tools=[FunctionTool(pay, require_confirmation=True), look],
    ),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
