"""The author of a mail, and the proof of it."""
