"""Other products that let work wait for a decision, measured beside Signoff."""
