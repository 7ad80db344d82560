"""The same as `heeds`, as a resumable app."""

from google.adk.apps.app import App, ResumabilityConfig
from heeds.agent import agent

app = App(
    name="heeds_resumable",
    root_agent=agent("heeds"),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
