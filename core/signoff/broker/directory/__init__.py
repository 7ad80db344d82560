"""The organisation in the ledger: absences, groups and rotations."""
