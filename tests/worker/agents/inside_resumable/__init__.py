"""An agent for the tests of the worker."""
