"""Who wrote a mail, and what proves it."""
