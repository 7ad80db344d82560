"""What people are told, in words that every channel uses."""
