"""Webhooks: what happens is posted to those who want to know, signed, until they have taken it."""
