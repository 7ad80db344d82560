"""`Idempotency-Key`: a repeated request is carried out only once.

The effect of a request and the record of its key are one commit. If a process dies before the
commit, nothing was done. If only the response was lost, the next attempt finds the record: it gets
the current state, and nothing is done again. Only successful requests are recorded, so a refused
request can be corrected and sent again with the same key.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

from fastapi import Request, Response

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.rest.problems import IN_FLIGHT
from signoff.channels.web.problems import Problem
from signoff.core.access.api_tokens import Access

HEADER: Final = "Idempotency-Key"
REPLAYED: Final = "Idempotent-Replayed"
"""A response header: the request was carried out earlier, and not repeated."""

KEEP: Final = timedelta(days=1)
"""How long a key is kept."""

LEASE: Final = 30.0
"""Seconds after which a request can be repeated if its gateway died."""

_FORM: Final = re.compile(r"[\x21-\x7e]{1,255}")


class Once:
    """One request, which is carried out now or was carried out earlier.

    Attributes:
        about: The id of the earlier result; "" if the request must be carried out now.
    """

    def __init__(self, name: str = "", token: str = "", mark: str = "", about: str = "") -> None:
        self.about = about
        self._name, self._token, self._mark = name, token, mark

    def done(self, about: str) -> Change | None:
        """Return the change that records the key with the id of the result; None without a key."""
        if not self._name:
            return None
        note = json.dumps({"request": self._mark, "about": about})
        change = Change().put_raw(self._name, note, ttl=KEEP)
        return change.fence(f"lease:{self._name}", self._token, give_back=True)


@asynccontextmanager
async def once(
    ledger: Ledger, access: Access, request: Request, response: Response, *, part: str = ""
) -> AsyncIterator[Once]:
    """Lock a request's key, and check whether the request was carried out earlier.

    Args:
        ledger: The ledger, which keeps the records.
        access: The access of the request's token.
        request: The request.
        response: Gets a header if the request was carried out earlier.
        part: The part of a request with several parts, each recorded separately.

    Raises:
        Problem: 422 for a malformed key or the key of another request, 409 while the same request
            is being carried out.
        LedgerUnavailable: Redis cannot be reached.
    """
    key = request.headers.get(HEADER.lower())
    if key is None:
        yield Once()
        return
    if not _FORM.fullmatch(key):
        detail = f"{HEADER} has 1 to 255 visible ASCII characters."
        raise Problem(422, "idempotency-key", f"{HEADER} has the wrong form", detail)
    name = (
        "idempotent:"
        + hashlib.sha256("\0".join(filter(None, (access.id, key, part))).encode()).hexdigest()
    )
    mark = hashlib.sha256(
        f"{request.method} {request.url.path}\n".encode() + await request.body()
    ).hexdigest()
    token = secrets.token_hex(8)
    if not await ledger.take_lease(f"lease:{name}", token, lease=LEASE):
        detail = "A request with this key is being carried out. Ask again in a moment."
        raise Problem(409, IN_FLIGHT, "The same request is being carried out", detail)
    try:
        found = await ledger.raw(name)
        before = json.loads(found[1]) if found is not None else None
        if before is not None and before["request"] != mark:
            detail = f"{HEADER} belongs to another request. Give each request a key of its own."
            raise Problem(422, "idempotency-key-used", "The key was used before", detail)
        if before is not None:
            response.headers[REPLAYED] = "true"
        yield Once(name, token, mark, before["about"] if before is not None else "")
    finally:
        # A commit has already released the lease; then this does nothing.
        await ledger.release_lease(f"lease:{name}", token)
