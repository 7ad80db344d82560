"""The guard: what stands between ADK and a tool, so that only what is approved runs, once."""
