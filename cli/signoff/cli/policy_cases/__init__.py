"""Cases that users write for their policies, and their results."""
