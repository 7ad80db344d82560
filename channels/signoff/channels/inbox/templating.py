"""Renders the pages from templates, and serves their static files.

All pages work without scripts. They load nothing from other sites.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from datetime import datetime
from importlib.resources import files
from typing import Final, NamedTuple, Self

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from signoff.broker.ledger.store import to_ms
from signoff.channels.inbox.settings import ROOT

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; "
    "style-src 'self'; img-src 'self'; manifest-src 'self'; worker-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    # With the gateway's default of no-referrer, browsers would send forms with `Origin: null`.
    "Referrer-Policy": "same-origin",
}

_TEMPLATES: Final = Environment(
    loader=PackageLoader("signoff.channels.inbox"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    # During an upgrade the files are newer than the process.
    auto_reload=False,
)


class Live(NamedTuple):
    """The live updates of a page: it fetches a part of itself again after a change.

    Attributes:
        part: The id of the element that is fetched again.
        now: The time at which the page was rendered (UTC).
        about: The id of the page's approval; "" for all approvals that the person may see.
    """

    part: str
    now: datetime
    about: str = ""

    @property
    def since(self) -> str:
        """The stream id of the audit after which changes are new; it begins with the time."""
        return f"{to_ms(self.now) - 1}-0"


_TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class _Asset:
    """A static file."""

    content: bytes
    packed: bytes
    media_type: str
    tag: str

    @classmethod
    def read(cls, name: str) -> Self:
        content = files("signoff.channels.inbox").joinpath("static", name).read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        kind = _TYPES[name.rpartition(".")[2]]
        return cls(content, gzip.compress(content, mtime=0), kind, tag)


_ASSETS: Final = {
    name: _Asset.read(name)
    for name in (
        *("style.css", "htmx.min.js", "live.js", "passkeys.js", "shortcuts.js", "device.js"),
        "forms.js",
        *("notify.js", "worker.js", "manifest.webmanifest", "icon.svg"),
    )
}

ASSETS: Final = tuple(_ASSETS)
"""The names of the static files, served as ``/inbox/NAME``."""


def page(name: str, *, status: int = 200, **context: object) -> Response:
    """Return a page.

    Args:
        name: The template.
        status: The HTTP status.
        context: The variables of the template, which escapes them. `here` is the path below the
            root that the navigation marks, `live` a `Live` or None.
    """
    usual = {"who": None, "session": None, "alert": "", "here": "", "live": None, "notifies": False}
    text = _TEMPLATES.get_template(f"{name}.html.j2").render({"root": ROOT, **usual, **context})
    content = text.encode("utf-8", "backslashreplace")
    return HTMLResponse(content, status_code=status, headers=_HEADERS)


def asset(request: Request, name: str) -> Response:
    """Return one of `ASSETS`, compressed if the browser accepts it."""
    found = _ASSETS[name]
    headers = {
        **_HEADERS,
        "Cache-Control": "max-age=3600",
        "ETag": found.tag,
        "Vary": "Accept-Encoding",
    }
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    # Compression is safe: the file is the same for everybody.
    packs = "gzip" in request.headers.get("accept-encoding", "")
    if packs:
        headers["Content-Encoding"] = "gzip"
    content = found.packed if packs else found.content
    return Response(content, media_type=found.media_type, headers=headers)
