"""Checks whether a mail answers one of our mails to the person, or something else.

A person who got a forwarded card knows its address, and can send the approver any mail with that
address as its Reply-To. The approver's own "Yes" to that mail, signed by their domain, then goes to
the card. So an answer must refer to one of our mails: by its Message-ID, or, if a mail program
omits that, by the tag in the subject.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from signoff.channels.email.message_ids import approval_named, is_ours, is_without_code
from signoff.channels.email.parsing.incoming import IncomingMail
from signoff.core.approvals.approval import Approval
from signoff.core.policies.titles import literals

OTHER_MAIL: Final = (
    "Your mail does not answer the mail about this request, so nothing was done. Reply to the mail "
    "about the request, and keep its subject."
)
"""The problem of an answer to something else, in words for the person."""

_TITLES: Final = ("approval needed", "answer needed")
_LONG_ENOUGH: Final = 6


def subject_tag(approval: str) -> str:
    """Return the tag at the end of the subject of each mail about an approval: ``#a2b3``."""
    return f"#{approval[-4:]}"


def why_not_ours(
    mail: IncomingMail, approval: Approval, *, key: bytes, rewriting: Collection[str]
) -> str:
    """Return why a mail does not answer one of our mails about an approval, "" if it does.

    Args:
        mail: The mail.
        approval: The approval of its token.
        key: The key of the codes in our Message-IDs; see `MessageKey`.
        rewriting: Domains of relays that replace our Message-IDs. Only the subject identifies an
            answer to such a mail.
    """
    subject = mail.subject.casefold()
    tagged = subject_tag(approval.id) in subject
    # In-Reply-To names the answered mail, or else the last of References (RFC 5322, 3.6.4).
    parent = mail.in_reply_to or next(reversed(mail.references), "")
    if not parent or _is_rewritten(parent, rewriting):
        return "" if tagged else OTHER_MAIL
    ours = _is_ours(parent, approval, key)
    # Replies keep the subject of their thread, while authors can choose any Message-ID.
    titled = tagged or not subject or any(title in subject for title in _titles(approval))
    return "" if ours and titled else OTHER_MAIL


def _titles(approval: Approval) -> tuple[str, ...]:
    """Return the parts of a card's subject that remain if a mail program cuts it off."""
    template = approval.terms.title if approval.terms is not None else ""
    texts = (one.strip().casefold() for one in literals(template))
    return (*_TITLES, *(one for one in texts if len(one) >= _LONG_ENOUGH))


def _is_ours(parent: str, approval: Approval, key: bytes) -> bool:
    cards = {receipt for one in approval.asked for receipt in (one.receipt, *one.copies)}
    if parent in cards or is_ours(parent, approval.id, key=key):
        return True
    # Mails of the previous version have no code; they count only if it sent a card of the approval.
    old = any(is_without_code(receipt) for receipt in cards)
    return old and is_without_code(parent) and approval_named(parent) == approval.id


def _is_rewritten(parent: str, rewriting: Collection[str]) -> bool:
    domain = parent.rpartition("@")[2].removesuffix(">").lower()
    return any(domain == one or domain.endswith(f".{one}") for one in rewriting)
