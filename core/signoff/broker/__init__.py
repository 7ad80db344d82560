"""The message queue: Celery carries doorbells, Redis holds the ledger."""
