"""Access to the API: who gets in, and what others cannot learn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from builders import CLEO, paused
from channels.rest.conftest import Office
from leaks import text_in
from signoff.broker import api_tokens as tokens
from signoff.core.access.api_tokens import Scope
from signoff.core.approvals.events import Event
from signoff.core.base.errors import InvalidToken, TokenNotFound
from signoff.core.directory.people import Directory, Person, Role
from signoff.testing import VirtualClock


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        "Basic bWFyYTpwdw==",
        "Bearer signoff_aaaaaaaaaa_" + "a" * 52,
        "Bearer signoff_aaaaaaaaaa_" + "a" * 51,
        "Bearer " + "x" * 5000,
    ],
)
async def test_a_request_without_a_valid_token_is_refused(
    office: Office, header: str | None
) -> None:
    """A request without a valid token is refused, whatever its path."""
    headers = {} if header is None else {"Authorization": header}
    for path in ("me", "approvals", "approvals/ap_x", "nothing-of-the-kind"):
        answer = await office.http.get(path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["type"] == "urn:signoff:problem:unauthenticated"


async def test_a_token_with_a_wrong_id_or_secret_is_refused(
    office: Office,
) -> None:
    """Both parts of a token have to match."""
    one, other = await office.token(person="mara"), await office.token(person="cleo")
    name, secret = one.rsplit("_", 1)
    mixed = other.rsplit("_", 1)[0] + "_" + secret
    changed = f"{name}_{'b' if secret[0] != 'b' else 'c'}{secret[1:]}"
    for token in (mixed, changed, one.upper(), one + "a"):
        assert (await office.holding(token).get("me")).status_code == 401
    assert (await office.holding(one).get("me")).json()["person"] == "mara"


async def test_a_token_ends_on_expiry_revocation_or_departure(
    clock: VirtualClock, still_office: Office, directory: Directory
) -> None:
    """It is invalid from that moment."""
    office = still_office
    ends = clock.now() + timedelta(hours=1)
    short = await office.token(person="mara", expires_at=ends)
    long = await office.token(person="cleo")
    assert (await office.holding(short).get("me")).status_code == 200
    clock.advance(timedelta(hours=1))
    assert (await office.holding(short).get("me")).status_code == 401
    await tokens.revoke(office.decider.ledger, long.split("_")[1], by="test")
    assert (await office.holding(long).get("me")).status_code == 401
    gone = await office.token(person="cleo")
    directory.become(Directory([one for one in office.decider.directory if one.id != "cleo"]))
    assert (await office.holding(gone).get("me")).status_code == 401
    with pytest.raises(TokenNotFound, match="signoff tokens list"):
        await tokens.revoke(office.decider.ledger, long.split("_")[1], by="test")


async def test_a_token_is_not_inherited_with_an_id(
    still_office: Office, directory: Directory
) -> None:
    """A token acts for the person of its address, and for nobody who gets the same id later."""
    office = still_office
    bound = await office.token(person="cleo", address=CLEO.email)
    earlier = await office.token(person="cleo")
    moved = CLEO.model_copy(update={"email": "c.lane@corp.example", "aliases": (CLEO.email,)})
    other = CLEO.model_copy(update={"email": "cleo.other@corp.example", "aliases": ()})
    for person, expected in ((CLEO, 200), (moved, 200), (other, 401)):
        everybody = [one for one in office.decider.directory if one.id != "cleo"]
        directory.become(Directory([*everybody, person]))
        assert (await office.holding(bound).get("me")).status_code == expected
        assert (await office.holding(earlier).get("me")).status_code == 200


async def test_the_ledger_and_the_audit_know_no_secret(office: Office) -> None:
    """The ledger only has hashes, and the audit names the creator of each token."""
    token = await office.token(person="mara", name="laptop")
    assert token.rsplit("_", 1)[1] not in await text_in(office.decider.ledger)
    store = office.decider.ledger.store
    async with store.translated_client() as client:
        ((_, fields),) = await client.xrange(f"{store.prefix}audit", "-", "+", count=10)
    event = Event.model_validate_json(fields["e"])
    assert (event.what, event.by, event.more["person"]) == ("token_created", "test", "mara")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"scopes": {Scope.APPROVALS_DECIDE}}, "needs a person"),
        ({"scopes": {Scope.APPROVALS_DECIDE}, "users": ("riley",)}, "needs a person"),
        ({"scopes": {Scope.RUNS_SUBMIT}}, "needs a person, or the users"),
        ({"person": "mara", "users": ("riley",)}, "could ask and answer"),
        ({"person": "mara", "scopes": ()}, "at least 1"),
        ({"users": ("riley",), "scopes": {Scope.ADMIN, Scope.RUNS_SUBMIT}}, "who decides"),
        ({"person": "riley", "scopes": {Scope.ADMIN, Scope.RUNS_SUBMIT}}, "who decides"),
        ({"users": ("riley",), "scopes": {Scope.ADMIN, Scope.INSTANCES_MANAGE}}, "who decides"),
    ],
)
async def test_a_token_cannot_both_submit_and_decide(
    office: Office, parts: dict[str, Any], words: str
) -> None:
    """A token either decides as a person, or submits for users, or chooses who decides."""
    with pytest.raises(InvalidToken, match=words):
        await office.token(**parts)


@pytest.mark.parametrize("scope", sorted({*Scope} - {Scope.REQUESTS_SUBMIT}))
async def test_a_request_without_its_scope_gets_403(office: Office, scope: Scope) -> None:
    """Without its scope a request gets 403, with the name of the scope."""
    _, (approval,) = await paused(office.decider.ledger)
    person = await office.holder(person="mara", scopes={scope})
    one, wrong = f"approvals/{approval.id}", "sha256:" + "0" * 64
    requests = {
        Scope.RUNS_SUBMIT: ("POST", "runs", {"app": "finance", "message": "x"}),
        Scope.RUNS_READ: ("GET", "runs", None),
        Scope.APPROVALS_READ: ("GET", one, None),
        Scope.APPROVALS_DECIDE: ("POST", f"{one}/approve", {"digest": wrong}),
        Scope.APPROVALS_WITHDRAW: ("POST", f"{one}/withdraw", {"reason": "x"}),
        Scope.AUDIT_READ: ("GET", "audit", None),
    }
    reach = (
        {scope}
        if scope is not Scope.ADMIN
        else {*requests}
        - {
            Scope.RUNS_SUBMIT,
            Scope.APPROVALS_DECIDE,
        }
    )
    for needed, (method, path, body) in requests.items():
        answer = await person.request(method, path, json=body)
        refused = answer.status_code == 403 and answer.json()["type"].endswith(":scope")
        assert refused is (needed not in reach), (needed, answer.text)
        if refused:
            assert needed.value in answer.json()["detail"]


async def test_invisible_requests_get_the_response_for_unknown_ids(
    office: Office, mara: httpx.AsyncClient, riley: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    """Requests for other people's approvals and runs get the response for unknown ids."""
    run, (approval,) = await paused(office.decider.ledger)
    stranger = await office.holder(users=("sam",))
    other_app = await office.holder(person="mara", apps=("travel",))
    for kind, name in (("approvals", approval.id), ("runs", run.id)):
        assert (await admin.get(f"{kind}/{name}")).status_code == 200
        assert (await riley.get(f"{kind}/{name}")).status_code == 200
        for client in (stranger, other_app):
            seen = await client.get(f"{kind}/{name}")
            none = await client.get(f"{kind}/{name[:-1]}9")
            assert seen.status_code == none.status_code == 404
            assert seen.text.replace(name, "") == none.text.replace(f"{name[:-1]}9", "")
            assert (await client.get(kind)).json() == {"items": [], "next": None}
    assert (await mara.get(f"approvals/{approval.id}")).status_code == 200
    assert (await mara.get(f"runs/{run.id}")).status_code == 404
    for verb, body in (("approve", {"digest": approval.digest}), ("withdraw", {"reason": "x"})):
        path = f"approvals/{approval.id}/{verb}"
        client = other_app if verb == "approve" else stranger
        assert (await client.post(path, json=body)).status_code == 404
    assert (await office.decider.ledger.approval(approval.id)).state == "pending"


async def test_a_body_over_the_limit_is_not_read_into_anything(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """More than 1 MiB is refused, with or without a declared length; so is a body without JSON."""
    large = b'{"message": "' + b"x" * 1024 * 1024 + b'"}'

    async def chunks() -> AsyncIterator[bytes]:
        for at in range(0, len(large), 65536):
            yield large[at : at + 65536]

    kind = {"Content-Type": "application/json"}
    for content in (large, chunks()):
        assert (await mara.post("runs", content=content, headers=kind)).status_code == 413
    deep = b"[" * 100_000
    for bad in (b"{", b"\xff", b'{"a": NaN}', rb'{"message": "\ud800"}', deep, b"1" * 10_000):
        answer = await mara.post("runs", content=bad, headers=kind)
        assert (answer.status_code, answer.json()["title"]) == (400, "The body is not JSON")
    assert (await mara.post("runs", content=b"a=1")).status_code == 415


async def test_operators_manage_and_auditors_read_everything(
    office: Office, directory: Directory
) -> None:
    """Both see everything with their own tokens; they do not decide, and the auditor only reads."""
    roles = {"mara": (Role.OPERATOR,), "riley": (Role.OPERATOR,), "ada": (Role.AUDITOR,)}
    ada = Person(id="ada", email="ada@example.com")
    directory.become(
        Directory(
            one.model_copy(update={"roles": roles.get(one.id, ())})
            for one in [*office.decider.directory, ada]
        )
    )
    _, (approval, own) = await paused(office.decider.ledger, siblings=2, asked=(CLEO,))
    one = f"approvals/{approval.id}"
    operator, auditor = await office.holder(person="mara"), await office.holder(person="ada")
    for client in (operator, auditor):
        assert (await client.get(one)).status_code == 200
        assert {row["name"] for row in (await client.get("queues")).json()} == {"all", "cleo"}
        answer = await client.post(f"{one}/approve", json={"digest": approval.digest})
        assert answer.status_code == 403, answer.text
    moves = {
        "extend": {"by": "1h", "reason": "x"},
        "reassign": {"of": "cleo", "to": "mara", "reason": "x"},
        "comment": {"text": "x"},
        "withdraw": {"reason": "x"},
    }
    for verb, body in moves.items():
        assert (await auditor.post(f"{one}/{verb}", json=body)).status_code == 403
    moves["reassign"]["to"] = "ada"
    for verb, body in moves.items():
        answer = await operator.post(f"{one}/{verb}", json=body)
        assert answer.status_code == 200, answer.text
    made = [line for line in await office.decider.ledger.history(approval.id) if line.by == "mara"]
    assert made.pop(0).what.value == "refused_answer"
    assert [line.what.value for line in made] == [
        "extended",
        "reassigned",
        "commented",
        "withdrawn",
    ]
    assert {line.more["role"] for line in made} == {"operator"}
    riley = await office.holder(person="riley")
    refused = await riley.post(f"approvals/{own.id}/extend", json={"by": "1h", "reason": "x"})
    assert refused.status_code == 403
