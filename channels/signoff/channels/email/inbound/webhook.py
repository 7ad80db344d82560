"""Incoming mail over HTTP: a provider posts the raw message with a signature."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import Message

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.stored import UNKNOWN_PEER, mail_id, store
from signoff.channels.email.parsing.mime import LARGEST_HEADERS, LARGEST_MAIL
from signoff.channels.email.settings import WebhookSettings
from signoff.channels.web.problems import Problem, read_beginning, read_body, too_large
from signoff.channels.web.signatures import (
    WINDOW,
    SignatureCheck,
    Signed,
    is_timely,
    mailgun,
    standard,
)
from signoff.core.base.errors import LedgerUnavailable

log = structlog.get_logger(__name__)

PATH: Final = "/inbound/mail"
MAILGUN_PATH: Final = "/inbound/mail/mailgun"

REMEMBERED: Final = 3 * WINDOW
"""How long the id of a webhook is remembered: longer than its signature is valid."""

_FORM_OVERHEAD: Final = 3
"""A form may encode each byte as three (``%0A``)."""

_MOST_FIELDS: Final = 100
_TOO_LARGE: Final = 413
_END_OF_HEADER: Final = re.compile(rb"\r?\n\r?\n")


def make_mail_router(settings: WebhookSettings, ledger: Ledger) -> Router:
    """Return the routes for providers that post mail; without secrets there are none.

    ``POST /inbound/mail`` takes a raw message with a Standard Webhooks signature. ``POST
    /inbound/mail/mailgun`` takes the form that a Mailgun route posts to an address that ends in
    ``mime``. Both answer 200 only after the mail is stored.
    """
    webhook = _Webhook(settings, ledger)
    router = Router()
    if settings.secrets:
        router.add_route(PATH, webhook.standard, methods=["POST"])
    if settings.mailgun_secrets:
        for path in (MAILGUN_PATH, MAILGUN_PATH + "/mime"):
            router.add_route(path, webhook.mailgun, methods=["POST"])
    return router


class _Webhook:
    def __init__(self, settings: WebhookSettings, ledger: Ledger) -> None:
        self._settings = settings
        self._ledger = ledger

    async def standard(self, request: Request) -> Response:
        """Take the body as the mail."""
        try:
            signed = standard(request.headers)
            check = SignatureCheck(signed, self._settings.keys) if signed is not None else None
            each = check.update if check is not None else len
            raw, size = await read_beginning(request, LARGEST_MAIL, each)
            names = "webhook-id, webhook-timestamp, webhook-signature"
            await self._store(signed, check, raw, names, size=size)
        except Problem as problem:
            return _refused(request, problem)
        return _taken()

    async def mailgun(self, request: Request) -> Response:
        """Take the field ``body-mime`` of a form as the mail."""
        try:
            body = await read_body(request, LARGEST_MAIL * _FORM_OVERHEAD)
            fields = await _fields(request, body)
            signed = mailgun(fields)
            check = SignatureCheck(signed, self._settings.mailgun_keys) if signed else None
            raw = fields.get("body-mime", "").encode("utf-8", "surrogateescape")
            await self._store(
                signed,
                check,
                raw,
                "token, timestamp, signature",
                size=len(raw),
                sender=fields.get("sender"),
                recipients=fields.get("recipient", "").split(",")[:20],
            )
        except Problem as problem:
            return _refused(request, problem)
        return _taken()

    async def _store(
        self,
        signed: Signed | None,
        check: SignatureCheck | None,
        raw: bytes,
        names: str,
        *,
        size: int,
        sender: str | None = None,
        recipients: Sequence[str] = (),
    ) -> None:
        """Store a mail, if it is signed, recent, and not known yet.

        Of one that is too large only the header is stored, so that its author is told: a provider
        that is refused tells nobody.

        Raises:
            Problem: A check failed, or the mail cannot be stored now.
        """
        is_cut = size > LARGEST_MAIL
        if signed is None or check is None or not check.fits:
            if is_cut:
                raise too_large(LARGEST_MAIL)
            detail = f"The signature in {names} does not match a configured secret."
            raise Problem(401, "not-signed", "The request is not signed", detail)
        if not raw.strip():
            detail = "The body is empty; send a raw message (RFC 5322)."
            raise Problem(422, "invalid", "There is no mail in it", detail)
        raw = _head(raw) if is_cut else raw
        recipients = [one.strip() for one in recipients if one.strip()]
        key = f"webhook:{hashlib.sha256(signed.id.encode()).hexdigest()[:32]}"
        same = mail_id(raw, sender=sender, recipients=recipients)
        try:
            (before,), now = await self._ledger.store.read_now([key])
            _require_timely(signed, now)
            if before is None:
                also = Change().put_raw(key, same, ttl=REMEMBERED)
                new = await store(
                    self._ledger,
                    raw,
                    sender=sender,
                    recipients=recipients,
                    # The signature proves the poster, but not the topmost fields of the mail.
                    peer="" if self._settings.results else UNKNOWN_PEER,
                    also=also,
                    is_cut=is_cut,
                )
                if not new:
                    before = await self._ledger.raw(key)
        except LedgerUnavailable as error:
            log.warning("mail.deferred", at="webhook", error=str(error))
            detail = "The mail is not stored: send it again."
            raise Problem(503, "unavailable", "Signoff cannot reach its Redis", detail) from error
        if before is not None and before[1] != same:
            detail = "Another mail had this id. Give each mail an id of its own."
            raise Problem(409, "id-used", "The id was used before", detail)
        log.info("mail.stored" if before is None else "mail.known", by="webhook", size=size)


def _head(raw: bytes) -> bytes:
    """Return the header of a mail."""
    end = _END_OF_HEADER.search(raw)
    return raw[: end.end()] if end is not None else raw[:LARGEST_HEADERS]


async def _fields(request: Request, body: bytes) -> Mapping[str, str]:
    """Return the text fields of a form.

    Raises:
        Problem: It is not a form.
    """

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        form = await Request(request.scope, receive).form(
            max_files=0, max_fields=_MOST_FIELDS, max_part_size=len(body) + 1
        )
    except (HTTPException, MultiPartException, ValueError, LookupError) as error:
        raise Problem(
            422, "invalid", "The body is not a form", "Send the form of a Mailgun route."
        ) from error
    return {name: value for name, value in form.items() if not isinstance(value, UploadFile)}


def _refused(request: Request, problem: Problem) -> Response:
    peer = request.client.host if request.client else ""
    level = log.warning if problem.status == _TOO_LARGE else log.info
    level("mail.webhook_refused", peer=peer, kind=problem.kind)
    return problem.response()


def _taken() -> Response:
    return JSONResponse({"status": "stored"})


def _require_timely(signed: Signed, now: datetime) -> None:
    if not is_timely(signed, now):
        raise Problem(
            401,
            "not-timely",
            "The request is too old",
            f"Its timestamp is {signed.timestamp[:20]!r}, and the time is "
            f"{int(now.timestamp())}; they may differ by {WINDOW // timedelta(minutes=1)} minutes. "
            "Compare the clocks.",
        )
