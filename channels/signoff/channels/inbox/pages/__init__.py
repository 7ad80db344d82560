"""The pages of the inbox."""
