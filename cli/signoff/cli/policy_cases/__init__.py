"""Cases that users write for their policies, and what came of them."""
