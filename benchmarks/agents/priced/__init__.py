"""An agent whose tool is called plainly, with a gate, from code, and from code that stops."""

from . import agent as agent
