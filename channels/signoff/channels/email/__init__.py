"""Approvals by email: outgoing cards and incoming answers."""
