"""The same as `inside`, as a resumable app."""

from google.adk.agents import Agent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.tools.agent_tool import AgentTool
from inside.agent import clerk, root_script

from signoff.testing import ScriptedModel

app = App(
    name="inside_resumable",
    root_agent=Agent(
        name="desk", model=ScriptedModel(script=root_script), tools=[AgentTool(clerk)]
    ),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
