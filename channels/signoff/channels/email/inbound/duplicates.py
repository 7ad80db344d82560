"""When two mails are the same mail, by whichever path each of them came."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from signoff.channels.email.parsing.incoming import IncomingMail


def identity(mail: IncomingMail, *, judged: Sequence[str], copy: str) -> str:
    """Return what two copies of one mail have in common.

    Each path puts its own trace fields on top, so the bytes differ. The sender
    chooses the Message-ID: somebody who has seen one could send a mail with it first, which is
    refused, and the real one would then count as known. So this covers everything from which it
    follows what a mail does: what its author wrote, and what we found out about it. Two mails that
    share it have the same effect, and a mail could only be suppressed by one with the same effect.

    Args:
        mail: The mail.
        judged: What was found out beside what stands in the mail: whose token it carries, whether
            a robot sent it, what was proven about its author.
        copy: The id of this copy; one with neither Message-ID nor date has no other name.

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
