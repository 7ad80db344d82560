"""Test cases of users for their policies, and their results."""
