"""An agent that asks a manager how many days off an employee may take."""

from typing import Any

from google.adk.agents import Agent
from google.adk.tools.tool_context import ToolContext

from signoff.testing import model_or_script, time_off_script


def request_time_off(days: int, tool_context: ToolContext) -> dict[str, Any]:
    """Request a number of days off for the employee; a manager says how many are granted."""
    if days <= 0:
        return {"status": "error", "error": "The number of days must be positive."}

    answer = tool_context.tool_confirmation
    if answer is None:
        tool_context.request_confirmation(
            hint=f"May this employee take {days} days off? Say how many days you approve.",
            payload={"approved_days": 0},
        )
        return {"status": "Manager approval is required."}

    granted = min((answer.payload or {}).get("approved_days", 0), days) if answer.confirmed else 0
    if granted <= 0:
        return {"status": "The time off request is rejected.", "approved_days": 0}
    return {"status": "ok", "approved_days": granted}


root_agent = Agent(
    name="time_off",
    model=model_or_script(time_off_script),
    description="Handles requests for time off.",
    instruction=(
        "You handle requests for time off. Call `request_time_off` with the number of days. Then"
        " say in one sentence how many days were granted; if none, say why."
    ),
    tools=[request_time_off],
)
