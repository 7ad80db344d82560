"""A subscribed browser, and a push service on this machine that keeps its messages."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from signoff.channels.inbox.vapid import decoded, encoded


class Device:
    """A browser: only it can read its push messages.

    Args:
        endpoint: The address of its push service for it.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._auth = os.urandom(16)

    @property
    def form(self) -> dict[str, str]:
        """The page's form data to turn notifications on."""
        public = self._key.public_key()
        point = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return {"endpoint": self.endpoint, "key": encoded(point), "auth": encoded(self._auth)}

    def read(self, body: bytes) -> dict[str, Any]:
        """Return a message, decrypted as browsers do (RFC 8291)."""
        text = http_ece.decrypt(body, private_key=self._key, auth_secret=self._auth)
        return dict(json.loads(text))


@dataclass
class PushService:
    """A push service (RFC 8030).

    Attributes:
        port: The port of the service.
        statuses: Its next answers by path; the default is 201.
        headers: The headers of each answer.
        got: Path, headers and body of each received message.
        together: How many messages it waits for before it answers the first.
    """

    port: int
    statuses: dict[str, list[int]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    got: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)
    together: int = 0
    _enough: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def origin(self) -> str:
        """The origin of the service."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def app(self) -> Starlette:
        """The ASGI app of the service."""
        return Starlette(routes=[Route("/{name}", self._take, methods=["POST"])])

    def device(self, name: str = "laptop") -> Device:
        """Return a subscribed browser."""
        return Device(f"{self.origin}/{name}")

    def to(self, device: Device) -> list[tuple[Mapping[str, str], dict[str, Any]]]:
        """Return headers and text of the messages to a browser."""
        path = device.endpoint.removeprefix(self.origin)
        return [(headers, device.read(body)) for at, headers, body in self.got if at == path]

    async def _take(self, request: Request) -> Response:
        path = request.url.path
        self.got.append((path, request.headers, await request.body()))
        if len(self.got) >= self.together:
            self._enough.set()
        await self._enough.wait()
        answers = self.statuses.get(path, [])
        return Response(status_code=answers.pop(0) if answers else 201, headers=self.headers)


def sender_of(headers: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the sender's public key and claims if the signature is valid (RFC 8292)."""
    scheme, _, parts = headers["authorization"].partition(" ")
    assert scheme == "vapid"
    named = dict(one.strip().split("=", 1) for one in parts.split(","))
    point = decoded(named["k"])
    key: dict[str, str | list[str]] = {
        "kty": "EC",
        "crv": "P-256",
        "x": encoded(point[1:33]),
        "y": encoded(point[33:]),
    }
    return named["k"], dict(jwt.decode(named["t"], ECKey.import_key(key), ["ES256"]).claims)
