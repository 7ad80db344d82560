"""`signoff demo`, and the mailbox that it uses."""
