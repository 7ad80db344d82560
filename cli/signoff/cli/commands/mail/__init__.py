"""Commands about mail: how one is read, the development mailbox, the quarantine."""
