"""An agent that calls its tool directly, with a gate, from code, and from code that stops."""

from . import agent as agent
