"""Incoming mail: accepted, stored, read in a separate process, and handled."""
