"""The references in Slack's buttons, modals and messages that identify an approval."""

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
"""The menu of a card; a choice in it is read as a click on one of the following."""

COMMENT: Final = "signoff.comment"
REASSIGN: Final = "signoff.reassign"
EXTEND: Final = "signoff.extend"
REMIND: Final = "signoff.remind"
WITHDRAW: Final = "signoff.withdraw"

MENU: Final = frozenset({COMMENT, REASSIGN, EXTEND, REMIND, WITHDRAW})
"""The options of the menu."""

AWAY: Final = "signoff.away"
"""The global shortcut to set an absence, and the modal that it opens."""

REQUESTS: Final = "signoff.requests"
"""The global shortcut that shows people their own pending requests."""

OPEN: Final = "signoff.open"
"""A button that is a link; Slack reports the click, which needs no handling."""

_CHOICE_PARTS: Final = 2


class Reference(BaseModel):
    """A reference in a button or a modal. It returns from Slack, and proves nothing.

    Attributes:
        approval: The id of the approval.
        digest: The first characters of the digest of the call that was shown.
        to: The recipient of the card; see `Asked.key`.
        copy_of: The receipt of the message that a modal was opened from, "" on a button.
        as_it_is: The `reason_mark` of the reason that a modal asks to confirm, otherwise "".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    approval: str
    digest: str
    to: str = ""
    copy_of: str = ""
    as_it_is: str = ""

    def is_of(self, digest: str) -> bool:
        """Return whether this refers to the call with a digest."""
        return bool(self.digest) and short_digest(digest) == self.digest

    def text(self) -> str:
        """Return it as a button's value: under 2,000 characters."""
        return self.model_dump_json(exclude_defaults=True)


def choice(action: str, reference: Reference) -> str:
    """Return the value of a menu option: at most 150 characters, so shorter than a button's."""
    return f"{action} {reference.approval} {reference.digest}"


def read_choice(text: str, to: str) -> tuple[str, Reference] | None:
    """Return the chosen action and its reference; None for a value that we did not write.

    `to` is the recipient of the card, from its metadata; "" if that does not name one.
    """
    action, *about = text.split(" ")
    if action not in MENU or len(about) != _CHOICE_PARTS or not all(about):
        return None
    return action, Reference(approval=about[0], digest=about[1], to=to)


class Receipt(NamedTuple):
    """The location of a message: the conversation's id and the message's timestamp."""

    channel: str
    ts: str

    def __str__(self) -> str:
        """Return it as the ledger stores it."""
        return f"{self.channel}/{self.ts}"


def read_reference(text: str) -> Reference | None:
    """Return the reference in a value; None for a value that we did not write."""
    try:
        return Reference.model_validate_json(text)
    except ValidationError:
        return None


def read_receipt(text: str) -> Receipt | None:
    """Return the location of a message; None for "" and for an invalid receipt."""
    channel, mark, ts = text.partition("/")
    return Receipt(channel, ts) if mark and channel and ts else None
