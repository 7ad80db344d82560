"""Reads, checks and explains the settings."""
