"""The stages between the ledger and a channel: route, deliver, and their outboxes."""
