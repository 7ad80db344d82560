"""An agent for the tests of the remote runtime."""
