"""Reads answers from a mailbox by IMAP."""
