"""A workflow that asks its user for input instead of a confirmation."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.events.request_input import RequestInput
from google.adk.workflow import Workflow


async def ask(ctx: Any) -> AsyncGenerator[RequestInput, None]:
    """Ask for the number of an account."""
    yield RequestInput(message="Which account?")


root_agent = Workflow(name="asks_input", edges=[("START", ask)])
