"""Timers: due changes, made by the first process that claims them."""
