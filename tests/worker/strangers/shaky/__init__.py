"""An agent that somebody else has written."""
