"""The Redis that the ledger is in: started, checked, and kept from neighbours."""
