"""Other products in which work waits for a decision, measured with Signoff."""
