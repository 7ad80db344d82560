"""Clicks over HTTP: Slack posts them with a signature.

https://docs.slack.dev/authentication/verifying-requests-from-slack
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import parse_qs

import structlog
from slack_sdk.signature import SignatureVerifier
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router

from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.web.problems import Problem, read_body
from signoff.core.base.errors import LedgerError, SlackDeferred, SlackPayloadUnreadable

log = structlog.get_logger(__name__)

PATH: Final = "/slack/interactions"
LARGEST: Final = 1 << 20


def make_slack_router(settings: SlackSettings, handler: SlackHandler) -> Router:
    """Return a router with the route for Slack's posts; it is empty without a signing secret.

    ``POST /slack/interactions`` answers 200 when the click is in the ledger, and 503 when it could
    not be committed: Slack then shows the person that it failed.
    """
    router = Router()
    secret = settings.signing_secret.get_secret_value()
    if not secret:
        return router
    verifier = SignatureVerifier(secret)

    async def interactions(request: Request) -> Response:
        try:
            body = await read_body(request, LARGEST)
            ack = await handler.handle(_payload(verifier, request, body))
        except Problem as problem:
            peer = request.client.host if request.client else ""
            log.info("slack.refused", kind=problem.kind, peer=peer)
            return problem.response()
        except SlackPayloadUnreadable as error:
            return Problem(422, "invalid", "The payload cannot be read", str(error)).response()
        except (LedgerError, SlackDeferred) as error:
            log.warning("slack.not_recorded", problem=str(error))
            words = "Nothing was recorded: press it again."
            return Problem(503, "unavailable", "Signoff cannot record it now", words).response()
        return Response(status_code=200) if ack is None else JSONResponse(ack)

    router.add_route(PATH, interactions, methods=["POST"])
    return router


def _payload(verifier: SignatureVerifier, request: Request, body: bytes) -> dict[str, Any]:
    """Return the payload of a request.

    Raises:
        Problem: Slack did not sign it, the signature is over five minutes old, or it is not a
            payload.
    """
    headers = {name: request.headers.get(name, "") for name in _SIGNED}
    try:
        genuine = verifier.is_valid_request(body, headers)
    except (ValueError, TypeError, OverflowError):
        # The SDK reads the timestamp as a number, the body as UTF-8 and the signature as ASCII.
        genuine = False
    if not genuine:
        words = "X-Slack-Signature does not match the body, or its timestamp is over 5 minutes off."
        raise Problem(401, "not-signed", "The request is not signed by Slack", words)
    try:
        (text,) = parse_qs(body.decode(), max_num_fields=10)["payload"]
        payload = json.loads(text)
    except (ValueError, KeyError, RecursionError) as error:
        words = "Send a form with one field, payload, that contains JSON."
        raise Problem(422, "invalid", "The body is not an interaction from Slack", words) from error
    if not isinstance(payload, dict):
        raise Problem(422, "invalid", "The payload is not an object", "Send a JSON object.")
    return payload


_SIGNED: Final = ("x-slack-signature", "x-slack-request-timestamp")
