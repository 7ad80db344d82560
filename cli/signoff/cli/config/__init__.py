"""The settings: read, checked, explained."""
