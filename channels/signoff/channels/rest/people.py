"""The routes of people: their absences and delegates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Request, Response

from signoff.broker.decisions import Decisions
from signoff.broker.hand_over import HandedOver, hand_over, waits_for
from signoff.channels.rest import bodies, shapes
from signoff.channels.rest.auth import Handler, Reader
from signoff.channels.rest.idempotency_keys import once
from signoff.channels.rest.idempotent import actor_of, author_of, proof_of
from signoff.channels.rest.problems import not_found, responses
from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.approvals.collaboration import Operator
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Person

log = structlog.get_logger(__name__)

PersonId = Annotated[str, Path(max_length=64, description="The id of a person.")]


class People:
    """The routes.

    A person's token reads and sets the absences of that person, an administrator's those of
    anybody.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions
        self._people = decisions.people

    async def search(self, access: Reader) -> list[models.Person]:
        """List people and their absences, without addresses."""
        directory, now = await self._people.directory(), await self._decisions.ledger.now()
        return [shapes.person(one, now) for one in directory if _may(access, one.id)]

    async def show(self, access: Reader, person_id: PersonId) -> models.Person:
        """Return a person's absences."""
        return await self._shown(self._seen(access, person_id))

    async def leave(
        self,
        access: Handler,
        person_id: PersonId,
        body: bodies.Leave,
        request: Request,
        response: Response,
    ) -> models.Left:
        """Set an absence, in whole days of the person's time zone. It takes effect immediately.

        The response lists the requests that still wait for the person. With `hand_over`, they move
        to the delegate.
        """
        person = self._seen(access, person_id)
        start = body.start or person.day(await self._decisions.ledger.now())
        if body.end < start:
            detail = f"/to: {body.end} is before {start}, on which it begins."
            raise Problem(422, "absence", "The absence cannot be noted", detail)
        stands_in = self._decisions.directory.find(body.delegate) if body.delegate else None
        # The domain refuses unknown people.
        delegate = stands_in.id if stands_in is not None else body.delegate
        absence = Absence(start=start, end=body.end, delegate=delegate)
        if body.hand_over and stands_in is None:
            detail = "/hand_over: It takes a delegate, by id or address."
            raise Problem(422, "absence", "The absence cannot be noted", detail)

        async with once(self._decisions.ledger, access, request, response) as attempt:
            if not attempt.about:
                await self._people.leave(
                    person,
                    absence,
                    by=author_of(access),
                    more=proof_of(access),
                    also=attempt.done(person.id),
                )
        log.info("rest.away", person=person.id, token=access.id)
        waiting, handed = await waits_for(self._decisions.ledger, person.id), HandedOver()
        # A repeated request completes a hand-over that was cut off, but not after the return.
        stands = not attempt.about or await self._has(person, absence)
        if body.hand_over and stands_in is not None and stands:
            own = access.person == person.id
            actor = actor_of(access, person if own else Operator(name=f"{access.shown} (api)"))
            handed = await hand_over(self._decisions, waiting, actor, of=person, to=stands_in)
        done = {one.id for one in handed.done}
        left = [one.id for one in waiting if one.id not in done]
        shown = (await self._shown(person)).model_dump() | {"waiting": left, "handed_over": done}
        return models.Left.model_validate(shown | {"next": _next(left, handed, stands_in)})

    async def come_back(
        self, access: Handler, person_id: PersonId, request: Request, response: Response
    ) -> models.Person:
        """End an absence. Later absences stay."""
        person = self._seen(access, person_id)

        async with once(self._decisions.ledger, access, request, response) as attempt:
            if not attempt.about:
                also = attempt.done(person.id)
                who, proof = author_of(access), proof_of(access)
                await self._people.come_back(person, by=who, more=proof, also=also)
        log.info("rest.back", person=person.id, token=access.id)
        return await self._shown(person)

    def _seen(self, access: Access, person_id: str) -> Person:
        """Return a person whose absences the token may read.

        Raises:
            Problem: The person does not exist, or the token may not read the absences; the response
                is the same.
        """
        found = self._decisions.directory.get(person_id)
        if found is None or not _may(access, person_id):
            raise not_found("person", person_id)
        return found

    async def _has(self, person: Person, absence: Absence) -> bool:
        """Return whether a person is still recorded as absent on these days, with this delegate."""
        latest = (await self._people.directory()).get(person.id) or person
        wanted = (absence.start, absence.end, absence.delegate)
        return wanted in [(one.start, one.end, one.delegate) for one in latest.away]

    async def _shown(self, person: Person) -> models.Person:
        directory = await self._people.directory()
        latest = directory.get(person.id) or person
        return shapes.person(latest, await self._decisions.ledger.now())


def _next(waiting: Sequence[str], handed: HandedOver, to: Person | None) -> str:
    """Describe what happens to requests that wait for an absent person, "" if there are none."""
    if not waiting:
        return ""
    if handed.refused:
        return " ".join(f"{one.id} was not handed over: {why}" for one, why in handed.refused)
    if to is None:
        then = "To hand it over, name a delegate."
        return f"The next level is asked if too few people are left. {then}"
    return (
        f"{to.shown} can answer as well during the absence, and the first answer counts. To give "
        f"it to {to.shown} alone, send hand_over = true too, or reassign one by one."
    )


def _may(access: Access, person_id: str) -> bool:
    return access.is_admin or (bool(access.person) and access.person == person_id)


def add_people(router: APIRouter, decisions: Decisions) -> None:
    """Add the routes of people."""
    routes = People(decisions)
    add, one = partial(router.add_api_route, tags=["people"]), "/people/{person_id}"
    writes = responses(400, 404, 408, 409, 413, 415)
    add("/people", routes.search, methods=["GET"], name="list_people", responses=responses())
    add(one, routes.show, methods=["GET"], name="get_person", responses=responses(404))
    add(f"{one}/away", routes.leave, methods=["POST"], name="leave", responses=writes)
    add(f"{one}/back", routes.come_back, methods=["POST"], name="come_back", responses=writes)
