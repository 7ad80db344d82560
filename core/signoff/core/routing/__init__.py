"""Routing: who is asked at a level, and what becomes due."""
