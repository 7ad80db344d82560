"""Verifies, reads and handles what comes from Slack: clicks, forms and shortcuts."""
