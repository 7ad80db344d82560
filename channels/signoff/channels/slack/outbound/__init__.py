"""Sends messages and modals to Slack, within Slack's rate limits."""
