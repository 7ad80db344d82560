"""Reads forms, and refuses those that another site has submitted."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from signoff.channels.web.problems import Problem, read_body

if TYPE_CHECKING:
    from starlette.requests import Request

_LARGEST: Final = 64 << 10

LARGEST_SIGNED_IN: Final = 3 << 20
"""The largest form of a person who is signed in, in bytes.

A browser sends the initial values too, such as a draft of the agent, with up to twelve bytes for
each character. A proxy has to allow as much.
"""

_MOST_FIELDS: Final = 100


class BadForm(Exception):
    """The request is not a valid form of these pages; the message is for the person."""

    def __init__(self, message: str, *, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


async def read_form(request: Request, *, origin: str, largest: int = _LARGEST) -> dict[str, str]:
    """Return the fields of a form that was submitted from this origin.

    Args:
        request: A POST.
        origin: Scheme, host and port of the page, as browsers write it.
        largest: The most bytes of its body.

    Raises:
        BadForm: It comes from another origin, is too large, or is not a form.
    """
    if not _from_here(request.headers, origin):
        raise BadForm("This form was not sent by this page, so nothing was done.", status=403)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise BadForm("The request is not a form.", status=415)
    try:
        body = await read_body(request, largest)
    except Problem as problem:
        raise BadForm("The form is too large. Shorten your text.", status=413) from problem
    try:
        pairs = parse_qsl(
            body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=_MOST_FIELDS,
        )
    except ValueError as error:
        raise BadForm("The form cannot be read.") from error
    form = dict(pairs)
    if len(form) != len(pairs):
        raise BadForm("The form has a field twice.")
    return form


def require_token(form: Mapping[str, str], csrf: str) -> None:
    """Refuse a form without the token of this session.

    Raises:
        BadForm: The token is missing, or belongs to another session.
    """
    if not hmac.compare_digest(form.get("csrf", "").encode(), csrf.encode()):
        raise BadForm(
            "This form belongs to another session, so nothing was done. Load the page again.",
            status=403,
        )


def _from_here(headers: Mapping[str, str], origin: str) -> bool:
    site = headers.get("sec-fetch-site")
    if site not in {None, "same-origin"}:
        return False
    # Every browser sends at least one of the two with a form.
    sent = headers.get("origin")
    return sent == origin if sent is not None else site is not None
