"""A small issuer of OAuth tokens over real HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from dovecot import jwt

Answer = Callable[[dict[str, str]], tuple[int, Any]]


@dataclass
class Issuer:
    """Issues tokens for one mailbox, as `answer` says, and remembers the requests.

    Attributes:
        mailbox: The mailbox that the tokens are for.
        url: The address of the issuer.
        asked: The forms that were posted.
        answer: Returns status and JSON (or bytes) for a form.
    """

    mailbox: str
    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    answer: Answer | None = None

    def good(self, form: dict[str, str] | None = None, **more: Any) -> tuple[int, Any]:
        """Issue a token that is valid for an hour."""
        del form
        token = jwt(self.mailbox, expires=time.time() + 3600)
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": 3600} | more

    def expired(self, form: dict[str, str] | None = None) -> tuple[int, Any]:
        """Issue a token that expired an hour ago, and claim that it is valid."""
        del form
        return 200, {
            "access_token": jwt(self.mailbox, expires=time.time() - 3600),
            "expires_in": 3600,
        }


@contextmanager
def issuer(mailbox: str) -> Iterator[Issuer]:
    """Run an issuer on loopback."""
    made = Issuer(mailbox)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            form = dict(parse_qsl(self.rfile.read(size).decode()))
            made.asked.append(form)
            status, content = (made.answer or made.good)(form)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            del args

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}/token"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
