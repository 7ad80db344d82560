"""The pages: templates rendered on the server, with nothing from elsewhere.

All of them work without scripts. Where there are scripts, they are files of this package.
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
    # With no-referrer, which the gateway says elsewhere, browsers send forms with `Origin: null`.
    "Referrer-Policy": "same-origin",
}

_TEMPLATES: Final = Environment(
    loader=PackageLoader("signoff.channels.inbox"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


class Live(NamedTuple):
    """What a page listens for, so as to fetch a part of itself anew when it changes.

    Attributes:
        part: The id of the element that is fetched anew.
        now: The moment for which the page holds (UTC).
        about: The id of the approval that the page is about; "" for all that the person may see.
    """

    part: str
    now: datetime
    about: str = ""

    @property
    def since(self) -> str:
        """The entry of the audit behind which something is new: its ids begin with the time."""
        return f"{to_ms(self.now) - 1}-0"


_TYPES: Final = {
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class _Asset:
    """A file beside the pages."""

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
        *("notify.js", "worker.js", "manifest.webmanifest", "icon.svg"),
    )
}

ASSETS: Final = tuple(_ASSETS)
"""The names of the files that browsers are sent beside the pages, from ``/inbox/NAME``."""


def page(name: str, *, status: int = 200, **context: object) -> Response:
    """Return a page.

    Args:
        name: Of the template.
        status: Of HTTP.
        context: What the template shows; all of it is escaped. `here` is the path below the root
            that the navigation marks, `live` a `Live` or None.
    """
    usual = {"who": None, "session": None, "alert": "", "here": "", "live": None, "notifies": False}
    text = _TEMPLATES.get_template(f"{name}.html.j2").render({"root": ROOT, **usual, **context})
    content = text.encode("utf-8", "backslashreplace")
    return HTMLResponse(content, status_code=status, headers=_HEADERS)


def asset(request: Request, name: str) -> Response:
    """Return one of `ASSETS`, packed where the browser takes that."""
    found = _ASSETS[name]
    headers = {
        **_HEADERS,
        "Cache-Control": "max-age=3600",
        "ETag": found.tag,
        "Vary": "Accept-Encoding",
    }
    if found.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    # The same for everybody: its packed length gives nothing away.
    packs = "gzip" in request.headers.get("accept-encoding", "")
    if packs:
        headers["Content-Encoding"] = "gzip"
    content = found.packed if packs else found.content
    return Response(content, media_type=found.media_type, headers=headers)
