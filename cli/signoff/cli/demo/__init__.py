"""`signoff demo`, and the mailbox it uses."""
