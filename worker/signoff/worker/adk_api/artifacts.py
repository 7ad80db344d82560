"""The artifacts of sessions: lists and loads what agents have saved."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.errors.input_validation_error import InputValidationError
from pydantic import BaseModel

from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem, not_served
from signoff.worker.adk_api.sessions import CallerSessions

T = TypeVar("T")

_LARGEST_VERSION = 2**31
_MOST_DIGITS = 10


class _Place(TypedDict):
    app_name: str
    user_id: str
    session_id: str


@dataclass(frozen=True, slots=True)
class Artifacts:
    """The endpoints; each requires first that the caller may see the session.

    They only read artifacts: a call that waits for an approval may name an artifact, which must
    still be the one that the approver was shown.

    Attributes:
        admit: Returns the caller of a request for an app.
        sessions: ADK's sessions.
        service: The artifact service that the workers use.
    """

    admit: Callable[[Request, str], Awaitable[Caller]]
    sessions: CallerSessions
    service: BaseArtifactService

    async def names(self, request: Request, app: str, user: str, session: str) -> Response:
        """Return the names of the artifacts."""
        place = await self._place(request, app, user, session)
        return JSONResponse(await _sound(self.service.list_artifact_keys(**place)))

    async def one(self, request: Request, app: str, user: str, session: str, name: str) -> Response:
        """Return an artifact, in the requested version, as a part of a message."""
        place, number = await self._place(request, app, user, session), _number(request)
        found = await _sound(self.service.load_artifact(**place, filename=name, version=number))
        return _shown(found)

    async def versions(
        self, request: Request, app: str, user: str, session: str, name: str
    ) -> Response:
        """Return the numbers of an artifact's versions."""
        place = await self._place(request, app, user, session)
        return JSONResponse(await _sound(self.service.list_versions(**place, filename=name)))

    async def all_metadata(
        self, request: Request, app: str, user: str, session: str, name: str
    ) -> Response:
        """Return the metadata of all versions of an artifact."""
        place = await self._place(request, app, user, session)
        found = await _sound(self.service.list_artifact_versions(**place, filename=name))
        return JSONResponse([_dumped(one) for one in found])

    async def metadata(
        self, request: Request, app: str, user: str, session: str, name: str
    ) -> Response:
        """Return the metadata of the requested version of an artifact."""
        place, number = await self._place(request, app, user, session), _number(request)
        found = self.service.get_artifact_version(**place, filename=name, version=number)
        return _shown(await _sound(found))

    async def _place(self, request: Request, app: str, user: str, session: str) -> _Place:
        caller = await self.admit(request, app)
        if app in self.sessions.others:
            raise not_served(
                404, f"The artifacts of {app} are on its own server, and it has to be asked there."
            )
        await self.sessions.get(caller, app, user, session)
        return {"app_name": app, "user_id": user, "session_id": session}


def _number(request: Request) -> int | None:
    """Return the version in the path or the query; None for the latest."""
    version = request.path_params.get("version") or request.query_params.get("version", "latest")
    if version == "latest":
        return None
    is_number = version.isascii() and version.isdigit() and len(version) <= _MOST_DIGITS
    if not is_number or int(version) > _LARGEST_VERSION:
        raise _wrong("A version is a number from 0, or `latest`.")
    return int(version)


async def _sound(asked: Awaitable[T]) -> T:
    try:
        return await asked
    except InputValidationError as error:
        raise _wrong(str(error)) from error


def _shown(found: BaseModel | None) -> Response:
    if found is None:
        raise Problem(
            404,
            "no-such-artifact",
            "There is no such artifact",
            "This session has no artifact of this name and version.",
        )
    return JSONResponse(_dumped(found))


def _dumped(found: BaseModel) -> dict[str, Any]:
    return found.model_dump(mode="json", by_alias=True, exclude_none=True)


def _wrong(detail: str) -> Problem:
    return Problem(422, "invalid", "The request has the wrong form", detail)
