"""Timers: what has become due, done by the process that comes first."""
