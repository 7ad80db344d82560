"""Limits that all processes share, counted in Redis."""
