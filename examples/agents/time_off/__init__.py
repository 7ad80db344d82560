"""An agent that asks a manager how many days off an employee may take."""

from . import agent as agent
