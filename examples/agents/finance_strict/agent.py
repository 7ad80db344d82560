"""The finance agent in a company where every expense needs a manager."""

from finance.agent import reimburse
from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

from signoff.testing import finance_script, model_or_script

root_agent = Agent(
    name="finance_strict",
    model=model_or_script(finance_script),
    description="Reimburses the expenses of employees, each with a manager's approval.",
    instruction=(
        "You reimburse expenses. Call `reimburse` once for each expense the user names. Then say in"
        " one sentence what became of it; if it was turned down, give the reason."
    ),
    tools=[FunctionTool(reimburse, require_confirmation=True)],
)
