"""Who is let in, and as whom."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from fastapi import Request

from builders import people
from signoff.worker.adk_api.callers import Gate
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.settings import ApiToken
from worker.api.client import calls_of, site

HASH = hashlib.sha256(b"secret").hexdigest()


def request(client: str | None = "127.0.0.1", **headers: str | list[str]) -> Request:
    """Return a request as uvicorn hands it on."""
    pairs = {"host": "localhost:8080"} | {key.replace("_", "-"): it for key, it in headers.items()}
    raw = [
        (key.encode(), one.encode("latin-1"))
        for key, it in pairs.items()
        for one in ([it] if isinstance(it, str) else it)
    ]
    return Request(
        {
            "type": "http",
            "client": None if client is None else (client, 50000),
            "headers": raw,
        }
    )


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("127.0.0.1", {}),
        ("127.8.8.8", {"host": "127.0.0.1"}),
        ("::1", {"host": "[::1]:8080"}),
        ("::ffff:127.0.0.1", {"host": "LOCALHOST:80"}),
        ("127.0.0.1", {"origin": "http://localhost:8080"}),
        ("127.0.0.1", {"sec_fetch_site": "same-origin"}),
        ("127.0.0.1", {"sec_fetch_site": "none"}),
    ],
)
def test_programs_on_this_machine_come_in_without_a_token(
    client: str, headers: dict[str, str]
) -> None:
    """They may do everything, and answer as the person who is set for them."""
    caller = Gate((), people(), local_person="mara").admit(request(client, **headers))
    assert caller.may_use("finance", "anybody")
    assert caller.person is not None
    assert caller.person.id == "mara"


@pytest.mark.parametrize(
    ("client", "headers", "why"),
    [
        ("192.0.2.1", {}, "another machine"),
        (None, {}, "another machine"),
        ("::ffff:192.0.2.1", {}, "another machine"),
        ("127.0.0.1", {"x_forwarded_for": "127.0.0.1"}, "forwarded"),
        ("127.0.0.1", {"forwarded": "for=127.0.0.1"}, "forwarded"),
        ("127.0.0.1", {"host": "evil.example:8080"}, "Host"),
        ("127.0.0.1", {"host": "localhost.evil.example"}, "Host"),
        ("127.0.0.1", {"host": "127.0.0.1.nip.io"}, "Host"),
        ("127.0.0.1", {"host": ["localhost", "evil.example"]}, "Host"),
        ("127.0.0.1", {"host": []}, "Host"),
        ("127.0.0.1", {"host": ""}, "Host"),
        ("127.0.0.1", {"origin": "https://evil.example"}, "web page"),
        ("127.0.0.1", {"origin": "http://localhost:3000"}, "web page"),
        ("127.0.0.1", {"origin": "null"}, "web page"),
        ("127.0.0.1", {"sec_fetch_site": "cross-site"}, "web page"),
        ("127.0.0.1", {"sec_fetch_site": "same-site"}, "web page"),
    ],
)
def test_others_need_a_token(
    client: str | None, headers: dict[str, str | list[str]], why: str
) -> None:
    """Another machine, a proxy, another name for this one, a page in a browser."""
    with pytest.raises(Problem) as refused:
        Gate((), people(), local_person="mara").admit(request(client, **headers))
    assert (refused.value.status, refused.value.kind) == (403, "not-local")
    assert why in refused.value.detail
    assert "[[gateway.tokens]]" in refused.value.detail


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Basic secret", "secret", f"Bearer {HASH}", "Bearer Secret"],
)
def test_where_there_are_tokens_nobody_comes_in_without_one(authorization: str) -> None:
    """That holds for programs on this machine too, and the hash is no token."""
    gate = Gate((ApiToken(sha256=HASH, users=("*",)),), people(), local_person="mara")
    with pytest.raises(Problem) as refused:
        gate.admit(request(authorization=authorization))
    assert refused.value.status == 401


def test_the_holder_of_a_token_may_do_what_stands_there() -> None:
    """Users and apps are those of the token; it answers as its person, or as nobody."""
    other = hashlib.sha256(b"other").hexdigest()
    tokens = (
        ApiToken(sha256=other, users=("*",)),
        ApiToken(sha256=HASH, users=("riley",), apps=("finance",), person="mara"),
    )
    gate = Gate(tokens, people())
    caller = gate.admit(request("192.0.2.1", host="signoff.example", authorization="bearer secret"))
    assert caller.may_use("finance", "riley")
    assert not caller.may_use("finance", "kim")
    assert not caller.may_use("time_off", "riley")
    assert caller.person is not None
    assert caller.person.id == "mara"
    everybody = gate.admit(request(authorization="Bearer other"))
    assert everybody.may_use("anything", "anybody")
    assert everybody.person is None


async def test_without_a_person_an_answer_is_refused_with_the_setting_to_set(
    tmp_path: Path,
) -> None:
    """Whoever sits at this machine can run agents, and is told how to be somebody."""
    async with site(tmp_path, "worker", "gateway", gateway="adk = true") as here:
        session = await here.session("time_off")
        (call,) = calls_of(await here.say("time_off", session, "I need 5 days off"))
        refused = await here.answer("time_off", session, call, {"confirmed": False})
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:signoff:problem:nobody")
        assert "[gateway] local_person" in refused.json()["detail"]
