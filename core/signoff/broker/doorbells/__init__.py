"""Celery, which carries doorbells: the app, the consumer, and the event loop of its threads."""
