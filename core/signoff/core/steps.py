"""The two steps of a yes that no single proof of the person can carry.

The first step proves that the person has the account to which the question was sent, the second
that they hold their second factor. Neither is worth a decision without the other, so that who has
got hold of a mailbox, or of a phone, still approves nothing. A no counts at once, by whatever
channel it comes.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Final

from signoff.core.parts import Decision

FIRST: Final = frozenset({"email", "slack"})
"""The channels by which a first step can be taken."""

SECOND: Final = frozenset({"inbox"})
"""The channels by which it can be confirmed: each of them asks for a second factor."""


class Assurance(StrEnum):
    """How well it is known who makes a move, when they make it."""

    ACCOUNT = "account"
    """By an account alone: a mailbox, a Slack user, an API token, a session of the page."""
    SECOND_FACTOR = "second_factor"
    """A second factor was given for this very move."""
    TERMINAL = "terminal"
    """Somebody at the terminal of the installation, who can enrol anybody."""

    @property
    def gives_away(self) -> bool:
        """Whether it is enough to give away a decision that takes a second factor."""
        return self is not Assurance.ACCOUNT


def mark_of(step: Decision) -> str:
    """Return what stands for a first step in a form: 32 letters and digits.

    A person confirms what they were shown; another answer that came meanwhile has another mark.
    """
    return hashlib.sha256(step.model_dump_json().encode()).hexdigest()[:32]
