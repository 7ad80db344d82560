"""Answers from a mailbox, read by IMAP."""
