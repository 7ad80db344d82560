"""Invalid requests get a clear error and change nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from signoff.broker.ledger import audit
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.records import read_event
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import What
from signoff.core.base import errors
from signoff.core.base.errors import PayloadError, SignoffError
from signoff.worker.adk_api.problems import KINDS, problem_of
from worker.api.client import Site, answer_body, calls_of, events_of, site, words_of


def hashed(token: str) -> str:
    """Return the settings' form of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


TOKENS = f"""\
adk = true
[[gateway.tokens]]
name = "the app that Riley uses"
sha256 = "{hashed("app")}"
users = ["riley@example.com"]
[[gateway.tokens]]
sha256 = "{hashed("mara")}"
person = "mara"
[[gateway.tokens]]
sha256 = "{hashed("cleo")}"
person = "cleo"
[[gateway.tokens]]
sha256 = "{hashed("riley")}"
person = "riley"
users = ["riley@example.com"]
[[gateway.tokens]]
sha256 = "{hashed("kim")}"
users = ["kim@example.com"]
apps = ["finance"]
[[people]]
id = "cleo"
email = "cleo@example.com"
[[people]]
id = "riley"
email = "riley@example.com"
"""
RILEY = "riley@example.com"


def bearer(token: str) -> dict[str, str]:
    """Return the header of a token's holder; "" means no token."""
    return {"Authorization": f"Bearer {token}"} if token else {}


@dataclass
class Paused:
    """A run that waits for Mara, and the records that must not change."""

    site: Site
    session: str
    call: str
    approval: Approval

    async def state(self) -> tuple[Approval, int, int]:
        """Return the approval, its run's version, and the number of audit entries.

        Entries about other runs do not count: the plant may still tell people about those of
        earlier tests.
        """
        ledger = self.site.plant.parts.ledger
        approval = await ledger.approval(self.approval.id)
        run = await ledger.run(approval.origin.run)
        events = [read_event(text) async for _, text, _ in audit.entries(ledger.store)]
        count = sum(one is None or one.run in {"", run.id} for one in events)
        return approval, run.version, count

    async def post(
        self, body: object, token: str = "mara", path: str = "/run_sse", **more: Any
    ) -> httpx.Response:
        """Post JSON, or bytes unchanged."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **bearer(token), **more}
        return await self.site.http.post(path, content=content, headers=headers)

    def answer(self, response: object) -> dict[str, Any]:
        """Return an answer of this run."""
        return answer_body("time_off", self.session, self.call, response, RILEY)


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Return a plant whose API requires tokens."""
    async with site(tmp_path_factory.mktemp("site"), gateway=TOKENS) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def paused(here: Site) -> Paused:
    """Return a run that stays paused, whatever the tests send."""
    return await pause(here)


async def pause(here: Site) -> Paused:
    """Start a run of Riley's that asks Mara, and wait until she is asked."""
    session = await here.session("time_off", RILEY, **bearer("app"))
    (call,) = calls_of(
        await here.say("time_off", session, "I need 5 days off", RILEY, **bearer("app"))
    )
    ledger = here.plant.parts.ledger
    (run,) = await ledger.session_runs("time_off", RILEY, session)
    (waiting,) = run.waiting
    async for event in follow(ledger.store, subject=waiting):
        if event.what is What.DELIVERED:
            break
    approval = await ledger.approval(waiting)
    return Paused(here, session, call, approval)


YES = {"confirmed": True, "payload": {"approved_days": 5}}


def with_response(response: object) -> Any:
    """Build a body with this response."""
    return lambda it: it.answer(response)


def with_part(**update: object) -> Any:
    """Build a body whose function_response has other fields."""

    def build(it: Paused) -> dict[str, Any]:
        body = it.answer(YES)
        body["new_message"]["parts"][0]["function_response"] |= update
        return body

    return build


def with_top(**update: object) -> Any:
    """Build a body with other fields."""
    return lambda it: it.answer(YES) | update


def mixed(it: Paused) -> dict[str, Any]:
    """Build a message of words and an answer."""
    body = it.answer(YES)
    body["new_message"]["parts"].append({"text": "and hurry"})
    return body


def twice(it: Paused) -> dict[str, Any]:
    """Build a message that answers a call twice, differently."""
    body = it.answer(YES)
    body["new_message"]["parts"] += it.answer({"confirmed": False})["new_message"]["parts"]
    return body


def raw(text: str) -> Any:
    """Build a body of these bytes, with the response in place of RESPONSE."""

    def build(it: Paused) -> bytes:
        return text.replace("BODY", json.dumps(it.answer("RESPONSE"))).encode("utf-8", "replace")

    return build


def raw_response(text: str) -> Any:
    """Build a body whose response is this text as it stands."""
    return lambda it: json.dumps(it.answer("HERE")).replace('"HERE"', text).encode()


BAD = {
    "another call id": (with_part(id="adk-0"), 404, "not-found", "adk_request_confirmation call"),
    "the id of the tool call": (with_part(id="adk-1"), 404, "not-found", "in this session"),
    "no call id": (with_part(id=None), 422, "invalid", "exactly id, name and response"),
    "unknown name": (with_part(name="reimburse"), 400, "unknown-name", "'reimburse'"),
    "no name": (with_part(name=None), 400, "unknown-name", "adk_request_confirmation"),
    "a field of responses that means nothing here": (
        with_part(will_continue=True), 422, "invalid", "exactly id, name and response",
    ),
    "a field that ADK does not have": (with_part(extra=1), 422, "invalid", "/newMessage/parts/0"),
    "confirmed: yes": (with_response({"confirmed": "yes"}), 422, "payload", 'I read "yes"'),
    "confirmed: 1": (with_response({"confirmed": 1}), 422, "payload", "I read 1"),
    "confirmed: 1.0": (with_response({"confirmed": 1.0}), 422, "payload", "I read 1.0"),
    "confirmed: null": (with_response({"confirmed": None}), 422, "payload", "I read null"),
    "nothing confirmed": (with_response({}), 422, "payload", '"confirmed" is true or false'),
    "a comment": (with_response({**YES, "comment": "x"}), 422, "payload", '"comment"'),
    "Confirmed": (with_response({"Confirmed": True}), 422, "payload", '"Confirmed"'),
    "no values": (with_response({"confirmed": True}), 422, "payload", "approved_days"),
    "values: null": (
        with_response({"confirmed": True, "payload": None}), 422, "payload", "approved_days",
    ),
    "values that nobody chose": (
        with_response({"confirmed": True, "payload": {"approved_days": 0}}),
        422,
        "payload",
        "approved_days",
    ),
    "values of another type": (
        with_response({"confirmed": True, "payload": [5]}), 422, "payload", "a JSON object",
    ),
    "a value of another type": (
        with_response({"confirmed": True, "payload": {"approved_days": "5"}}),
        422, "payload", "a whole number",
    ),
    "a truth for a number": (
        with_response({"confirmed": True, "payload": {"approved_days": True}}),
        422, "payload", "a whole number",
    ),
    "half a day": (
        with_response({"confirmed": True, "payload": {"approved_days": 2.5}}),
        422, "payload", "a whole number",
    ),
    "too large a number": (
        with_response({"confirmed": True, "payload": {"approved_days": 2**53}}),
        422, "payload", "no larger than",
    ),
    "a value too many": (
        with_response({"confirmed": True, "payload": {"approved_days": 5, "bonus": 1}}),
        422, "payload", '"bonus" is not a field',
    ),
    "a reason that is no text": (
        with_response({"confirmed": False, "payload": {"reason": 5}}), 422, "payload", "is text",
    ),
    "a reason that is a book": (
        with_response({"confirmed": False, "payload": {"reason": "x" * 2001}}),
        422, "payload", "at most 2,000 characters",
    ),
    "a list for a response": (with_response([]), 422, "invalid", "/newMessage/parts/0"),
    "wrapped: not JSON": (with_response({"response": "{yes}"}), 400, "not-json", "line 1"),
    "wrapped: no object": (with_response({"response": "true"}), 422, "payload", "a JSON object"),
    "wrapped: yes": (
        with_response({"response": '{"confirmed": "yes"}'}), 422, "payload", 'I read "yes"',
    ),
    "wrapped: yes and no": (
        with_response({"response": '{"confirmed": true, "confirmed": false}'}),
        400, "not-json", "'confirmed' is given twice",
    ),
    "yes and no": (
        raw_response('{"confirmed": false, "confirmed": true}'), 400, "not-json", "given twice",
    ),
    "no number": (
        raw_response('{"confirmed": true, "payload": {"approved_days": NaN}}'),
        400, "not-json", "NaN is not a JSON number",
    ),
    "infinity": (
        raw_response('{"confirmed": true, "payload": {"approved_days": 1e999}}'),
        400, "not-json", "too large",
    ),
    "five thousand digits": (
        raw_response('{"confirmed": true, "payload": {"approved_days": %s}}' % ("9" * 5000)),
        400, "not-json", "digits",
    ),
    "half a letter": (
        raw_response(r'{"confirmed": true, "payload": {"approved_days": "\ud800"}}'),
        400, "not-json", "surrogates",
    ),
    "very deep": (raw_response("[" * 100_000 + "]" * 100_000), 400, "not-json", "too deeply"),
    "not JSON": (raw("BODY,"), 400, "not-json", "Extra data"),
    "cut off": (raw('{"app_name": "time_off"'), 400, "not-json", "line 1"),
    "nothing": (raw(""), 400, "not-json", "line 1"),
    "not UTF-8": (lambda it: b'{"a": "\xff"}', 400, "not-json", "utf-8"),
    "a list": (raw("[BODY]"), 422, "invalid", "not a JSON object"),
    "a megabyte": (
        with_response({"confirmed": True, "payload": {"approved_days": "x" * (1 << 20)}}),
        413, "too-large", "1,048,576 bytes",
    ),
    "words and an answer": (mixed, 400, "mixed", "two messages"),
    "yes and no to one call": (twice, 422, "invalid", "twice"),
    "another session": (with_top(session_id="other"), 404, "not-found", "in this session"),
    "another user": (with_top(user_id="kim@example.com"), 404, "not-found", "of this user"),
    "another app": (with_top(app_name="finance"), 404, "not-found", "in this app"),
    "another invocation": (with_top(invocation_id="e-0"), 422, "invalid", "another turn"),
    "no user": (with_top(user_id=None), 422, "invalid", "/user_id"),
    "state that would be lost": (with_top(state_delta={"a": 1}), 422, "invalid", "stateDelta"),
    "a key nobody knows": (with_top(confirmed=True), 422, "invalid", "/confirmed"),
    "no message": (with_top(new_message=None), 422, "invalid", "newMessage is missing"),
    "no parts": (with_top(new_message={"parts": []}), 422, "invalid", "at least one part"),
    "the model speaks": (
        with_top(new_message={"role": "model", "parts": [{"text": "x"}]}),
        422, "invalid", "'model'",
    ),
    "a picture": (
        with_top(
            new_message={"parts": [{"inlineData": {"data": "AAAA", "mimeType": "image/png"}}]}
        ),
        422, "invalid", "cannot be carried",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_is_a_problem_and_changes_nothing(paused: Paused, case: str) -> None:
    """Each has a status, a type and a message, and leaves every record unchanged."""
    build, status, kind, words = BAD[case]
    before = await paused.state()
    answer = await paused.post(build(paused))
    assert (answer.status_code, answer.headers["content-type"]) == (
        status,
        "application/problem+json",
    ), answer.text
    problem = answer.json()
    assert problem["type"] == f"urn:signoff:problem:{kind}"
    assert problem["status"] == status
    assert problem["title"]
    assert words in problem["detail"]
    if kind == "payload":
        assert set(problem) >= {"key", "read", "example"}
    # The audit may have the refused answer of an invalid value; no other entry is added.
    approval, version, count = await paused.state()
    assert (approval, version) == before[:2]
    assert before[2] <= count <= before[2] + (kind == "payload")


async def test_only_json_is_read(paused: Paused) -> None:
    """A form of a web page is refused, because browsers send it without asking."""
    before = await paused.state()
    answer = await paused.post(paused.answer(YES), **{"Content-Type": "text/plain"})
    assert answer.status_code == 415
    assert await paused.state() == before


async def test_a_body_without_an_end_is_cut_off(paused: Paused) -> None:
    """A body without a declared length is read up to the limit."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b" " * (1 << 16)

    headers = {"Content-Type": "application/json", **bearer("mara")}
    answer = await paused.site.http.post("/run_sse", content=endless(), headers=headers)
    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("token", "status", "kind", "words"),
    [
        ("", 401, "unauthenticated", "[[gateway.tokens]]"),
        ("nobody", 401, "unauthenticated", "Authorization: Bearer"),
        ("app", 403, "nobody", "`person`"),
        ("riley", 403, "own-request", "cannot decide it"),
        ("cleo", 404, "not-found", "in this session"),
        ("kim", 404, "not-found", "in this session"),
    ],
)
async def test_only_an_approver_may_answer(
    paused: Paused, token: str, status: int, kind: str, words: str
) -> None:
    """A person who may not see the session does not learn whether the call exists."""
    approval, version, _ = await paused.state()
    answer = await paused.post(paused.answer(YES), token)
    assert answer.status_code == status, answer.text
    assert answer.json()["type"] == f"urn:signoff:problem:{kind}"
    assert words in answer.json()["detail"]
    assert (await paused.state())[:2] == (approval, version)
    assert ("www-authenticate" in answer.headers) == (status == 401)


async def test_an_answer_is_single_use_and_audited(here: Site) -> None:
    """The second answer reads who decided and when, and the audit has both."""
    mine = await pause(here)
    first = await mine.post(mine.answer(YES))
    assert words_of(events_of(first)) == "You may take 5 days off."
    again = await mine.post(mine.answer({"confirmed": False}))
    assert again.status_code == 409
    assert again.json()["decided_by"] == "mara"
    assert "approved by Mara Lind, at 20" in again.json()["detail"]
    history = await here.plant.parts.ledger.history(mine.approval.id)
    assert [(one.what, one.by) for one in history if one.more.get("channel") == "api"] == [
        ("approved", "mara"),
        ("refused_answer", "mara"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "token", "status"),
    [
        ("GET", "/apps/time_off/users/riley@example.com/sessions/SESSION", "kim", 404),
        ("GET", "/apps/time_off/users/riley@example.com/sessions/none", "app", 404),
        ("GET", "/apps/time_off/users/kim@example.com/sessions/SESSION", "app", 404),
        ("DELETE", "/apps/time_off/users/riley@example.com/sessions/SESSION", "mara", 404),
        ("PATCH", "/apps/time_off/users/riley@example.com/sessions/SESSION", "mara", 404),
        ("PATCH", "/apps/time_off/users/riley@example.com/sessions/SESSION", "app", 409),
        ("GET", "/apps/time_off/users/riley@example.com/sessions", "mara", 403),
        ("POST", "/apps/time_off/users/riley@example.com/sessions", "mara", 403),
        ("POST", "/apps/time_off/users/riley@example.com/sessions/SESSION", "app", 409),
        ("GET", "/apps/nothing/users/riley@example.com/sessions", "app", 404),
        ("GET", "/apps/time_off/users/riley@example.com/sessions/x/artifacts", "app", 404),
        ("GET", "/list-apps?detailed=true", "app", 501),
        ("GET", "/list-apps", "", 401),
        ("GET", "/version", "", 401),
        ("GET", "/apps/nothing/users/riley@example.com/sessions", "", 401),
    ],
)
async def test_session_of_another_user_looks_unknown(
    paused: Paused, method: str, path: str, token: str, status: int
) -> None:
    """An unknown session and another user's session look the same."""
    path = path.replace("SESSION", paused.session)
    body = {"stateDelta": {"a": 1}} if method == "PATCH" else None
    answer = await paused.site.http.request(method, path, headers=bearer(token), json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert paused.session not in answer.text or status == 409


async def test_a_token_sees_its_own_apps(paused: Paused) -> None:
    """The list has the token's apps, and so does the error about an unknown app."""
    http = paused.site.http
    assert (await http.get("/list-apps", headers=bearer("kim"))).json() == ["finance"]
    seen = await http.get("/apps/time_off/users/kim@example.com/sessions", headers=bearer("kim"))
    assert (seen.status_code, seen.json()["apps"]) == (404, ["finance"])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"events": [{"author": "user"}]}, 422, "`events`"),
        ({"sessionId": "a/b"}, 422, "no slashes"),
        ({"sessionId": ""}, 422, "1 to 128"),
        ({"state": {"app:limit": 10**6}}, 403, "every user"),
        ({"session": "x"}, 422, "/session"),
    ],
)
async def test_session_refuses_history_and_shared_state_from_a_client(
    paused: Paused, body: dict[str, Any], status: int, words: str
) -> None:
    """A client cannot provide history, or state that applies to others."""
    path = f"/apps/time_off/users/{RILEY}/sessions"
    answer = await paused.post(body, "app", path)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


async def test_deleted_session_withdraws_its_approval(here: Site) -> None:
    """Its approval is withdrawn in the requester's name, and its run ends with the reason."""
    mine = await pause(here)
    path = f"/apps/time_off/users/{RILEY}/sessions/{mine.session}"
    assert (await here.http.delete(path, headers=bearer("app"))).status_code == 200
    approval, *_ = await mine.state()
    assert approval.state == "withdrawn"
    ends = await here.plant.ends([approval.origin.run])
    assert "gone" in ends[approval.origin.run].why
    late = await mine.post(mine.answer(YES))
    assert late.status_code == 409
    assert "withdrawn" in late.json()["detail"]


async def test_every_error_has_a_problem() -> None:
    """Every error has a suitable status."""
    ours = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, SignoffError)
    }
    assert set(KINDS) <= ours
    for kind in ours:
        if issubclass(kind, PayloadError):
            problem = problem_of(kind("no", key="a", read="b", example="c"))
            assert problem.more == {"key": "a", "read": "b", "example": "c"}
        else:
            problem = problem_of(kind.__new__(kind))
        assert (problem.status == 500) == all(one not in KINDS for one in kind.__mro__)
