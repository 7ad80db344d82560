"""An agent of Pydantic AI with a tool that asks for an approval again and again."""

from pydantic_ai import Agent, ApprovalRequired
from pydantic_ai.models.function import FunctionModel

from worker.frameworks.agents.pydantic_office.agent import think


def pay(to: str, amount: float) -> str:
    """Ask whether to pay somebody, and forget the answer."""
    raise ApprovalRequired


agent = Agent(FunctionModel(think), name="office", tools=[pay])
