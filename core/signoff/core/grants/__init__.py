"""Grants: calls that are approved before they are made."""
