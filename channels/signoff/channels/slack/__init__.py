"""The Slack channel: cards with buttons, modals, clicks and shortcuts."""
