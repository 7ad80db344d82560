"""Timers: what has become due, done by whoever comes first."""
