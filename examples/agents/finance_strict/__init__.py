"""The finance agent in a company where every expense needs a manager."""

from . import agent as agent
