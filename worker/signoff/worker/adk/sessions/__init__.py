"""Where ADK sessions are kept: SQLite, PostgreSQL, Redis."""
