"""Access: what the holder of an API token may see and do."""
