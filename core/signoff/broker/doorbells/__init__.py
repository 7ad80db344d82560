"""Celery, which carries doorbells: the app, the consumer, and the loop behind its threads."""
