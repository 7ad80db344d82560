"""The channels: how requests reach people, and how their answers come back."""
