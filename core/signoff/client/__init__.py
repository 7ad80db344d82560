"""A typed client of the REST API: httpx and pydantic, and nothing of a server."""
