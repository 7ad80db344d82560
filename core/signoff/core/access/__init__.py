"""Access: what an API token may see and do."""
