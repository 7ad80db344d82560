"""The routes of runs: submit a message to an agent, and read the result."""

import secrets
from collections.abc import Callable
from functools import partial
from typing import Annotated

import structlog
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from signoff.broker.decisions import Decisions
from signoff.broker.ledger import listing
from signoff.broker.submit import submit
from signoff.channels.rest import bodies, shapes
from signoff.channels.rest.auth import RunReader, Submitter
from signoff.channels.rest.idempotency_keys import once
from signoff.channels.rest.pages import Paging, page
from signoff.channels.rest.problems import not_found, responses
from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import RunNotFound

log = structlog.get_logger(__name__)

Id = Annotated[str, Path(max_length=128, description="The id of a run: run_ and 16 digits.")]


class RunFilters(Paging):
    """Filters; an unset one matches everything."""

    state: RunState | None = Field(None, description="Only those in this state.")
    app: str = Field("", max_length=128, description="Only those of this app.")
    user: str = Field("", max_length=128, description="Only those of this ADK user.")

    def fits(self, one: Run) -> bool:
        """Return whether a run matches."""
        return (
            self.state in {None, one.state}
            and self.app in {"", one.app}
            and self.user in {"", one.user}
        )


class Runs:
    """The routes; `is_app` returns whether an agent of a name may exist."""

    def __init__(self, decisions: Decisions, is_app: Callable[[str], bool]) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._is_app = is_app

    async def submit(
        self, access: Submitter, body: bodies.Submit, request: Request, response: Response
    ) -> models.Run:
        """Submit a run."""
        user = body.user or access.person
        if not user:
            detail = "Say for whom it is: `user`."
            raise Problem(422, "invalid", "This cannot be submitted", detail)
        if not access.may_submit(body.app, user):
            detail = f"This token submits nothing to {body.app!r} for {user!r}."
            raise Problem(403, "not-for-this-user", "The token does not allow this", detail)
        if not self._is_app(body.app):
            detail = f"There is no agent {body.app!r} among those that are set up."
            raise Problem(422, "no-such-app", "There is no such agent", detail)
        async with once(self._ledger, access, request, response) as attempt:
            if attempt.about:
                done = await self._ledger.run(attempt.about)
            else:
                run_id = f"run_{secrets.token_hex(8)}"
                done = await submit(
                    self._decisions.ledger,
                    body.app,
                    body.message,
                    user=user,
                    session=body.session,
                    run_id=run_id,
                    also=attempt.done(run_id),
                )
                log.info("rest.submitted", run=done.id, app=done.app, token=access.id)
        response.headers["Location"] = f"{request.url.path}/{done.id}"
        return shapes.run(done)

    async def search(
        self, access: RunReader, wanted: Annotated[RunFilters, Query()]
    ) -> models.Page[models.Run]:
        """List runs, the newest first."""
        listed = partial(listing.runs, self._ledger)

        def keep(one: Run) -> bool:
            return wanted.fits(one) and access.sees_run(one, self._decisions.directory)

        found, then = await page(listed, keep, wanted)
        return models.Page[models.Run](items=tuple(shapes.run(one) for one in found), next=then)

    async def show(self, access: RunReader, run_id: Id) -> models.Run:
        """Return one run."""
        try:
            found = await self._ledger.run(run_id)
        except RunNotFound:
            raise not_found("run", run_id) from None
        if not access.sees_run(found, self._decisions.directory):
            raise not_found("run", run_id)
        return shapes.run(found)


def add_runs(router: APIRouter, decisions: Decisions, is_app: Callable[[str], bool]) -> None:
    """Add the routes of runs; see `Runs` for the arguments."""
    routes = Runs(decisions, is_app)
    add = partial(router.add_api_route, tags=["runs"])
    add(
        "/runs",
        routes.submit,
        methods=["POST"],
        name="submit_run",
        status_code=201,
        responses=responses(400, 408, 409, 413, 415),
    )
    add("/runs", routes.search, methods=["GET"], name="list_runs", responses=responses())
    add("/runs/{run_id}", routes.show, methods=["GET"], name="get_run", responses=responses(404))
