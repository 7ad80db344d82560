"""A small OpenID Connect provider over real HTTP; a test can make its answers false."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey

CLIENT, SECRET = "signoff", "a secret: with%20odd+characters"

Token = Callable[[dict[str, Any]], str]
"""Makes an ID token from its claims."""


@dataclass
class Provider:
    """Signs in everybody as `person` and answers correctly, unless a field changes that.

    Attributes:
        issuer: Its name for itself.
        person: Claims about the person who signs in.
        lies: Claims that replace the correct ones; None removes one.
        about: Metadata that replaces the correct values; None removes one.
        nulls: Metadata that is null.
        published: The keys that it publishes instead of its own.
        sign: Makes the ID tokens, instead of `signed`.
        token: The response of the token endpoint instead of the correct one: status and JSON.
        userinfo: The response of the userinfo endpoint.
        refuses: The error with which it sends people back, "" for none.
        asked: The requested paths.
    """

    issuer: str = ""
    now: Callable[[], float] = time.time
    person: dict[str, Any] = field(default_factory=dict)
    lies: dict[str, Any] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    nulls: tuple[str, ...] = ()
    published: list[Any] | None = None
    sign: Token | None = None
    token: tuple[int, Any] | None = None
    userinfo: dict[str, Any] = field(default_factory=dict)
    refuses: str = ""
    asked: list[str] = field(default_factory=list)
    key: ECKey = field(default_factory=lambda: _key("first"))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def rotate(self) -> None:
        """Sign with another key from now on, and publish only that key."""
        self.key = _key(secrets.token_hex(4))

    def signed(self, claims: dict[str, Any]) -> str:
        """Return an ID token."""
        return jwt.encode({"alg": "ES256", "kid": self.key.kid}, claims, self.key)

    def metadata(self) -> dict[str, Any]:
        """Return its metadata (OpenID Connect Discovery 1.0, section 3)."""
        right = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/jwks",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "response_types_supported": ["code"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "authorization_response_iss_parameter_supported": True,
        }
        known = {name: one for name, one in (right | self.about).items() if one is not None}
        return known | dict.fromkeys(self.nulls)

    def authorize(self, query: dict[str, str]) -> str:
        """Return the address that the browser is sent back to."""
        assert query["client_id"] == CLIENT
        assert query["code_challenge_method"] == "S256"
        back = {"state": query["state"], "iss": self.issuer}
        if self.refuses:
            return f"{query['redirect_uri']}?{urlencode(back | {'error': self.refuses})}"
        code = secrets.token_hex(8)
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode(back | {'code': code})}"

    def exchange(self, form: dict[str, str], login: tuple[str, str]) -> tuple[int, Any]:
        """Exchange a code, once, for tokens if the client has the verifier and the secret."""
        query = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        client = login if login[0] else (form.get("client_id"), form.get("client_secret"))
        if client != (CLIENT, SECRET):
            return 401, {"error": "invalid_client"}
        if query is None or challenge != query["code_challenge"]:
            return 400, {"error": "invalid_grant"}
        if form["redirect_uri"] != query["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        if self.token is not None:
            return self.token
        now = int(self.now())
        claims = {
            "iss": self.issuer,
            "sub": "248289761001",
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": query["nonce"],
            **self.person,
        }
        claims = {name: one for name, one in (claims | self.lies).items() if one is not None}
        id_token = (self.sign or self.signed)(claims)
        return 200, {"access_token": "at", "token_type": "Bearer", "id_token": id_token}


def _key(kid: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig"}, private=True)


def _handler(made: Provider) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            made.asked.append(parts.path)
            match parts.path:
                case "/.well-known/openid-configuration":
                    self._json(200, made.metadata())
                case "/jwks":
                    own = [made.key.as_dict(private=False)]
                    self._json(200, {"keys": own if made.published is None else made.published})
                case "/authorize":
                    self.send_response(302)
                    self.send_header("Location", made.authorize(dict(parse_qsl(parts.query))))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                case "/userinfo" if self.headers.get("Authorization") == "Bearer at":
                    self._json(200, made.userinfo)
                case _:
                    self._json(404, {"error": "not_found"})

        def do_POST(self) -> None:
            made.asked.append(self.path)
            size = int(self.headers["Content-Length"])
            form = dict(parse_qsl(self.rfile.read(size).decode()))
            kind, _, value = self.headers.get("Authorization", "").partition(" ")
            plain = base64.b64decode(value).decode() if kind == "Basic" else ""
            user, _, password = plain.partition(":")
            self._json(*made.exchange(form, (unquote(user), unquote(password))))

        def _json(self, status: int, content: Any) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            del args

    return Handler


@contextmanager
def provider(**person: Any) -> Iterator[Provider]:
    """Run a provider on loopback that signs in this person."""
    made = Provider(person=person)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    made.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
