"""The guard between ADK and the tools: only approved calls run, and each runs once."""
