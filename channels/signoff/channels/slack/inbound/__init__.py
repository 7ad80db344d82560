"""What comes from Slack: clicks, forms and shortcuts, verified, read and acted upon."""
