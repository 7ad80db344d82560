"""The ledger: records in Redis, changed by one commit script."""
