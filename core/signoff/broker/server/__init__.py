"""The Redis of the ledger: its address, users, checks, and the embedded server."""
