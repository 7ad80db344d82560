"""Grants: advance approvals of similar calls."""
