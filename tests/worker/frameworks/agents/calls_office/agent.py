"""An agent of LangChain that is asked about each call for itself, and asks a person things."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import note, pay


def ask(question: str) -> str:
    """Ask a person; the middleware answers in the place of the tool."""
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
