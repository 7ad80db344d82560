"""The same as `beside`, as a resumable app."""

from beside.agent import workflow
from google.adk.apps.app import App, ResumabilityConfig

app = App(
    name="beside_resumable",
    root_agent=workflow(),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
