"""`ces_requests`: the allowed targets of sandboxed code, and its limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from signoff.worker.ces import http
from signoff.worker.ces.hosts import target
from signoff.worker.ces.http import FROM, HttpRefused, check, facts, request
from signoff.worker.ces.rules import Rules

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
async def server() -> AsyncIterator[str]:
    """A loopback server that echoes, redirects, never ends, or stays silent."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split(" ")[1]
        length = next(
            (
                int(line.split(":")[1])
                for line in head.splitlines()
                if line.lower().startswith("content-length")
            ),
            0,
        )
        body = (await reader.readexactly(length)).decode()
        host = next(line for line in head.splitlines() if line.lower().startswith("host"))
        match path.partition("?")[0]:
            case "/endless":
                said = "HTTP/1.1 200 OK\r\n\r\n" + "x" * 4096
            case "/slow":
                await reader.read()
                said = ""
            case "/out":
                said = "HTTP/1.1 302 Found\r\nlocation: http://evil.example/\r\ncontent-length: 0\r\n\r\n"
            case "/metadata":
                said = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n"
            case "/around":
                said = "HTTP/1.1 307 Go\r\nlocation: /around\r\ncontent-length: 0\r\n\r\n"
            case "/moved":
                said = "HTTP/1.1 303 See\r\nlocation: /echo\r\ncontent-length: 0\r\n\r\n"
            case "/kept":
                said = "HTTP/1.1 307 Keep\r\nlocation: /echo?kept\r\ncontent-length: 0\r\n\r\n"
            case "/odd":
                said = f"HTTP/1.1 200 OK\r\ncontent-type: text/plain; charset={path[5:]}\r\ncontent-length: 2\r\n\r\nhi"
            case "/missing":
                said = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
            case _:
                text = f"{head.splitlines()[0]}|{host}|{body}"
                said = f"HTTP/1.1 200 OK\r\ncontent-length: {len(text)}\r\n\r\n{text}"
        writer.write(said.encode())
        await writer.drain()
        writer.close()

    running = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]
    async with running:
        yield f"127.0.0.1:{port}"


async def follow(rules: Rules, asked: dict[str, Any]) -> dict[str, Any]:
    """Make a request as the host of code does, without a waiting call."""
    check(asked)
    while "onwards" in (answer := await request(rules, asked)):
        asked = answer["onwards"]
    return answer


def rules(server: str, **more: Any) -> Rules:
    """Return rules that allow the server, although its address is private."""
    return Rules(internal_hosts=(server,), **more)


async def test_request_is_sent_and_its_response_returned(server: str) -> None:
    """Parameters, JSON and text arrive; text, status and reason come back."""
    asked = {"method": "POST", "url": f"http://{server}/echo", "params": {"a": 1}, "json": {"b": 2}}
    answer = await follow(rules(server), asked)
    assert answer["status_code"] == 200
    assert answer["reason"] == "OK"
    assert answer["text"] == f'POST /echo?a=1 HTTP/1.1|host: {server}|{{"b":2}}'.replace(
        "host", answer["text"].split("|")[1].split(":")[0]
    )


@pytest.mark.parametrize(
    ("query", "params", "sent"),
    [
        ("?to=anna", {"amount": 5}, "?to=anna&amount=5"),
        ("?to=anna", {}, "?to=anna"),
        ("?to=anna", {"to": "tom"}, "?to=anna&to=tom"),
        ("?to=a%2Bb", {"q": "c d"}, "?to=a%2Bb&q=c+d"),
        ("", {"to": ["anna", "tom"]}, "?to=anna&to=tom"),
    ],
)
async def test_parameters_do_not_replace_those_of_the_url(
    server: str, query: str, params: dict[str, Any], sent: str
) -> None:
    """The approver sees the URL and the parameters, so both are sent."""
    asked = {"method": "POST", "url": f"http://{server}/echo{query}", "params": params}
    assert facts(asked)["url"] == f"http://{server}/echo{query}"
    assert (await follow(rules(server), asked))["text"].startswith(f"POST /echo{sent} HTTP")


@pytest.mark.parametrize("charset", ["rot13", "idna", "undefined", "hex", "no-such-one"])
async def test_a_charset_that_decodes_no_bytes_is_read_as_utf_8(server: str, charset: str) -> None:
    """A server may name any charset; the request was made, and its answer is not lost."""
    answer = await follow(rules(server), {"method": "GET", "url": f"http://{server}/odd?{charset}"})
    assert (answer["status_code"], answer["text"]) == (200, "hi")


@pytest.mark.parametrize("seconds", ["soon", -1, 0, float("nan"), True, [1]])
async def test_a_timeout_is_a_number_of_seconds(server: str, seconds: object) -> None:
    """Other values are refused before the request counts as begun; `nan` would stop all timers."""
    asked = {"method": "GET", "url": f"http://{server}/echo", "timeout": seconds}
    with pytest.raises(HttpRefused, match="timeout of a request is a number of seconds"):
        check(asked)


async def test_data_is_a_form_or_text(server: str) -> None:
    """A dictionary is sent as a form, and text unchanged."""
    asked = {"method": "PUT", "url": f"http://{server}/echo", "data": {"a": "b c"}}
    assert (await follow(rules(server), asked))["text"].endswith("|a=b+c")
    assert (await follow(rules(server), {**asked, "data": '{"x"'}))["text"].endswith('|{"x"')


async def test_an_error_status_is_an_answer(server: str) -> None:
    """A 404 is a response; an exception needs a call in the code."""
    asked = {"method": "GET", "url": f"http://{server}/missing"}
    assert await follow(rules(server), asked) == {
        "text": "",
        "status_code": 404,
        "reason": "Not Found",
    }


async def test_a_redirect_is_followed_under_the_same_rules(server: str) -> None:
    """303 becomes a GET of the target; a redirect to another host is refused."""
    moved = {"method": "POST", "url": f"http://{server}/moved", "json": {}}
    assert (await follow(rules(server), moved))["text"].startswith("GET /echo")
    for path, words in [
        ("out", "evil.example is not an allowed host"),
        ("metadata", "not an allowed host"),
        ("around", "redirects more than"),
    ]:
        with pytest.raises(HttpRefused, match=words):
            await follow(rules(server), {"method": "GET", "url": f"http://{server}/{path}"})
    kept = {"method": "GET", "url": f"http://{server}/out", "allow_redirects": False}
    assert (await follow(rules(server), kept))["status_code"] == 302


async def test_a_redirect_to_a_private_address_of_an_allowed_host_is_refused(server: str) -> None:
    """A host that is allowed and has a private address is refused behind a redirect too."""
    allowed = rules(server, hosts=("169.254.169.254",))
    with pytest.raises(HttpRefused, match="private address"):
        await follow(allowed, {"method": "GET", "url": f"http://{server}/metadata"})


async def test_time_and_size_are_bounded(server: str) -> None:
    """A response that does not arrive or end is refused."""
    slow = {"method": "GET", "url": f"http://{server}/slow"}
    with pytest.raises(HttpRefused, match=r"longer than 0\.2 seconds"):
        await follow(rules(server, http_seconds=0.2), slow)
    with pytest.raises(HttpRefused, match="more than 1000 bytes"):
        await follow(
            rules(server, http_bytes=1000), {"method": "GET", "url": f"http://{server}/endless"}
        )
    large = {"method": "POST", "url": f"http://{server}/echo", "data": "x" * 2000}
    with pytest.raises(HttpRefused, match="sent more than 1000 bytes"):
        await follow(rules(server, http_bytes=1000), large)


@pytest.mark.parametrize(
    "url",
    [
        "https://other.example/",
        "http://api.example.com.evil.example/",
        "http://evil.example/@api.example.com",
        "http://user:pw@api.example.com/",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "http:///x",
        "nonsense",
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://api.example.com:22/",
        "http://0/",
        "http://127.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://api.example.com@127.0.0.1/",
        "http://api.example.com:80@127.0.0.1/",
        "http://127.0.0.1#@api.example.com/",
        "http://127.0.0.1/?@api.example.com/",
        "http://127.0.0.1\\@api.example.com/",
        "http://api.example.com\\@127.0.0.1/",
        "http://127.0.0.1%2f@api.example.com/",
        "http://api.example.com\n.evil.example/",
    ],
)
async def test_only_allowed_hosts_are_reached(url: str) -> None:
    """Only http and https to an allowed host at its default port are accepted."""
    with pytest.raises(HttpRefused):
        await follow(Rules(hosts=("api.example.com",)), {"method": "GET", "url": url})


async def test_a_name_that_resolves_to_a_private_address_is_refused() -> None:
    """The address counts, not the name."""
    with pytest.raises(HttpRefused, match="private address"):
        await follow(Rules(hosts=("localhost",)), {"method": "GET", "url": "http://localhost/"})


async def test_unsupported_request_arguments_have_clear_errors(server: str) -> None:
    """An unknown keyword, data beside json, and an unknown method have clear errors."""
    url = f"http://{server}/echo"
    refused: list[tuple[dict[str, Any], str]] = [
        ({"method": "GET", "url": url, "verify": False}, "does not take verify"),
        ({"method": "POST", "url": url, "data": "x", "json": {}}, "and not both"),
        ({"method": "TRACE", "url": url}, "needs a method: GET, HEAD, OPTIONS, DELETE"),
        ({"method": "GET", "url": url, "headers": ["x"]}, "headers of a request are a dictionary"),
        ({"method": "GET", "url": url, "cookies": {"a": 1}}, "are a dictionary of text"),
        ({"method": "GET"}, "cannot be requested"),
        ({"method": "GET", "url": url, FROM: []}, "does not take redirected_from"),
    ]
    for asked, words in refused:
        with pytest.raises(HttpRefused, match=words):
            await follow(rules(server), asked)


def test_an_approver_sees_no_secrets() -> None:
    """The displayed request has its host and no tokens."""
    asked = {
        "method": "POST",
        "url": "https://api.example.com/x",
        "headers": {"Authorization": "Bearer s", "X": "y"},
        "cookies": {"a": "b"},
    }
    assert facts(asked) == {
        "method": "POST",
        "url": "https://api.example.com/x",
        "host": "api.example.com",
        "headers": {"Authorization": "(not shown)", "X": "y"},
    }


@pytest.mark.parametrize(
    "host", ["0", "127.1", "2130706433", "0x7f000001", "[::1]", "[::ffff:7f00:1]"]
)
async def test_disguised_private_address_is_refused(host: str) -> None:
    """The resolved address counts, in any notation and with any settings."""
    allowed = Rules(hosts=(host.strip("[]"),))
    with pytest.raises(HttpRefused, match=r"private address|has no address"):
        await follow(allowed, {"method": "GET", "url": f"http://{host}/"})


async def test_name_is_resolved_once_and_the_checked_address_is_used(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is resolved once, and the checked address is used."""
    port = int(server.rpartition(":")[2])
    answers = iter(["127.0.0.1", "127.0.0.66"])
    asked = []

    async def resolve(host: str, *_: object, **__: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", (next(answers), port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    name = f"api.example.com:{port}"
    answer = await follow(
        Rules(internal_hosts=(name,)), {"method": "GET", "url": f"http://{name}/echo"}
    )
    assert f"host: {name}" in answer["text"].lower()
    assert asked == ["api.example.com"]


async def test_name_with_one_private_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that has a public and a private address is refused."""

    async def resolve(*_: object, **__: Any) -> list[Any]:
        return [(2, 1, 6, "", (one, 80)) for one in ("93.184.216.34", "10.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    with pytest.raises(HttpRefused, match="private address"):
        await follow(
            Rules(hosts=("api.example.com",)), {"method": "GET", "url": "http://api.example.com/"}
        )


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS"])
async def test_every_method_is_sent(server: str, method: str) -> None:
    """A HEAD response has no body, and an OPTIONS response has one."""
    asked = {"method": method, "url": f"http://{server}/echo"}
    answer = await follow(rules(server), asked)
    assert answer["status_code"] == 200
    assert answer["text"] == "" if method == "HEAD" else answer["text"].startswith("OPTIONS /echo")


@pytest.mark.parametrize(
    ("method", "status", "after"),
    [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("DELETE", 301, "DELETE"),
    ],
)
def test_redirect_keeps_the_method_and_the_body(method: str, status: int, after: str) -> None:
    """The method and the body are kept (RFC 9110, section 15.4)."""
    asked = {
        "method": method,
        "url": "https://a.example/x",
        "params": {"q": "1"},
        "json": {"b": 2},
        "headers": {"Authorization": "s", "Content-Type": "application/json", "X": "y"},
        "cookies": {"c": "d"},
    }
    for there, secrets in [
        ("/y", True),
        ("https://A.example.:443/y", True),
        ("http://a.example/y", False),
        ("https://a.example:8443/y", False),
        ("//b.example/y", False),
    ]:
        made = http.redirected(asked, target("https://a.example/x?q=1"), status, there)
        assert made["method"] == after
        assert ("json" in made) == (after == method)
        assert ("Content-Type" in made["headers"]) == (after == method)
        assert ("Authorization" in made["headers"]) is secrets
        assert ("cookies" in made) is secrets
        assert "params" not in made
        assert made["headers"]["X"] == "y"
        assert made[FROM] == ["https://a.example/x?q=1"]
