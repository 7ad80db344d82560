"""What goes to Slack: messages and modals, at the pace that Slack allows."""
