"""The organisation as the ledger has it: who is away, who is in which group, whose turn it is."""
