"""One ADK API server: sends requests to it, and translates its failures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import httpx

from signoff.core.base.errors import AppNotFound, InvalidRun, RemoteError, RemoteUnavailable
from signoff.worker.adk_remote.settings import RemoteApp
from signoff.worker.port import TRANSIENT

Show = Callable[[dict[str, Any]], Awaitable[None]]

Fate = Literal["unsent", "answered", "unknown"]

FATES: Mapping[type[Exception], tuple[Fate, bool]] = {
    httpx.ConnectError: ("unsent", True),
    httpx.ConnectTimeout: ("unsent", True),
    httpx.PoolTimeout: ("unsent", True),
    httpx.ProxyError: ("unsent", True),
    httpx.InvalidURL: ("unsent", False),
    httpx.UnsupportedProtocol: ("unsent", False),
    httpx.LocalProtocolError: ("unknown", False),
    httpx.TooManyRedirects: ("answered", False),
    httpx.DecodingError: ("unknown", False),
    httpx.HTTPError: ("unknown", True),
}
"""What each httpx error says about its request, and whether to retry. The first match counts."""

_BUSY = frozenset({408, 425, 429})
_GATEWAY = frozenset({502, 504})
"""A proxy sends these; the server behind it may still be working."""

_LOOK_TIMEOUT = 60.0
_APPS = "/list-apps"


async def _show_nobody(event: dict[str, Any]) -> None:
    del event


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """The API server of one app.

    Attributes:
        app: Our name for the app.
        remote: The settings of the server.
        client: The HTTP client.
        show: Shows each event of a turn to its watchers, as it arrives.
        streaming: Whether the model is asked to stream.
    """

    app: str
    remote: RemoteApp
    client: httpx.AsyncClient
    show: Show = _show_nobody
    streaming: bool = False

    @property
    def name(self) -> str:
        """The server's name for the app."""
        return self.remote.app_name or self.app

    async def require_app(self) -> None:
        """Require that the server has the app, unless it has no list of its apps.

        Raises:
            AppNotFound: The app is not in the server's list.
            RemoteError: The server does not return its list.
        """
        found = await self._json("GET", _APPS, may_lack=True)
        if isinstance(found, list) and self.name not in found:
            names = ", ".join(sorted(str(one) for one in found)) or "none"
            raise AppNotFound(
                f"The server at {self.remote.url} has no app {self.name!r}. It has: {names}. "
                f"Set [agents.remote.{self.app}] app_name, or url."
            )

    async def is_python(self) -> bool:
        """Return whether the server is google-adk's own, which reports its language as python."""
        found = await self._json("GET", "/version", may_lack=True)
        return isinstance(found, dict) and found.get("language") == "python"

    async def talks(self) -> bool:
        """Return whether the root agent is known to be an LlmAgent, which reads a message.

        Other agents, such as workflows, start again from their beginning with each message. A
        Python server describes only LlmAgents.
        """
        path = f"/apps/{_segment(self.name)}/app-info"
        try:
            return await self._json("GET", path, may_lack=True) is not None
        except RemoteUnavailable:
            raise
        except RemoteError:
            return False

    async def session(self, user: str, session: str) -> dict[str, Any] | None:
        """Return a session; None if it does not exist.

        Raises:
            RemoteUnavailable: The server, or a proxy before it, cannot be reached.
            RemoteError: The server does not return it.
        """
        path = self._path(user, session)
        response = await self._send("GET", path)
        if response.status_code == httpx.codes.NOT_FOUND:
            # Not every server says what it has not found. A server with a list of apps is ADK's.
            if not _is_adks(response) and await self._json("GET", _APPS, may_lack=True) is None:
                raise self._refused("GET", path, response)
            return None
        found = self._read("GET", path, response)
        if found is not None and not isinstance(found, dict):
            raise RemoteError(f"{self._where('GET', path)} is not a session.")
        return found

    async def sessions(self, user: str) -> list[dict[str, Any]]:
        """Return the sessions of a user, as the server sends them.

        Raises:
            RemoteError: The server does not return them.
        """
        path = f"/apps/{_segment(self.name)}/users/{_segment(user)}/sessions"
        found = await self._json("GET", path, may_lack=True) or []
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise RemoteError(f"{self._where('GET', path)} is not a list of sessions.")
        return found

    async def change_session(self, user: str, session: str, state: dict[str, Any]) -> None:
        """Set some keys of a session's state.

        Raises:
            RemoteError: The server refuses, or cannot do that.
        """
        await self._json("PATCH", self._path(user, session), body={"stateDelta": state})

    async def delete_session(self, user: str, session: str) -> None:
        """Delete a session; do nothing if it does not exist.

        Raises:
            RemoteError: The server refuses.
        """
        await self._json("DELETE", self._path(user, session), may_lack=True)

    async def create_session(
        self, user: str, session: str, state: dict[str, Any] | None = None
    ) -> None:
        """Create a session, unless it exists already.

        ADK has two endpoints for this. All languages have the older one, with the id in the path.

        Raises:
            RemoteError: The server refuses.
        """
        path = self._path(user, session)
        try:
            await self._json("POST", path, body=state or {})
        except RemoteError as error:
            if error.fate != "answered" or await self.session(user, session) is None:
                raise

    async def run(
        self,
        user: str,
        session: str,
        *,
        message: dict[str, Any] | None,
        state: dict[str, Any] | None = None,
        invocation: str = "",
    ) -> None:
        """Run one turn of the agent, and read the response to its end.

        The events are shown, and searched only for an error: the session is read afterwards.

        Raises:
            RemoteUnavailable: The server is away, busy or too slow.
            RemoteError: It refuses, or the agent failed; the message quotes the server.
        """
        body: dict[str, Any] = {"appName": self.name, "userId": user, "sessionId": session}
        body |= {"newMessage": message} if message else {}
        body |= {"stateDelta": state} if state else {}
        body |= {"invocationId": invocation} if invocation else {}
        body |= {"streaming": True} if self.streaming else {}
        path = f"/{self.remote.endpoint}"
        with self._translated("POST", path):
            async with self.client.stream(
                "POST",
                self.remote.url + path,
                json=body,
                headers=self._headers(),
                timeout=httpx.Timeout(self.remote.timeout, connect=10, pool=10),
            ) as response:
                if not response.is_success:
                    await response.aread()
                    raise self._refused("POST", path, response)
                if self.remote.endpoint == "run":
                    await self._show_all(await response.aread())
                    return
                async for data in stream_data(response.aiter_bytes()):
                    self._look_for_error(path, data)
                    await self._show_all(data)

    async def _show_all(self, data: bytes) -> None:
        try:
            sent = json.loads(data)
        except ValueError:
            return
        for one in sent if isinstance(sent, list) else [sent]:
            if isinstance(one, dict) and "author" in one:
                await self.show(one)

    async def _json(
        self,
        method: str,
        path: str,
        *,
        body: dict[str, Any] | None = None,
        may_lack: bool = False,
    ) -> Any:  # noqa: ANN401 -- whatever the server sends
        response = await self._send(method, path, body)
        if response.status_code == httpx.codes.NOT_FOUND and may_lack:
            return None
        return self._read(method, path, response)

    async def _send(
        self, method: str, path: str, body: dict[str, Any] | None = None
    ) -> httpx.Response:
        with self._translated(method, path):
            return await self.client.request(
                method,
                self.remote.url + path,
                json=body,
                headers=self._headers(),
                timeout=httpx.Timeout(min(_LOOK_TIMEOUT, self.remote.timeout), connect=10),
            )

    def _read(self, method: str, path: str, response: httpx.Response) -> Any:  # noqa: ANN401 -- whatever the server sends
        if not response.is_success:
            raise self._refused(method, path, response)
        if method == "DELETE":
            return None
        try:
            return response.json()
        except ValueError as error:
            raise RemoteError(
                f"{self._where(method, path)} is not JSON. Is [agents.remote.{self.app}] url that "
                "of an ADK API server?"
            ) from error

    def _headers(self) -> dict[str, str]:
        headers = {name: text.get_secret_value() for name, text in self.remote.headers.items()}
        if token := self.remote.token.get_secret_value():
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _path(self, user: str, session: str) -> str:
        parts = [_segment(one) for one in (self.name, user, session)]
        return "/apps/{}/users/{}/sessions/{}".format(*parts)

    def _where(self, method: str, path: str) -> str:
        return f"What the server of {self.app} answers to {method} {self.remote.url}{path}"

    @contextmanager
    def _translated(self, method: str, path: str) -> Iterator[None]:
        try:
            yield
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            fate, again = next(FATES[kind] for kind in FATES if isinstance(error, kind))
            said = f"{type(error).__name__}: {error}".rstrip(": ")
            message = (
                f"The server of {self.app} did not answer {method} {self.remote.url}{path}: {said}."
                f" Does it run, and is [agents.remote.{self.app}] url right?"
            )
            raise (RemoteUnavailable if again else RemoteError)(message, fate=fate) from error

    def _refused(self, method: str, path: str, response: httpx.Response) -> RemoteError:
        status = response.status_code
        message = (
            f"The server of {self.app} answers {method} {self.remote.url}{path} with {status}: "
            f"{_detail(response)}"
        )
        if status in {httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN}:
            message += f" Set [agents.remote.{self.app}] token or headers."
        if status in _BUSY or status >= httpx.codes.INTERNAL_SERVER_ERROR:
            fate: Fate = "unknown" if status in _GATEWAY else "answered"
            return RemoteUnavailable(message, fate=fate)
        if status == httpx.codes.NOT_FOUND and not _is_adks(response):
            message += f" ADK's API server does not say so. Is {self.remote.url} behind a proxy?"
            return RemoteUnavailable(message, fate="answered")
        return RemoteError(message)

    def _look_for_error(self, path: str, data: bytes) -> None:
        try:
            said = json.loads(data)
        except ValueError:
            return
        if not isinstance(said, dict) or not said.get("error") or "author" in said:
            return
        details = said.get("error_details")
        kind = str(details.get("error_type", "")) if isinstance(details, dict) else ""
        message = f"The agent {self.app} at {self.remote.url}{path} failed: {said['error']}"
        raise (RemoteUnavailable if kind in TRANSIENT else RemoteError)(message)


async def stream_data(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each server-sent event.

    Only LF and CRLF end a line: JSON may contain the other line ends of Unicode.
    """
    rest = b""
    data: list[bytes] = []
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            text = line.removesuffix(b"\r")
            if text.startswith(b"data:"):
                data.append(text.removeprefix(b"data:").removeprefix(b" "))
            elif not text and data:
                yield b"\n".join(data)
                data = []
    if rest.startswith(b"data:"):
        data.append(rest.removeprefix(b"data:").removeprefix(b" "))
    if data:
        yield b"\n".join(data)


def _is_adks(response: httpx.Response) -> bool:
    """Return whether a 404 is ADK's: JSON that names the session. A proxy sends something else."""
    try:
        body = response.json()
    except ValueError:
        return False
    said = body.values() if isinstance(body, dict) else ()
    return any("session" in one.lower() for one in said if isinstance(one, str))


def _detail(response: httpx.Response) -> str:
    """Return the text in the body of a refusal: FastAPI, Express and Spring have their own keys."""
    try:
        body = response.json()
    except ValueError:
        body = response.text
    if isinstance(body, dict):
        body = next((body[key] for key in ("detail", "error", "message") if key in body), body)
    text = body if isinstance(body, str) else json.dumps(body)
    return text[:500] or response.reason_phrase


def _segment(text: str) -> str:
    """Return a name as one segment of a path.

    Raises:
        InvalidRun: The name would change the path.
    """
    if text in {".", ".."} or "/" in text or "\\" in text:
        raise InvalidRun(
            f"{text!r} cannot be part of the path of a request to an ADK API server. Submit the "
            "run with a user and a session without slashes."
        )
    return quote(text, safe="")
