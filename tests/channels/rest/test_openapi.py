"""The OpenAPI document is correct: it describes the real responses to every client."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from builders import OF_PEOPLE, paused, present
from channels import granting
from channels.rest.conftest import Office
from served import gateway
from signoff.broker.api_tokens import create
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.access.api_tokens import Scope

EXAMPLES = 1

ALL = OF_PEOPLE
ROLES: dict[str, dict[str, Any]] = {
    "nobody": {},
    "approver": {"person": "mara", "scopes": ALL},
    "requester": {"person": "riley", "scopes": ALL},
    "system": {"users": ("*",), "scopes": ALL - {Scope.APPROVALS_DECIDE}},
    "auditor": {"person": "cleo", "scopes": frozenset({Scope.AUDIT_READ})},
    "admin": {"scopes": frozenset({Scope.ADMIN})},
}


T = TypeVar("T")


class Installation:
    """A gateway and its ledger, used from outside their loop."""

    def __init__(self, url: str, redis_url: str, prefix: str) -> None:
        self.url, self._redis, self._prefix = url, redis_url, prefix

    def do(self, work: Callable[[Ledger], Awaitable[T]]) -> T:
        """Run a coroutine with the ledger and return its result."""

        async def run() -> T:
            ledger = Ledger(Store.open(self._redis, prefix=self._prefix))
            try:
                return await work(ledger)
            finally:
                await ledger.close()

        return asyncio.run(run())

    def token(self, **parts: Any) -> str:
        """Return a token, or "" if it has no scopes."""
        if not parts:
            return ""
        return self.do(lambda ledger: create(ledger, by="test", **parts))[0]


@pytest.fixture
def installation(redis_url: str, prefix: str) -> Iterator[Installation]:
    """Return the gateway of this test."""
    with gateway(redis_url, prefix) as url:
        yield Installation(url, redis_url, prefix)


@functools.cache
def operations(document: str) -> list[Any]:
    """Return every operation of a document; what a request needs is made once."""
    # Each process of the tests collects this file, and one of them runs it.
    import schemathesis
    from schemathesis.core.result import Ok

    schema = schemathesis.openapi.from_dict(json.loads(document))
    made = []
    for one in schema.get_all_operations():
        assert isinstance(one, Ok)
        made.append(one.ok())
    return made


@pytest.mark.parametrize(
    "role",
    [
        *("nobody", "approver", "system"),
        *(pytest.param(one, marks=pytest.mark.soak) for one in ("requester", "auditor", "admin")),
    ],
)
def test_every_response_matches_the_openapi_document(installation: Installation, role: str) -> None:
    """No request of any role causes a server error, and none decides without permission."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as of_openapi

    checks = [
        not_a_server_error,
        of_openapi.content_type_conformance,
        of_openapi.response_schema_conformance,
        of_openapi.status_code_conformance,
    ]
    token = installation.token(**ROLES[role])
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    _, (approval,) = installation.do(paused)
    grant = installation.do(granting.given)
    there = {
        "approval_id": approval.id,
        "run_id": approval.origin.run,
        "grant_id": grant.id,
        "person_id": "mara",
        "name": "mara",
    }
    base = installation.url.removesuffix("/api/v1")

    def look(case: Any) -> None:
        answer = case.call(base_url=f"{base}/api/v1", headers=headers)
        case.validate_response(answer, checks=checks)
        if not token:
            # A path with a line feed does not match a route.
            assert answer.status_code in {401, 404, 429}

    for operation in operations(httpx.get(f"{installation.url}/openapi.json", timeout=60).text):

        @settings(
            max_examples=EXAMPLES,
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            look(case)
            # Now with existing objects.
            if names := there.keys() & (case.path_parameters or {}).keys():
                case.path_parameters.update({name: there[name] for name in names})
                look(case)
                if isinstance(case.body, dict) and "digest" in case.body:
                    case.body["digest"] = approval.digest
                    look(case)

        ask()
    events = installation.do(lambda ledger: ledger.history(approval.id))
    by = {one.by for one in events if one.what in {"approved", "rejected", "voted"}}
    assert by == ({"mara"} if role == "approver" else set())
    revoked = present(installation.do(lambda ledger: ledger.raw(f"grant:{grant.id}")))[1]
    assert ("revoked_at" in revoked) is (role in {"approver", "admin"})
    away = installation.do(lambda ledger: ledger.raw("absences"))
    assert (away is not None) <= (role in {"approver", "admin"})


async def test_the_openapi_document_describes_every_route(office: Office) -> None:
    """It is OpenAPI 3.1, needs no token, and has a schema for each response and problem."""
    document = (await office.http.get("openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            where = f"{method} {path}"
            assert one["operationId"].isidentifier(), where
            assert one["security"], where
            assert {"401", "403", "422", "503"} <= one["responses"].keys(), where
            for status, answer in one["responses"].items():
                assert status == "304" or answer["content"], f"{where} {status}"
