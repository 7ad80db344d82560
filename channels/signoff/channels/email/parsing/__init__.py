"""Extracts a person's own words from the bytes of a mail. Nothing is decided here."""
