"""Payloads in Slack's documented forms: the parts that are read, and the optional ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from signoff.channels.slack.inbound.payloads import Click, SlackUser, ViewSubmission, read_payload
from signoff.channels.slack.references import Receipt
from signoff.core.base.errors import SlackPayloadUnreadable

Json = dict[str, Any]

BUTTON: Json = {
    "type": "button",
    "action_id": "signoff.approve",
    "block_id": "signoff.ap_1",
    "text": {"type": "plain_text", "text": "Approve", "emoji": False},
    "value": "{}",
    "style": "primary",
    "action_ts": "1763700000.123456",
}
CARD: Json = {
    "type": "block_actions",
    "user": {"id": "U0MARA", "username": "mara", "name": "mara", "team_id": "T0HOME"},
    "api_app_id": "A0APP",
    "token": "legacy",
    "container": {
        "type": "message",
        "message_ts": "1763699999.000100",
        "channel_id": "D0MARA",
        "is_ephemeral": False,
    },
    "trigger_id": "12.34.abc",
    "team": {"id": "T0HOME", "domain": "example"},
    "enterprise": None,
    "is_enterprise_install": False,
    "channel": {"id": "D0MARA", "name": "directmessage"},
    "message": {
        "bot_id": "B0BOT",
        "type": "message",
        "user": "U0BOT",
        "ts": "1763699999.000100",
        "app_id": "A0APP",
        "text": "wire",
        "team": "T0HOME",
        "blocks": [],
        "metadata": {"event_type": "signoff_card", "event_payload": {"approval": "ap_1"}},
    },
    "state": {"values": {}},
    "response_url": "https://hooks.slack.com/actions/T0HOME/1/x",
    "actions": [BUTTON],
}
MODAL: Json = {
    "type": "view_submission",
    "team": {"id": "T0HOME", "domain": "example"},
    "user": {"id": "U0MARA", "username": "mara", "name": "mara", "team_id": "T0HOME"},
    "api_app_id": "A0APP",
    "token": "legacy",
    "trigger_id": "12.34.abc",
    "view": {
        "id": "V0VIEW",
        "team_id": "T0HOME",
        "type": "modal",
        "blocks": [],
        "private_metadata": "{}",
        "callback_id": "signoff.approve",
        "state": {"values": {"field.0": {"value": {"type": "plain_text_input", "value": "3"}}}},
        "hash": "1763700000.x",
        "title": {"type": "plain_text", "text": "Approve", "emoji": False},
        "clear_on_close": False,
        "notify_on_close": False,
        "close": None,
        "submit": {"type": "plain_text", "text": "Approve", "emoji": False},
        "app_id": "A0APP",
        "external_id": "",
        "app_installed_team_id": "T0HOME",
        "bot_id": "B0BOT",
    },
    "response_urls": [],
    "is_enterprise_install": False,
    "enterprise": None,
}
ORG = {"id": "E0HOME", "name": "Example Org"}


def changed(payload: Json, **changes: Any) -> Json:
    """Return a copy with other parts; ``...`` removes one, and ``__`` separates a path."""
    made = copy.deepcopy(payload)
    for path, value in changes.items():
        *way, last = path.split("__")
        at = made
        for key in way:
            at = at[key]
        if value is ...:
            del at[last]
        else:
            at[last] = value
    return made


@pytest.mark.parametrize(
    ("payload", "actor", "message", "about"),
    [
        (CARD, SlackUser("U0MARA", "T0HOME"), Receipt("D0MARA", "1763699999.000100"), "ap_1"),
        # A user of another organisation in a shared channel.
        (
            changed(CARD, user__team_id="T0OTHER", channel__id="C0SHARED"),
            SlackUser("U0MARA", "T0OTHER"),
            Receipt("C0SHARED", "1763699999.000100"),
            "ap_1",
        ),
        # An org-wide install: a user of the organisation, with or without a team.
        (
            changed(CARD, team=None, enterprise=ORG, is_enterprise_install=True, user__id="W0MARA"),
            SlackUser("W0MARA", "T0HOME", "E0HOME"),
            Receipt("D0MARA", "1763699999.000100"),
            "ap_1",
        ),
        (
            changed(
                CARD,
                team={"id": "T0HOME", "enterprise_id": "E0HOME", "enterprise_name": "Org"},
                enterprise=ORG,
                user__team_id="E0HOME",
            ),
            SlackUser("U0MARA", "E0HOME", "E0HOME"),
            Receipt("D0MARA", "1763699999.000100"),
            "ap_1",
        ),
        # A private message has no message in it.
        (
            changed(CARD, message=..., container__is_ephemeral=True),
            SlackUser("U0MARA", "T0HOME"),
            None,
            "",
        ),
        # A button in a modal.
        (
            changed(CARD, message=..., channel=..., container={"type": "view", "view_id": "V1"}),
            SlackUser("U0MARA", "T0HOME"),
            None,
            "",
        ),
        (
            changed(CARD, message__metadata=...),
            SlackUser("U0MARA", "T0HOME"),
            Receipt("D0MARA", "1763699999.000100"),
            "",
        ),
        (
            changed(CARD, user__team_id=..., team=...),
            SlackUser("U0MARA", ""),
            Receipt("D0MARA", "1763699999.000100"),
            "ap_1",
        ),
    ],
    ids=[
        "direct message",
        "slack connect",
        "org-wide",
        "enterprise id as the team",
        "ephemeral",
        "in a modal",
        "without metadata",
        "without a team",
    ],
)
def test_a_click(payload: Json, actor: SlackUser, message: Receipt | None, about: str) -> None:
    """The user, the button, the message and the approval."""
    read = read_payload(payload)
    assert isinstance(read, Click)
    assert (read.actor, read.message, read.about) == (actor, message, about)
    assert (read.action, read.at) == ("signoff.approve", "1763700000.123456")


@pytest.mark.parametrize(
    ("payload", "actor"),
    [
        (MODAL, SlackUser("U0MARA", "T0HOME")),
        (
            changed(MODAL, team=None, enterprise=ORG, is_enterprise_install=True),
            SlackUser("U0MARA", "T0HOME", "E0HOME"),
        ),
        # The short form of the reference: a user of id and name alone.
        (changed(MODAL, user={"id": "U0MARA", "name": "mara"}), SlackUser("U0MARA", "")),
        (changed(MODAL, view__state=..., enterprise=...), SlackUser("U0MARA", "T0HOME")),
    ],
    ids=["usual", "org-wide", "short", "without state"],
)
def test_a_submission(payload: Json, actor: SlackUser) -> None:
    """The user, the modal and its values."""
    read = read_payload(payload)
    assert isinstance(read, ViewSubmission)
    assert (read.actor, read.callback, read.view) == (actor, "signoff.approve", "V0VIEW")
    assert read.metadata == "{}"


@pytest.mark.parametrize("payload", [CARD, MODAL], ids=["click", "submission"])
def test_unknown_payload_keys_are_ignored(payload: Json) -> None:
    """Unknown keys change nothing at any depth."""

    def with_more(part: Any) -> Any:
        if isinstance(part, list):
            return [with_more(one) for one in part]
        if not isinstance(part, dict):
            return part
        return {name: with_more(one) for name, one in part.items()} | {"brand_new": {"x": [1]}}

    more = with_more(payload)
    if "view" in more:  # entered values are passed on unchanged
        more["view"]["state"]["values"] = payload["view"]["state"]["values"]
    assert read_payload(more) == read_payload(payload)


@pytest.mark.parametrize(
    "payload",
    [
        changed(CARD, user=...),
        changed(CARD, user__id="u0mara"),
        changed(CARD, user__id="U0MARA/../x"),
        changed(CARD, user__id=7),
        changed(CARD, actions=[]),
        changed(CARD, actions=[BUTTON] * 26),
        changed(CARD, actions=[{**BUTTON, "action_id": "x" * 256}]),
        changed(CARD, actions=[{**BUTTON, "value": "x" * 2_001}]),
        changed(CARD, team="T0HOME"),
        changed(CARD, message="hello"),
        changed(MODAL, view=...),
        changed(MODAL, view__private_metadata="x" * 3_001),
        changed(MODAL, view__state={"values": {"field.0": 3}}),
    ],
)
def test_payload_with_a_missing_or_wrong_part_is_unreadable(payload: Json) -> None:
    """The error names a missing or wrong part, and no other error is raised."""
    with pytest.raises(SlackPayloadUnreadable, match="Nothing was done"):
        read_payload(payload)
