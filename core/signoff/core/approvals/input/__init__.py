"""Requests for input: their forms, and what a yes or a no alone means to them."""
