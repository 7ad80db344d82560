"""The same agent in an app that is resumable."""

from changing.agent import make
from google.adk.apps.app import ResumabilityConfig

app = make("changing_resumable", resumability_config=ResumabilityConfig(is_resumable=True))
