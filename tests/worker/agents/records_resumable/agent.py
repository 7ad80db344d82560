"""The same agent in an app that is resumable."""

from google.adk.apps.app import App, ResumabilityConfig
from records.agent import make

app = App(
    name="records_resumable",
    root_agent=make("records_resumable"),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
