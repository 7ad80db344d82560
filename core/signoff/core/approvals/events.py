"""The events of approvals and runs: the entries of the audit and of the timeline."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import Field, JsonValue

from signoff.core.base.model import Value


class What(StrEnum):
    """The kinds of entries."""

    SUBMITTED = "submitted"
    OPENED = "opened"
    ASKED = "asked"
    HELD = "held"
    UNROUTABLE = "unroutable"
    DELIVERED = "delivered"
    UNDELIVERED = "undelivered"
    DELAYED = "delayed"
    AWAY = "away"
    CLAIMED = "claimed"
    RELEASED = "released"
    REASSIGNED = "reassigned"
    ABSENT = "absent"
    EXTENDED = "extended"
    COMMENTED = "commented"
    ASKED_BACK = "asked_back"
    ANSWERED_BACK = "answered_back"
    FIRST_STEP = "first_step"
    VOTED = "voted"
    REMINDED = "reminded"
    ESCALATED = "escalated"
    PASSED = "passed"
    POISONED = "stuck"
    GRANTED = "granted"
    GRANT_USED = "grant_used"
    GRANT_REVOKED = "grant_revoked"
    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    OVERDUE = "overdue"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"
    REFUSED_ANSWER = "refused_answer"
    NOT_UNDERSTOOD = "not_understood"
    IGNORED_MAIL = "ignored_mail"
    QUARANTINED = "quarantined"
    MAIL_RETRIED = "mail_retried"
    MAIL_DROPPED = "mail_dropped"
    ANSWERED = "answered"
    STARTED = "started"
    FINISHED = "finished"
    RESUMED = "resumed"
    NOT_RESUMED = "not_resumed"
    EXPIRED = "expired"
    VOIDED = "voided"
    IN_DOUBT = "in_doubt"
    ENROLLED = "enrolled"
    UNENROLLED = "unenrolled"
    INVITED = "invited"
    SIGNED_IN = "signed_in"
    SIGNED_OUT = "signed_out"
    GLASS_BROKEN = "glass_broken"
    POLICY_CHANGED = "policy_changed"
    FROZEN = "frozen"
    THAWED = "thawed"
    VACANT = "vacant"
    LEFT = "left"
    BACK = "back"
    TOKEN_CREATED = "token_created"  # noqa: S105 -- a name
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 -- the same
    COMPLETED = "completed"
    FAILED = "failed"
    SETTLED = "settled"
    ARCHIVED = "archived"
    ERASED = "erased"


INSIDE: Final = frozenset(
    {
        *(What.HELD, What.DELIVERED, What.UNDELIVERED, What.DELAYED, What.AWAY, What.FIRST_STEP),
        *(What.REFUSED_ANSWER, What.NOT_UNDERSTOOD, What.IGNORED_MAIL, What.QUARANTINED),
    }
)
"""The entries of the timeline that only approvers see, and people who see all approvals.

They have the problems of mailboxes and the texts of mails.
"""


class Event(Value):
    """One entry.

    Attributes:
        what: The kind.
        at: When, by the ledger's clock (UTC).
        approval: The id of the approval, or "" when it is about the run alone.
        run: The id of the run, or "".
        by: The id of the person, or the part of Signoff, that caused it.
        why: The reason in words.
        more: Details such as the channel, the digest, values and addresses.
    """

    what: What
    at: datetime
    approval: str = ""
    run: str = ""
    by: str = ""
    why: str = ""
    more: dict[str, JsonValue] = Field(default_factory=dict)


def with_details(events: Iterable[Event], details: Mapping[str, JsonValue]) -> tuple[Event, ...]:
    """Return events with further details; the events' own details take precedence."""
    return tuple(one.model_copy(update={"more": {**details, **one.more}}) for one in events)
