"""Returns how a text is read, in one word."""

from __future__ import annotations

import json
from enum import StrEnum
from functools import lru_cache

from pydantic import JsonValue

from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Reject
from signoff.core.replies.text import ReplyContext


class Verdict(StrEnum):
    """An approval, a rejection or neither."""

    APPROVE = "approve"
    REJECT = "reject"
    UNCLEAR = "unclear"


def verdict_of(text: str, template: JsonValue = None) -> Verdict:
    """Return what a text decides; cached, because many quoted mails have the same text above."""
    return _verdict(text, json.dumps(template))


@lru_cache(maxsize=4_096)
def _verdict(text: str, template: str) -> Verdict:
    match read_reply(text, ReplyContext(fields=json.loads(template))):
        case Approve():
            return Verdict.APPROVE
        case Reject():
            return Verdict.REJECT
    return Verdict.UNCLEAR
