"""Builds each process from its parts, and runs processes."""
