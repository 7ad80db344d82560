"""From the bytes of a mail to the person's own words. Nothing is decided here."""
