"""Mail out: rendered, signed, and handed to a relay."""
