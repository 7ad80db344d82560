"""The worker: runs agents, opens approvals when they pause, and gives them the answers."""
