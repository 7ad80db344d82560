"""The routes of the API, under the paths and in the forms of google.adk.cli.api_server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import structlog
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.version import __version__ as adk_version

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.submit import submit
from signoff.core.access.scopes import Scope
from signoff.core.approvals.run import Watch
from signoff.worker.adk.showing import session_json
from signoff.worker.adk_api.answering import AnsweredTurn, AnswerHandler
from signoff.worker.adk_api.artifacts import Artifacts
from signoff.worker.adk_api.bodies import read_object, read_request
from signoff.worker.adk_api.callers import Caller, TokenAuthenticator
from signoff.worker.adk_api.pauses import Pauses
from signoff.worker.adk_api.problems import Problem, ProblemRoute, not_served
from signoff.worker.adk_api.sessions import CallerSessions
from signoff.worker.adk_api.streaming import TurnResponses
from signoff.worker.adk_api.web import make_web_router
from signoff.worker.agent_folders import app_names

log = structlog.get_logger(__name__)

_USER: Final = "/apps/{app}/users/{user}/sessions"
_SESSION: Final = _USER + "/{session}"
_ARTIFACTS: Final = _SESSION + "/artifacts"
_ARTIFACT: Final = _ARTIFACTS + "/{name:path}"


@dataclass(frozen=True, slots=True)
class AdkApi:
    """The endpoints.

    Attributes:
        authenticator: Authenticates callers.
        decisions: Submits runs.
        sessions: ADK's sessions.
        answering: Receives answers.
        responses: Builds the responses with the events of turns.
        folder: The folder of the agents.
        pauses: Receives the pauses of remote agents.
    """

    authenticator: TokenAuthenticator
    decisions: Decisions
    sessions: CallerSessions
    answering: AnswerHandler
    responses: TurnResponses
    folder: Path
    pauses: Pauses

    async def health(self, request: Request) -> Response:
        """Report that the server is up; no token is needed, as for ADK's own server."""
        del request
        return JSONResponse({"status": "ok"})

    async def version(self, request: Request) -> Response:
        """Return the version of ADK; clients derive from it what the server can do."""
        await self.authenticator.admit(request)
        python = ".".join(str(part) for part in sys.version_info[:3])
        return JSONResponse(
            {"version": adk_version, "language": "python", "language_version": python}
        )

    async def list_apps(self, request: Request) -> Response:
        """Return the names of the agents that the caller may use."""
        caller = await self.authenticator.admit(request)
        if request.query_params.get("detailed", "false").lower() not in {"", "0", "false"}:
            raise not_served(
                501, "Details need the agents' code, which only workers load. Leave `detailed` out."
            )
        return JSONResponse(self._apps(caller))

    async def list_sessions(self, request: Request, app: str, user: str) -> Response:
        """Return the sessions of a user."""
        caller = await self.admit(request, app)
        return JSONResponse(await self.sessions.list(caller, app, user))

    async def create_session(self, request: Request, app: str, user: str) -> Response:
        """Create a session."""
        caller = await self.admit(request, app, Scope.RUNS_SUBMIT)
        body = await read_object(request, optional=True)
        return JSONResponse(session_json(await self.sessions.create(caller, app, user, body)))

    async def create_named_session(
        self, request: Request, app: str, user: str, session: str
    ) -> Response:
        """Create a session with this id; the body is its state."""
        caller = await self.admit(request, app, Scope.RUNS_SUBMIT)
        state = await read_object(request, optional=True)
        body = {"session_id": session, "state": state}
        return JSONResponse(session_json(await self.sessions.create(caller, app, user, body)))

    async def get_session(self, request: Request, app: str, user: str, session: str) -> Response:
        """Return a session."""
        caller = await self.admit(request, app)
        return JSONResponse(session_json(await self.sessions.get(caller, app, user, session)))

    async def update_session(self, request: Request, app: str, user: str, session: str) -> Response:
        """Update a part of a session's state."""
        caller = await self.admit(request, app, Scope.RUNS_SUBMIT)
        body = await read_object(request)
        changed = await self.sessions.update(caller, app, user, session, body)
        return JSONResponse(session_json(changed))

    async def delete_session(self, request: Request, app: str, user: str, session: str) -> Response:
        """Delete a session."""
        caller = await self.admit(request, app, Scope.RUNS_SUBMIT)
        await self.sessions.delete(caller, app, user, session)
        return JSONResponse(None)

    async def run(self, request: Request) -> Response:
        """Run an agent, or answer it, and return the events of the turn when it is over."""
        return await self.responses.collect(await self._turn(request, streams=False), request)

    async def run_sse(self, request: Request) -> Response:
        """Run an agent, or answer it, and return the events of the turn as they come."""
        return self.responses.stream(await self._turn(request, streams=True))

    async def admit(self, request: Request, app: str, scope: Scope = Scope.RUNS_READ) -> Caller:
        """Return the caller of a request for an existing app."""
        caller = await self.authenticator.admit(request, scope)
        self._require_app(caller, app)
        return caller

    async def publish(self, request: Request) -> Response:
        """Receive the pause of a remote agent; 201 if it opens an approval."""
        caller = await self.authenticator.admit(request, Scope.RUNS_SUBMIT)
        opened = await self.pauses.open(caller, await read_object(request))
        return JSONResponse(
            {"approvals": list(opened.approvals)}, status_code=201 if opened.fresh else 200
        )

    async def not_served(self, request: Request, rest: str) -> Response:
        """Refuse the other routes of ADK's server."""
        del rest
        await self.authenticator.admit(request)
        raise not_served(
            404,
            f"{request.method} {request.url.path} is not served. Served are /list-apps, /version, "
            "/run, /run_sse, and the sessions of /apps/{app}/users/{user}/sessions with their "
            "artifacts, to be read.",
        )

    async def _turn(self, request: Request, *, streams: bool) -> AnsweredTurn:
        """Execute a request and return its turn.

        Args:
            request: The request.
            streams: Whether to respect `streaming`; ADK's own server does so only in a stream.

        Raises:
            Problem: It cannot be carried out; nothing was changed.
        """
        caller = await self.authenticator.admit(request)
        asked, message = read_request(await read_object(request))
        self.responses.require_capacity()
        watched = Watch.WORDS if streams and asked.streaming else Watch.EVENTS
        if not isinstance(message, str):
            return await self.answering.take(caller, asked, message, watched)
        caller.require(Scope.RUNS_SUBMIT)
        self._require_app(caller, asked.app_name)
        await self.sessions.get(caller, asked.app_name, asked.user_id, asked.session_id)
        run = await submit(
            self.decisions.ledger,
            asked.app_name,
            message,
            user=asked.user_id,
            session=asked.session_id,
            watched=watched,
        )
        log.info("api.submitted", run=run.id, app=run.app, caller=caller.name)
        return AnsweredTurn(run.id, pause=0)

    def _apps(self, caller: Caller) -> list[str]:
        # If all agents are remote, there is no folder.
        names = app_names(self.folder) if self.folder.is_dir() else []
        return [name for name in sorted({*names, *self.sessions.others}) if caller.may_see(name)]

    def _require_app(self, caller: Caller, app: str) -> None:
        if app not in self._apps(caller):
            _no_such_app(self._apps(caller))


def _no_such_app(known: Sequence[str]) -> NoReturn:
    raise Problem(
        404,
        "no-such-app",
        "There is no such app",
        f"There is no app with this name. There are: {', '.join(known) or 'none'}.",
        apps=list(known),
    )


def make_adk_router(
    decisions: Decisions,
    *,
    watching: Ledger,
    authenticator: TokenAuthenticator,
    sessions: CallerSessions,
    artifacts: BaseArtifactService,
    folder: Path,
    pauses: Pauses,
    web: bool = False,
) -> APIRouter:
    """Return the routes of an ADK API server whose agents run on the workers.

    Args:
        decisions: Submits runs and takes answers.
        watching: The same ledger on separate connections: each watching client holds one.
        authenticator: Authenticates callers.
        sessions: The sessions that the workers use.
        artifacts: The artifact service that the workers use.
        folder: The folder of the agents.
        pauses: Receives the pauses of remote agents.
        web: Whether ADK's own page is served too.
    """
    api = AdkApi(
        authenticator=authenticator,
        decisions=decisions,
        sessions=sessions,
        answering=AnswerHandler(decisions, watching, sessions.event_of),
        responses=TurnResponses(watching),
        folder=folder,
        pauses=pauses,
    )
    kept = Artifacts(api.admit, api.sessions, artifacts)
    router = APIRouter(route_class=ProblemRoute)
    for path, method, endpoint in (
        ("/health", "GET", api.health),
        ("/version", "GET", api.version),
        ("/list-apps", "GET", api.list_apps),
        (_USER, "GET", api.list_sessions),
        (_USER, "POST", api.create_session),
        (_SESSION, "GET", api.get_session),
        (_SESSION, "POST", api.create_named_session),
        (_SESSION, "PATCH", api.update_session),
        (_SESSION, "DELETE", api.delete_session),
        (_ARTIFACTS, "GET", kept.names),
        # Names may contain slashes, so routes that end in /versions come before routes of names.
        (_ARTIFACT + "/versions/metadata", "GET", kept.all_metadata),
        (_ARTIFACT + "/versions/{version}/metadata", "GET", kept.metadata),
        (_ARTIFACT + "/versions/{version}", "GET", kept.one),
        (_ARTIFACT + "/versions", "GET", kept.versions),
        (_ARTIFACT, "GET", kept.one),
        ("/run", "POST", api.run),
        ("/run_sse", "POST", api.run_sse),
        ("/v1/pauses", "POST", api.publish),
    ):
        router.add_api_route(path, endpoint, methods=[method], response_model=None)
    if web:
        router.include_router(make_web_router(api.authenticator.admit))
    router.add_api_route(
        "/apps/{rest:path}",
        api.not_served,
        methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
        response_model=None,
    )
    return router
