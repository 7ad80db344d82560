"""The runtime for agents written with google-adk, in the process of the worker."""
