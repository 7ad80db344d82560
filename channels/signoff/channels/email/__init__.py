"""Approvals by email: cards that go out, answers that come in."""
