"""Whether a mail answers what was sent to the person, or something else.

Someone to whom a card was forwarded knows its address, and can write any mail with that
address as its Reply-To. The approver's own "Yes" to it, signed by their domain, then goes to the
card. So an answer has to say what it answers: by the Message-ID of a mail of ours, or where a mail
program leaves that out, by the tag in the subject.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from signoff.channels.email.message_ids import approval_named, is_ours, is_without_code
from signoff.channels.email.parsing.incoming import IncomingMail
from signoff.core.approvals.approval import Approval
from signoff.core.policies.titles import literals

OTHER_MAIL: Final = (
    "Your mail answers another mail than the one about this request, so nothing was done. Answer "
    "the mail about the request itself, under its own subject."
)
"""What is wrong with an answer to something else, in words for the person."""

_TITLES: Final = ("approval needed", "answer needed")
_LONG_ENOUGH: Final = 6


def subject_tag(approval: str) -> str:
    """Return what stands at the end of the subject of each mail about an approval: ``#a2b3``."""
    return f"#{approval[-4:]}"


def why_not_ours(
    mail: IncomingMail, approval: Approval, *, key: bytes, rewriting: Collection[str] = ()
) -> str:
    """Say why a mail answers nothing that was sent about an approval, "" where it does.

    Args:
        mail: The mail.
        approval: What its token is about.
        key: Makes the codes in our Message-IDs; see `MessageKey`.
        rewriting: Domains of relays that put Message-IDs of their own on our mails; of an answer
            to such a mail the subject alone says what it is about.
    """
    subject = mail.subject.casefold()
    tagged = subject_tag(approval.id) in subject
    # In-Reply-To names what is answered; without it the last of the thread is (RFC 5322, 3.6.4).
    parent = mail.in_reply_to or next(reversed(mail.references), "")
    if not parent or _is_rewritten(parent, rewriting):
        return "" if tagged else OTHER_MAIL
    ours = _is_ours(parent, approval, key)
    # Replies keep the subject of their thread; authors can choose a Message-ID as they like.
    titled = tagged or not subject or any(title in subject for title in _titles(approval))
    return "" if ours and titled else OTHER_MAIL


def _titles(approval: Approval) -> tuple[str, ...]:
    """Return what stands in the subject of a card also where a mail program has cut it off."""
    template = approval.terms.title if approval.terms is not None else ""
    texts = (one.strip().casefold() for one in literals(template))
    return (*_TITLES, *(one for one in texts if len(one) >= _LONG_ENOUGH))


def _is_ours(parent: str, approval: Approval, key: bytes) -> bool:
    cards = {receipt for one in approval.asked for receipt in (one.receipt, *one.copies)}
    if parent in cards or is_ours(parent, approval.id, key=key):
        return True
    # Mails of the last version, which had no code; only where its cards are still in flight.
    old = any(is_without_code(receipt) for receipt in cards)
    return old and is_without_code(parent) and approval_named(parent) == approval.id


def _is_rewritten(parent: str, rewriting: Collection[str]) -> bool:
    domain = parent.rpartition("@")[2].removesuffix(">").lower()
    return any(domain == one or domain.endswith(f".{one}") for one in rewriting)
