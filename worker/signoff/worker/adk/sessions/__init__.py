"""The session services of ADK on SQLite, PostgreSQL and Redis."""
