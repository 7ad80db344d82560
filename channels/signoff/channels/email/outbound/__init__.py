"""Outgoing mail: rendered, signed, and passed to a relay."""
