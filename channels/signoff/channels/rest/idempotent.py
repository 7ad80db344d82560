"""What each request that changes an approval goes through: what it may see, and only once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Annotated

import structlog
from fastapi import Path, Request, Response
from pydantic import JsonValue

from signoff.broker.decisions import Desk
from signoff.broker.ledger.change import Change
from signoff.channels.rest import shapes
from signoff.channels.rest.idempotency_keys import once
from signoff.channels.rest.problems import CHANNEL, not_found
from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator
from signoff.core.base.durations import parse_span
from signoff.core.base.errors import ApprovalNotFound
from signoff.core.directory.people import Directory, Person, Role

log = structlog.get_logger(__name__)

Id = Annotated[str, Path(max_length=128, description="The id of an approval: ap_ and 16 letters.")]

Move = Callable[[Approval, Change | None], Awaitable[Approval]]
"""Does something to an approval, and a note of it in the same commit."""


class Carrying:
    """Carries requests about approvals out.

    Args:
        desk: The desk whose ledger has the approvals, and whose directory the people.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def out(
        self, access: Access, approval_id: str, request: Request, response: Response, move: Move
    ) -> models.Approval:
        """Carry a request out, unless the same one was before; return what the approval is then.

        Raises:
            Problem: The token may not see it, or the key of the request cannot be used.
            SignoffError: Whatever the move raises.
        """
        seen = await self.seen(access, approval_id)
        async with once(self._desk.ledger, access, request, response) as attempt:
            if attempt.about:
                return shapes.approval(seen)
            done = await move(seen, attempt.done(seen.id))
        log.info("rest.moved", approval=seen.id, state=done.state.value, token=access.id)
        return shapes.approval(done)

    async def seen(self, access: Access, approval_id: str) -> Approval:
        """Return an approval that the token may see.

        Raises:
            Problem: It may not, or there is none: the two are not told apart.
        """
        try:
            found = await self._desk.ledger.approval(approval_id)
        except ApprovalNotFound:
            raise not_found("approval", approval_id) from None
        if not access.sees(found, self._desk.directory):
            raise not_found("approval", approval_id)
        return found

    def person(self, access: Access) -> Person:
        """Return as whom a token acts.

        Raises:
            Problem: It is of no person.
        """
        found = self._desk.directory.get(access.person)
        if found is None:
            detail = "Only a token that was made with `--person` does this."
            raise Problem(403, "no-person", "The token is of no person", detail)
        return found


def by(
    access: Access, seen: Approval | None = None, directory: Directory | None = None
) -> dict[str, JsonValue]:
    """Return what the audit notes of a token, and of the role in which somebody makes a move.

    Args:
        access: The token.
        seen: What is moved; None for what has nothing to do with roles.
        directory: The people.
    """
    person = directory.get(access.person) if directory is not None else None
    if seen is None or directory is None or person is None:
        return {"channel": CHANNEL, "token": access.id}
    moves = isinstance(collaboration.acting(seen, person, directory), Operator)
    role = {"role": Role.OPERATOR.value} if moves else {}
    return {"channel": CHANNEL, "token": access.id, **role}


def same_call(seen: Approval, digest: str) -> None:
    """Refuse an answer to another call than the one that was shown.

    Raises:
        Problem: The digest is not that of this approval.
    """
    if digest != seen.digest:
        detail = "The digest is that of another call, so nothing was done. Look again."
        raise Problem(409, "digest", "Another call was shown", detail)


def somebody(directory: Directory, name: str, pointer: str) -> Person:
    """Return a person whom a body names.

    Raises:
        Problem: There is none of this id.
    """
    found = directory.get(name)
    if found is None:
        detail = f"{name!r} is nobody to whom, or from whom, it could go. Name a person's id."
        raise Problem(422, "no-such-person", "There is no such person", f"{pointer}: {detail}")
    return found


def length_of(text: str, pointer: str) -> timedelta:
    """Read how long, by the clock.

    Raises:
        Problem: It is no duration, or one of working time.
    """
    try:
        span = parse_span(text)
    except ValueError as error:
        detail = f"{pointer}: {error}"
        raise Problem(422, "invalid", "The request has the wrong form", detail) from error
    if span.business:
        detail = f"{pointer}: this is time by the clock: leave out `business`."
        raise Problem(422, "invalid", "The request has the wrong form", detail)
    return span.length
