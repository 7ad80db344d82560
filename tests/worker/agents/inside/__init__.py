"""An agent for the tests of the worker."""

from . import agent as agent
