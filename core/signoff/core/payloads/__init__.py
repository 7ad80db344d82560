"""Payloads: the values of calls, the templates that approvers fill in, and digests."""
