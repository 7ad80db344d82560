"""The same as `heeds`, in a sequence: to that, each message is a new beginning."""

from google.adk.agents import SequentialAgent
from heeds.agent import agent

root_agent = SequentialAgent(name="pipeline", sub_agents=[agent("payer")])
