"""The Agent Approval Protocol, version 1: agents of any framework ask, and run their calls."""
