"""What each request that changes an approval goes through: what it may see, and only once."""

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
"""Returns which move a request wants on an approval that it may see, and as whom."""


class ApprovalRequest:
    """A request about one approval, and the headers of its answer."""

    def __init__(self, approval_id: Id, request: Request, response: Response) -> None:
        self.approval_id = approval_id
        self.request = request
        self.response = response


About = Annotated[ApprovalRequest, Depends()]


class IdempotentRequests:
    """Carries requests about approvals out.

    Args:
        decisions: Makes the moves.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def carry_out(
        self, access: Access, about: ApprovalRequest, want: Want
    ) -> models.Approval:
        """Make the move of a request, unless the same one was made; return what the approval is.

        Raises:
            Problem: The token may not see it, or the key of the request cannot be used.
            SignoffError: The move was refused, or could not be made.
        """
        seen, ledger = await self.seen(access, about.approval_id), self._decisions.ledger
        async with once(ledger, access, about.request, about.response) as attempt:
            if attempt.about:
                return shapes.approval(seen)
            move, actor = want(seen)
            extras = Extras(also=attempt.done(seen.id))
            outcome = await self._decisions.take(seen.id, move, actor, extras)
            done = outcome.approval_or_raise()
        log.info("rest.moved", approval=seen.id, state=done.state.value, token=access.id)
        return shapes.approval(done)

    async def seen(self, access: Access, approval_id: str) -> Approval:
        """Return an approval that the token may see.

        Raises:
            Problem: It may not, or there is none: the two are not told apart.
        """
        try:
            found = await self._decisions.ledger.approval(approval_id)
        except ApprovalNotFound:
            raise not_found("approval", approval_id) from None
        if not access.sees(found, self._decisions.directory):
            raise not_found("approval", approval_id)
        return found

    def person(self, access: Access) -> Person:
        """Return as whom a token acts.

        Raises:
            Problem: It is of no person.
        """
        found = self._decisions.directory.get(access.person)
        if found is None:
            detail = "Only a token that was made with `--person` does this."
            raise Problem(403, "no-person", "The token is of no person", detail)
        return found


def actor_of(
    access: Access,
    who: Who,
    seen: Approval | None = None,
    directory: Directory | None = None,
) -> Actor:
    """Return as whom a token acts, and what the audit notes of it.

    Args:
        access: The token.
        who: Who acts.
        seen: What is moved; None for what has nothing to do with roles.
        directory: The people.
    """
    person = directory.get(access.person) if directory is not None else None
    proof: dict[str, JsonValue] = {"token": access.id}
    if seen is not None and directory is not None and person is not None:
        operates = isinstance(collaboration.acting(seen, person, directory), Operator)
        proof |= {"role": Role.OPERATOR.value} if operates else {}
    return Actor(who, CHANNEL, proof)


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
        return parse_length(text)
    except ValueError as error:
        detail = f"{pointer}: {error}"
        raise Problem(422, "invalid", "The request has the wrong form", detail) from error
