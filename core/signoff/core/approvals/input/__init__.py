"""Requests for input: their forms, and the meaning of a plain yes or no."""
