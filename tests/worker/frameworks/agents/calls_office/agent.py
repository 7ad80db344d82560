"""A LangChain agent that needs an approval for each call, and asks people questions."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.types import interrupt

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import note, pay, write


def ask(question: str) -> str:
    """Ask a person; the middleware answers instead of the tool."""
    raise NotImplementedError(question)


def probe(question: str) -> str:
    """Ask a question in the tool itself; it needs an approval too."""
    write({"probed": question})
    return str(interrupt(question))


agent = create_agent(
    Follower(),
    [pay, note, ask, probe],
    middleware=[
        HumanInTheLoopMiddleware(
            interrupt_on={
                "pay": True,
                "probe": True,
                "ask": {"allowed_decisions": ["respond"]},
            },
            interrupt_mode="per_call",
        )
    ],
    name="office",
)
