"""The same as `heeds` in a sequence, which starts again with each message."""

from google.adk.agents import SequentialAgent
from heeds.agent import agent

root_agent = SequentialAgent(name="pipeline", sub_agents=[agent("payer")])
