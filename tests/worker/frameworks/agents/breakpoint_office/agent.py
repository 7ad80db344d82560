"""An agent of LangChain that stops before its tools without asking anybody."""

from langchain.agents import create_agent

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import note, pay

agent = create_agent(Follower(), [pay, note], interrupt_before=["tools"], name="office")
