"""The inbox page: where a person sees what waits for them, and answers signed in."""
