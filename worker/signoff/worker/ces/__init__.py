"""Python tools and callbacks of CX Agent Studio, run in a sandbox inside ADK agents."""
