"""An agent that pays small expenses itself and needs a manager for large ones."""

from . import agent as agent
