"""The worker: runs agents, publishes their pauses, and hands the answers in."""
