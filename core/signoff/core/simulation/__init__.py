"""Simulation: what would happen to a call, without anything happening."""
