"""Checks every request that changes an approval: visibility, permission, idempotency."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Annotated

import structlog
from fastapi import Depends, Path, Request, Response
from pydantic import JsonValue

from signoff.broker.decisions import Decisions, Extras
from signoff.channels.rest import shapes
from signoff.channels.rest.idempotency_keys import once
from signoff.channels.rest.problems import CHANNEL, not_found
from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.approvals.moves import Actor, Move
from signoff.core.base.durations import parse_length
from signoff.core.base.errors import ApprovalNotFound
from signoff.core.directory.people import Directory, Person, Role

log = structlog.get_logger(__name__)

Id = Annotated[str, Path(max_length=128, description="The id of an approval: ap_ and 16 letters.")]

Want = Callable[[Approval], tuple[Move, Actor]]
"""Returns the move that a request makes on a visible approval, and its actor."""


class ApprovalRequest:
    """A request about one approval, and the headers of its response."""

    def __init__(self, approval_id: Id, request: Request, response: Response) -> None:
        self.approval_id = approval_id
        self.request = request
        self.response = response


About = Annotated[ApprovalRequest, Depends()]


class IdempotentRequests:
    """Carries out requests about approvals."""

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def carry_out(
        self, access: Access, about: ApprovalRequest, want: Want
    ) -> models.Approval:
        """Make the move of a request, unless it was made earlier; return the current approval.

        Raises:
            Problem: The token may not see the approval, or the idempotency key cannot be used.
            SignoffError: The move was refused, or could not be made.
        """
        seen, ledger = await self.seen(access, about.approval_id), self._decisions.ledger
        async with once(ledger, access, about.request, about.response) as attempt:
            if attempt.about:
                # The earlier request may have been carried out after `seen` was read.
                return shapes.approval(await self.seen(access, about.approval_id))
            move, actor = want(seen)
            extras = Extras(also=attempt.done(seen.id))
            outcome = await self._decisions.take(seen.id, move, actor, extras)
            done = outcome.approval_or_raise()
        log.info("rest.moved", approval=seen.id, state=done.state.value, token=access.id)
        return shapes.approval(done)

    async def seen(self, access: Access, approval_id: str) -> Approval:
        """Return an approval that the token may see.

        Raises:
            Problem: It does not exist, or the token may not see it; the response is the same.
        """
        try:
            found = await self._decisions.ledger.approval(approval_id)
        except ApprovalNotFound:
            raise not_found("approval", approval_id) from None
        if not access.sees(found, self._decisions.directory):
            raise not_found("approval", approval_id)
        return found

    def person(self, access: Access) -> Person:
        """Return the person of a token.

        Raises:
            Problem: The token does not belong to a person.
        """
        found = self._decisions.directory.get(access.person)
        if found is None:
            detail = "Only a token made with `--person` can do this."
            raise Problem(403, "no-person", "The token does not belong to a person", detail)
        return found


def author_of(access: Access) -> str:
    """Return the name of a token's user in the audit: the person, or the token."""
    return access.person or access.shown


def proof_of(access: Access) -> dict[str, JsonValue]:
    """Return the details of a token that the audit records."""
    return {"channel": CHANNEL, "token": access.id}


def actor_of(
    access: Access,
    who: Who,
    seen: Approval | None = None,
    directory: Directory | None = None,
) -> Actor:
    """Return the actor for a token, with the details that the audit records.

    Args:
        access: The access of the token.
        who: The person or the role that acts.
        seen: The approval; None for an action that does not depend on roles.
        directory: The people.
    """
    person = directory.get(access.person) if directory is not None else None
    proof: dict[str, JsonValue] = {"token": access.id}
    if seen is not None and directory is not None and person is not None:
        operates = isinstance(collaboration.acting(seen, person, directory), Operator)
        proof |= {"role": Role.OPERATOR.value} if operates else {}
    return Actor(who, CHANNEL, proof)


def same_call(seen: Approval, digest: str) -> None:
    """Refuse an answer whose digest is not that of the call.

    Raises:
        Problem: The digest belongs to another call.
    """
    if digest != seen.digest:
        detail = "The digest is that of another call, so nothing was done. Look again."
        raise Problem(409, "digest", "Another call was shown", detail)


def somebody(directory: Directory, name: str, pointer: str) -> Person:
    """Return the person that a body names.

    Raises:
        Problem: Nobody has this id.
    """
    found = directory.get(name)
    if found is None:
        detail = f"{name!r} is not the id of a person."
        raise Problem(422, "no-such-person", "There is no such person", f"{pointer}: {detail}")
    return found


def length_of(text: str, pointer: str) -> timedelta:
    """Parse a duration in clock time.

    Raises:
        Problem: It is not a duration, or it is in working time.
    """
    try:
        return parse_length(text)
    except ValueError as error:
        detail = f"{pointer}: {error}"
        raise Problem(422, "invalid", "The request has the wrong form", detail) from error
