"""An agent of another author."""
