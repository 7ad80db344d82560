"""The pages: templates rendered on the server, without scripts, and with nothing from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse, Response

from signoff.channels.inbox.settings import ROOT

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
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

_STYLE: Final = files("signoff.channels.inbox").joinpath("style.css").read_bytes()


def page(name: str, *, status: int = 200, **context: object) -> Response:
    """Return a page.

    Args:
        name: Of the template.
        status: Of HTTP.
        context: What the template shows; all of it is escaped.
    """
    text = _TEMPLATES.get_template(f"{name}.html.j2").render(
        {"root": ROOT, "who": None, "session": None, "alert": "", **context}
    )
    content = text.encode("utf-8", "backslashreplace")
    return HTMLResponse(content, status_code=status, headers=_HEADERS)


def style() -> Response:
    """Return the style sheet of all pages."""
    headers = {**_HEADERS, "Cache-Control": "max-age=3600"}
    return Response(_STYLE, media_type="text/css", headers=headers)
