"""A LangChain agent that needs an approval for each call, and asks people questions."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import note, pay


def ask(question: str) -> str:
    """Ask a person; the middleware answers instead of the tool."""
    raise NotImplementedError(question)


agent = create_agent(
    Follower(),
    [pay, note, ask],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={"pay": True, "ask": {"allowed_decisions": ["respond"]}},
            interrupt_mode="per_call",
        )
    ],
    name="office",
)
