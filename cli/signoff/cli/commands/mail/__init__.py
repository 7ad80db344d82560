"""Commands about mail: reading replies, the development mailbox, the quarantine."""
