"""Answers in the form of mail programs: with the subject of the answered mail."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.channels.pipeline.port import Message, Result
from signoff.testing import FakeChannel

_APPROVALS: dict[str, str] = {}
"""The approval of each delivered token."""


class Post(FakeChannel):
    """Delivers into a list, and remembers the subject of each possible answer."""

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Keep each message; see `FakeChannel.deliver`."""
        _APPROVALS.update({one.token: one.card.approval for one in messages if one.token})
        return await super().deliver(messages)


def subject_of(token: str) -> str:
    """Return the subject of an answer to the mail with a token."""
    tag = _APPROVALS.get(token, "ap_none")[-4:]
    return f"Re: Approval needed: reimburse (finance) #{tag}"
