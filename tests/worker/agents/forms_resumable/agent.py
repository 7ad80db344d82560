"""The same as `forms`, as a resumable app."""

from forms.agent import code, count, place, ship, sure
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.workflow import Workflow

app = App(
    name="forms_resumable",
    root_agent=Workflow(name="forms", edges=[("START", place, sure, count, code, ship)]),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
