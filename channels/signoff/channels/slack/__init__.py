"""The Slack channel: cards with buttons, modals, and what people press."""
