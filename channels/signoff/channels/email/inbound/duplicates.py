"""Recognises copies of one mail that came by different paths."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from signoff.channels.email.parsing.incoming import IncomingMail


def identity(mail: IncomingMail, *, judged: Sequence[str], copy: str) -> str:
    """Return an id that all copies of one mail share.

    Each path adds its own trace fields on top, so the bytes differ. The Message-ID is not enough,
    because the sender chooses it: an attacker who knows one could first send a mail with it, which
    is refused, and the real mail would then count as known. So this id covers everything that
    determines the effect of a mail: the author's words, and our findings about it. Mails with the
    same id have the same effect, so a mail can only be suppressed by one with the same effect.

    Args:
        mail: The mail.
        judged: Our findings about the mail: the holder of its token, whether it is automatic, and
            what is proven about its author.
        copy: The id of this copy, for a mail without Message-ID and date.

    Returns:
        128 bits in hexadecimal digits.
    """
    named = bool(mail.message_id or mail.date)
    parts = [
        mail.message_id,
        mail.date.isoformat() if mail.date else "",
        "" if named else copy,
        mail.sender or "",
        list(mail.from_addresses),
        mail.subject,
        mail.automatic,
        mail.text_as_sent,
        mail.doubt_as_sent,
        list(judged),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
