"""An agent whose tool is code of CX Agent Studio."""

from . import agent as agent
