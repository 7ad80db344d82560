"""The same as `nodes`, as a resumable app."""

from google.adk.apps.app import App, ResumabilityConfig
from nodes.agent import workflow

app = App(
    name="nodes_resumable",
    root_agent=workflow(),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
