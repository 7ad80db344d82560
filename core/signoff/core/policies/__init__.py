"""Policies: which call needs whom, in which levels, and what they may do."""
