"""The same as `ticket`, as a resumable app."""

from google.adk.apps.app import App, ResumabilityConfig
from ticket.agent import agent

app = App(
    name="ticket_resumable",
    root_agent=agent(),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
