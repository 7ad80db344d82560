"""The messages to people, which every channel shares."""
