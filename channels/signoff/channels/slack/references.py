"""What we put into Slack so that what comes back says what it is about."""

from __future__ import annotations

from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from signoff.core.payloads.digest import short_digest

CARD: Final = "signoff_card"
"""The event type of the metadata of our messages."""

APPROVE: Final = "signoff.approve"
REJECT: Final = "signoff.reject"
DETAILS: Final = "signoff.details"
CLAIM: Final = "signoff.claim"
RELEASE: Final = "signoff.release"
ASK: Final = "signoff.ask"
ANSWER: Final = "signoff.answer"
REVOKE: Final = "signoff.revoke"
MORE: Final = "signoff.more"
"""The menu of a card; what was chosen in it is read as a click on one of the following."""

COMMENT: Final = "signoff.comment"
REASSIGN: Final = "signoff.reassign"
EXTEND: Final = "signoff.extend"
REMIND: Final = "signoff.remind"
WITHDRAW: Final = "signoff.withdraw"

MENU: Final = frozenset({COMMENT, REASSIGN, EXTEND, REMIND, WITHDRAW})
"""What can be chosen in the menu."""

AWAY: Final = "signoff.away"
"""The global shortcut by which people say that they are away, and the modal that it opens."""

REQUESTS: Final = "signoff.requests"
"""The global shortcut that shows people what they have asked for and is not decided."""

OPEN: Final = "signoff.open"
"""A button that is a link; Slack tells of the click, and there is nothing to do."""

_CHOICE_PARTS: Final = 2


class Reference(BaseModel):
    """What a button or a modal is about; it goes to Slack and comes back, and proves nothing.

    Attributes:
        approval: The id of the approval.
        digest: The first characters of its digest: what was shown.
        to: Whom the card was sent to; see `Asked.key`.
        copy_of: The receipt of the message that a modal was opened from, "" on a button.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    approval: str
    digest: str
    to: str = ""
    copy_of: str = ""

    def is_of(self, digest: str) -> bool:
        """Say whether this is what was shown under a digest."""
        return bool(self.digest) and short_digest(digest) == self.digest

    def text(self) -> str:
        """Return it as Slack carries it: under 2,000 characters, for a button's value."""
        return self.model_dump_json(exclude_defaults=True)


def choice(action: str, reference: Reference) -> str:
    """Return what an option of the menu carries: 150 characters at most, so less than a button."""
    return f"{action} {reference.approval} {reference.digest}"


def read_choice(text: str, to: str) -> tuple[str, Reference] | None:
    """Return what was chosen in the menu, and of what; None for what we never wrote.

    Args:
        text: What the option carries.
        to: Whom the card was sent to, as its metadata says; "" where it says nothing.
    """
    action, *about = text.split(" ")
    if action not in MENU or len(about) != _CHOICE_PARTS or not all(about):
        return None
    return action, Reference(approval=about[0], digest=about[1], to=to)


class Receipt(NamedTuple):
    """Where a message stands: the conversation's id and the message's timestamp."""

    channel: str
    ts: str

    def __str__(self) -> str:
        """Return it as the ledger keeps it."""
        return f"{self.channel}/{self.ts}"


def read_reference(text: str) -> Reference | None:
    """Return what a value says; None for one that we never wrote."""
    try:
        return Reference.model_validate_json(text)
    except ValidationError:
        return None


def read_receipt(text: str) -> Receipt | None:
    """Return where a message stands; None for "" and for what is no receipt of ours."""
    channel, mark, ts = text.partition("/")
    return Receipt(channel, ts) if mark and channel and ts else None
