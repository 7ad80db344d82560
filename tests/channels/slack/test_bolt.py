"""Our messages and routes, compared with slack-bolt, the framework of Slack's examples."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.parse import urlencode

import pytest
from slack_bolt import App, BoltRequest
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.signature import Clock, SignatureVerifier

from channels.slack.office import Office, view_submission
from channels.slack.test_http import served, signed
from channels.slack.workspace import SECRET, TEAM
from signoff.channels.slack.inbound.http import PATH
from signoff.channels.slack.references import APPROVE, DETAILS, OPEN, REJECT
from signoff.channels.slack.settings import SlackSettings

Json = dict[str, Any]


class Oracle:
    """A bolt app that listens to our ids and records what it reads."""

    def __init__(self) -> None:
        self.read: list[Json] = []
        self.answer: Json = {}
        self.app = App(
            signing_secret=SECRET,
            authorize=lambda **_: AuthorizeResult(
                enterprise_id=None, team_id=TEAM, bot_token="xoxb-x", bot_id="B1", bot_user_id="U1"
            ),
            process_before_response=True,
        )
        for action in (APPROVE, REJECT, DETAILS, OPEN):
            self.app.action(action)(self._take)
        for callback in (APPROVE, REJECT):
            self.app.view(callback)(self._take)

    def _take(self, ack: Any, payload: Json) -> None:
        self.read.append(payload)
        ack(**self.answer)

    async def dispatch(self, payload: Json, headers: Json | None = None) -> Any:
        """Dispatch a payload as Slack posts it, and return the answer."""
        body = urlencode({"payload": json.dumps(payload)})
        request = BoltRequest(body=body, headers=signed(body) if headers is None else headers)
        return await asyncio.to_thread(self.app.dispatch, request)


@pytest.fixture
def bolt() -> Oracle:
    """Return a bolt app."""
    return Oracle()


async def test_every_button_is_an_action_of_bolts(office: Office, bolt: Oracle) -> None:
    """Bolt finds a listener for each button of a card and reads our value."""
    await office.open(template={"days": 0})
    values = set()
    for button in ("approve", "reject", "details"):
        click = office.click(button)
        answer = await bolt.dispatch(click)
        assert answer.status == 200, answer.body
        assert bolt.read[-1]["action_id"] == f"signoff.{button}"
        values.add(bolt.read[-1]["value"])
    assert len(values) == 1
    unknown = office.click("approve")
    unknown["actions"][0]["action_id"] = "signoff.unknown"
    assert (await bolt.dispatch(unknown)).status == 404


async def test_every_modal_is_a_view_of_bolts(office: Office, bolt: Oracle) -> None:
    """Bolt finds a listener for the submission of each modal and reads our metadata."""
    await office.open(template={"days": 0})
    for button in ("approve", "reject"):
        await office.press(button)
        view = office.workspace.views[-1]
        assert (await bolt.dispatch(view_submission(view, {}, "U0MARA"))).status == 200
        assert bolt.read[-1]["callback_id"] == f"signoff.{button}"
        assert bolt.read[-1]["private_metadata"] == view["private_metadata"]


async def test_our_responses_match_bolt(office: Office, bolt: Oracle) -> None:
    """Field errors and replaced modals have exactly the bytes of bolt."""
    await office.open(template={"days": 0})
    await office.press("approve")
    submission = view_submission(office.workspace.views[-1], {}, "U0MARA")
    errors = await office.handler.handle(submission)
    await office.press("reject")
    late = view_submission(office.workspace.views[-1], {}, "U0CLEO")
    instead = await office.handler.handle(late)
    for ours, kind in ((errors, "errors"), (instead, "update")):
        assert ours is not None
        assert ours["response_action"] == kind
        bolt.answer = ours
        answer = await bolt.dispatch(submission)
        assert json.loads(answer.body) == ours


class _At(Clock):
    def __init__(self, at: float) -> None:
        self._at = at

    def now(self) -> float:
        return self._at


def _by_bolts_own(body: str, *, at: float | None = None) -> Json:
    verifier = SignatureVerifier(SECRET, _At(at or time.time()))
    timestamp = str(int(at or time.time()))
    signature = verifier.generate_signature(timestamp=timestamp, body=body)
    return {
        "X-Slack-Request-Timestamp": timestamp,
        "X-Slack-Signature": signature,
        "Content-Type": "application/x-www-form-urlencoded",
    }


@pytest.mark.parametrize(
    ("headers", "taken"),
    [
        (_by_bolts_own, True),
        (lambda body: _by_bolts_own(body, at=time.time() - 280), True),
        (lambda body: _by_bolts_own(body, at=time.time() + 280), True),
        (lambda body: _by_bolts_own(body, at=time.time() - 320), False),
        (lambda body: _by_bolts_own(body, at=time.time() + 320), False),
        (lambda body: _by_bolts_own(body + " "), False),
        (lambda body: _by_bolts_own(body) | {"X-Slack-Signature": "v0=" + "0" * 64}, False),
        (lambda body: _by_bolts_own(body) | {"X-Slack-Signature": ""}, False),
    ],
)
async def test_our_signature_checks_match_bolt(
    office: Office, settings: SlackSettings, bolt: Oracle, headers: Any, taken: bool
) -> None:
    """Bolt and our route agree about each signature."""
    await office.open()
    payload = office.click("details")
    body = urlencode({"payload": json.dumps(payload)})
    theirs = await bolt.dispatch(payload, headers(body))
    async with served(settings, office.handler) as http:
        ours = await http.post(PATH, content=body, headers=headers(body))
    assert (theirs.status == 200, ours.status_code == 200) == (taken, taken)
    assert (theirs.status, ours.status_code) == ((200, 200) if taken else (401, 401))
