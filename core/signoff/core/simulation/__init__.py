"""Simulation: what would happen to a call, without any effects."""
