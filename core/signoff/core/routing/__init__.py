"""Routing: the approvers of each level, and the changes that become due."""
