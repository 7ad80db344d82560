"""Clicks by HTTP: only signed ones count, and only stored ones are acknowledged."""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from slack_sdk.signature import SignatureVerifier

from channels.slack.office import Office
from channels.slack.workspace import SECRET
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.gateway import Gateway
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.http import PATH, make_slack_router
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.settings import SlackSettings
from signoff.core.approvals.approval import State

Json = dict[str, Any]


def served(settings: SlackSettings, handler: SlackHandler) -> httpx.AsyncClient:
    """Return a client of the route."""
    app = Gateway()
    app.include_router(make_slack_router(settings, handler))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://signoff.example")


def signed(body: str, *, at: float | None = None, secret: str = SECRET) -> Json:
    """Return the headers with which Slack signs a body."""
    timestamp = str(int(time.time() if at is None else at))
    signature = SignatureVerifier(secret).generate_signature(timestamp=timestamp, body=body)
    return {
        "X-Slack-Request-Timestamp": timestamp,
        "X-Slack-Signature": signature,
        "Content-Type": "application/x-www-form-urlencoded",
    }


async def test_signed_click_decides(office: Office, settings: SlackSettings) -> None:
    """A signed click decides, and gets an empty acknowledgement."""
    approval = await office.open()
    body = urlencode({"payload": json.dumps(office.click("approve"))})
    async with served(settings, office.handler) as http:
        answer = await http.post(PATH, content=body, headers=signed(body))
        again = await http.post(PATH, content=body, headers=signed(body))
    assert (answer.status_code, answer.content) == (200, b"")
    assert again.status_code == 200
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_errors_of_a_modal_are_the_answer(office: Office, settings: SlackSettings) -> None:
    """The answer to the submission contains the errors of its fields."""
    await office.open(template={"days": 0})
    await office.press("approve")
    from channels.slack.office import view_submission

    sent = view_submission(office.workspace.views[-1], {}, "U0MARA")
    body = urlencode({"payload": json.dumps(sent)})
    async with served(settings, office.handler) as http:
        answer = await http.post(PATH, content=body, headers=signed(body))
    assert answer.json()["response_action"] == "errors"
    assert list(answer.json()["errors"]) == ["field.0"]


@pytest.mark.parametrize(
    "headers",
    [
        lambda body: {},
        lambda body: signed(body, secret="another"),
        lambda body: signed(body, at=time.time() - 400),
        lambda body: signed(body, at=time.time() + 400),
        lambda body: signed(body) | {"X-Slack-Request-Timestamp": "junk"},
        lambda body: signed(body) | {"X-Slack-Request-Timestamp": ""},
        lambda body: signed(body) | {"X-Slack-Request-Timestamp": "9" * 400},
        lambda body: signed(body) | {"X-Slack-Signature": "v0=" + "0" * 64},
        lambda body: signed(body) | {"X-Slack-Signature": "v1=" + "é" * 3},
        lambda body: signed(body + " "),
    ],
    ids=["none", "other", "old", "ahead", "junk", "empty", "huge", "zeros", "odd", "body"],
)
async def test_invalid_signature_or_timestamp_gets_401(
    office: Office, settings: SlackSettings, headers: Any
) -> None:
    """An invalid signature or timestamp gets 401, and nothing happens."""
    approval = await office.open()
    body = urlencode({"payload": json.dumps(office.click("approve"))})
    made = {name: value.encode() for name, value in headers(body).items()}
    async with served(settings, office.handler) as http:
        answer = await http.post(PATH, content=body, headers=made)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 422),
        ("payload=", 422),
        ("payload=%7B", 422),
        ("payload=3", 422),
        ("payload=%7B%7D&payload=%7B%7D", 422),
        ("payload=" + "%5B" * 100_000, 422),
        ("payload=" + "x" * (1 << 20), 413),
        ("&".join(f"a{number}=1" for number in range(100)), 422),
        ("payload=" + json.dumps({"type": "block_actions"}), 422),
        ("payload=" + json.dumps({"type": "view_closed"}), 200),
    ],
    ids=["empty", "blank", "cut", "number", "two", "deep", "large", "many", "wrong", "closed"],
)
async def test_bad_bodies_have_an_answer(
    office: Office, settings: SlackSettings, body: str, status: int
) -> None:
    """An invalid body, signed or not, gets a problem document."""
    async with served(settings, office.handler) as http:
        answer = await http.post(PATH, content=body, headers=signed(body))
    assert answer.status_code == status


async def test_click_is_not_acknowledged_while_redis_is_unavailable(
    office: Office, settings: SlackSettings
) -> None:
    """If Redis is unavailable, the click is not acknowledged, so the person sees the failure."""
    await office.open()
    body = urlencode({"payload": json.dumps(office.click("approve"))})
    away = Ledger(Store.open("redis://127.0.0.1:1/0"))
    decider = Decider(away, office.directory)
    handler = SlackHandler(decider, office.web, Identities(office.web, office.directory))
    async with served(settings, handler) as http:
        answer = await http.post(PATH, content=body, headers=signed(body))
    await away.close()
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


async def test_route_is_not_served_without_a_signing_secret(
    office: Office, settings: SlackSettings
) -> None:
    """A route that could not check signatures is not served."""
    without = settings.model_copy(update={"signing_secret": type(settings.app_token)("")})
    async with served(without, office.handler) as http:
        answer = await http.post(PATH, content="payload=", headers=signed("payload="))
    assert answer.status_code == 404
