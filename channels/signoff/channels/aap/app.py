"""The application that the gateway serves under /aap."""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from signoff.broker.decisions import Decisions
from signoff.channels.aap import wire
from signoff.channels.aap.faults import HEADER, Fault, fault_of, invalid, not_found
from signoff.channels.aap.instances import Instance, load
from signoff.channels.aap.notifications import Receivers
from signoff.channels.aap.provisioning import Provisioning
from signoff.channels.aap.requests import Requests, unauthenticated
from signoff.channels.web.bearer import Bearers
from signoff.channels.web.problems import Problem, read_body
from signoff.core.access.api_tokens import Access, Scope
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import SignoffError

log = structlog.get_logger(__name__)

PATH: Final = "/aap"

MOST: Final = 1024 * 1024
"""The largest body, in bytes."""

LONGEST_WAIT: Final = 30.0
"""The most seconds that a request waits for a decision."""

_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")

Endpoint = Callable[[Request], Awaitable[Response]]


class Aap:
    """The routes.

    Args:
        decisions: The ledger and the people.
        requests: Handles the requests of instances.
        receivers: Verifies receivers.
        rate: The most requests a minute for one token; 0 for no limit.
    """

    def __init__(
        self, decisions: Decisions, requests: Requests, receivers: Receivers, *, rate: int
    ) -> None:
        self._ledger = decisions.ledger
        self._requests = requests
        self._provisioning = Provisioning(decisions, receivers)
        self._bearers = Bearers(decisions, rate)

    async def submit(self, request: Request) -> Response:
        """`POST /v1/requests`."""
        instance, key = await self._instance(request), _key(request)
        found, new = await self._requests.submit(instance, key, await _body(request))
        return _request(found, 201 if new else 200)

    async def show(self, request: Request) -> Response:
        """`GET /v1/requests/{id}`."""
        instance = await self._instance(request)
        found = await self._requests.wait(instance, _id(request), within=_wait(request))
        return _request(found)

    async def cancel(self, request: Request) -> Response:
        """`DELETE /v1/requests/{id}`."""
        instance = await self._instance(request)
        return _request(await self._requests.cancel(instance, _id(request)))

    async def consume(self, request: Request) -> Response:
        """`POST /v1/requests/{id}/consume`."""
        instance, key = await self._instance(request), _key(request)
        return _request(await self._requests.consume(instance, _id(request), key))

    async def report(self, request: Request) -> Response:
        """`POST /v1/requests/{id}/outcome`."""
        instance, body = await self._instance(request), await _body(request)
        return _request(await self._requests.report(instance, _id(request), body))

    async def provision(self, request: Request) -> Response:
        """`POST /v1/instances`."""
        access, token = await self._provisioner(request)
        key, body = _key(request), await _body(request)
        made, new = await self._provisioning.create(access, token, key, body)
        return JSONResponse(made, 201 if new else 200)

    async def instance(self, request: Request) -> Response:
        """`GET /v1/instances/{id}`."""
        access, _ = await self._provisioner(request)
        return JSONResponse(await self._provisioning.show(access, _id(request)))

    async def update(self, request: Request) -> Response:
        """`PATCH /v1/instances/{id}`."""
        access, _ = await self._provisioner(request)
        key, body = _key(request), await _body(request)
        return JSONResponse(await self._provisioning.update(access, _id(request), key, body))

    async def delete(self, request: Request) -> Response:
        """`DELETE /v1/instances/{id}`."""
        access, _ = await self._provisioner(request)
        await self._provisioning.delete(access, _id(request))
        return Response(status_code=204)

    async def _instance(self, request: Request) -> Instance:
        """Return the instance that a request's credential belongs to."""
        access, _ = await self._access(request)
        if not access.instance:
            raise Fault(403, "not_an_instance", "This takes the credential of an instance.")
        found = await load(self._ledger, access.instance)
        if found is None or found.deleted_at is not None or found.token != access.id:
            raise unauthenticated()
        return found

    async def _provisioner(self, request: Request) -> tuple[Access, str]:
        access, token = await self._access(request)
        if not access.allows(Scope.INSTANCES_MANAGE):
            words = f"This takes a token with the scope {Scope.INSTANCES_MANAGE}."
            raise Fault(403, "not_a_provisioner", words)
        return access, token

    async def _access(self, request: Request) -> tuple[Access, str]:
        try:
            return await self._bearers.admit(request)
        except Problem as problem:
            if problem.status == 401:
                raise unauthenticated() from problem
            raise


def make_aap(
    decisions: Decisions, requests: Requests, receivers: Receivers, *, rate: int
) -> Starlette:
    """Return the application, to be mounted at `PATH`; see `Aap` for the arguments."""
    routes = Aap(decisions, requests, receivers, rate=rate)
    one, made = "/v1/requests/{id}", "/v1/instances/{id}"
    table: list[tuple[str, str, Endpoint]] = [
        ("/v1/requests", "POST", routes.submit),
        (one, "GET", routes.show),
        (one, "DELETE", routes.cancel),
        (f"{one}/consume", "POST", routes.consume),
        (f"{one}/outcome", "POST", routes.report),
        ("/v1/instances", "POST", routes.provision),
        (made, "GET", routes.instance),
        (made, "PATCH", routes.update),
        (made, "DELETE", routes.delete),
    ]
    return Starlette(
        routes=[Route(path, _answering(run), methods=[method]) for path, method, run in table],
        exception_handlers={HTTPException: _nowhere},
    )


def _answering(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that translates errors into those of the protocol."""

    async def answer(request: Request) -> Response:
        try:
            response = await endpoint(request)
        except Fault as fault:
            return fault.response()
        except Problem as problem:
            code, after = problem.kind.replace("-", "_"), int(problem.headers.get("Retry-After", 0))
            return Fault(problem.status, code, str(problem), retry_after=after).response()
        except SignoffError as error:
            found = fault_of(error)
            if found.status >= 500:
                log.warning("aap.failed", path=request.url.path, error=str(error))
            return found.response()
        response.headers[HEADER] = str(uuid.uuid4())
        return response

    return answer


async def _nowhere(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        return Fault(405, "method_not_allowed", "There is no such operation.").response()
    path = request.url.path
    message = f"Nothing is at {path}. Requests are at {PATH}/v1/requests."
    return Fault(404, "not_found", message).response()


def _request(approval: Approval, status: int = 200) -> Response:
    return Response(wire.request_text(approval), status, media_type="application/json")


def _key(request: Request) -> str:
    key = request.headers.get("idempotency-key", "")
    if not key:
        raise invalid("An Idempotency-Key is needed.", "Idempotency-Key", "missing_idempotency_key")
    if not _KEY.fullmatch(key):
        raise invalid(
            "An Idempotency-Key has 1 to 255 visible ASCII characters.", "Idempotency-Key"
        )
    return key


def _id(request: Request) -> str:
    try:
        return str(uuid.UUID(request.path_params["id"]))
    except ValueError as error:
        raise not_found() from error


def _wait(request: Request) -> float:
    given = request.query_params.get("wait")
    if given is None:
        return 0
    if not re.fullmatch(wire.DURATION, given):
        raise invalid("wait is a duration such as 30s.", "wait")
    return min(wire.length_of(given).total_seconds(), LONGEST_WAIT)


async def _body(request: Request) -> bytes:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Fault(415, "not_json", "Send application/json.")
    return await read_body(request, MOST)
