"""The doctor's findings about Slack, and the manifest."""

from __future__ import annotations

from typing import Any

import pytest

from builders import CLEO, MARA
from channels.slack.workspace import Workspace
from signoff.channels.slack.check import check
from signoff.channels.slack.manifest import manifest
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SCOPES


async def problems(settings: SlackSettings, **more: Any) -> dict[str, str]:
    """Return the problems by their subject."""
    usual: dict[str, Any] = {"channels": [], "people": []}
    found = await check(settings, **(usual | more))
    return {one.about: one.problem for one in found if one.problem}


async def test_complete_setup_reports_no_problem(
    workspace: Workspace, settings: SlackSettings
) -> None:
    """With all scopes and the app in the channel, there is no problem."""
    workspace.scopes = ",".join(SCOPES)
    workspace.joined.add("C0OPS")
    found = await check(settings, ["C0OPS"], [MARA])
    assert [one.about for one in found] == ["bot_token", "scopes", "app_token", "channel C0OPS"]
    assert not any(one.problem for one in found)


async def test_each_fault_is_named(workspace: Workspace, settings: SlackSettings) -> None:
    """Missing scopes, a refused app token, a channel without the app, an unknown person."""
    workspace.failures["apps.connections.open"] = ["invalid_auth"]
    workspace.members.pop("U0CLEO")
    found = await problems(settings, channels=["C0OPS"], people=[MARA, CLEO])
    assert list(found) == ["scopes", "app_token", "channel C0OPS", "person cleo"]
    assert "users:read.email" in found["scopes"]
    assert "connections:write" in found["app_token"]


async def test_a_revoked_token_is_the_only_finding(
    workspace: Workspace, settings: SlackSettings
) -> None:
    """Nothing else can be checked, and the finding says what to do."""
    workspace.failures["auth.test"] = ["token_revoked"]
    found = await problems(settings)
    assert list(found) == ["bot_token"]
    assert "install the app again" in found["bot_token"]


def test_a_token_that_would_expire_is_refused() -> None:
    """With token rotation, cards would stop after twelve hours."""
    with pytest.raises(ValueError, match="expires after 12 hours"):
        SlackSettings.model_validate({"bot_token": "xoxe.xoxb-1-x"})


async def test_malformed_signing_secret_is_reported(settings: SlackSettings) -> None:
    """Only its form can be checked."""
    secret = type(settings.app_token)
    by_http = settings.model_copy(update={"app_token": secret(""), "signing_secret": secret("x")})
    assert "32 hexadecimal" in (await problems(by_http))["signing_secret"]


def test_manifest_requests_the_scopes_and_transport_in_use() -> None:
    """It asks for Socket Mode without an address, and otherwise for the gateway's route."""
    socket = manifest(name="Signoff", url="")
    http = manifest(name="Signoff", url="https://signoff.example.com/")
    assert socket["settings"]["socket_mode_enabled"]
    assert "request_url" not in socket["settings"]["interactivity"]
    assert not http["settings"]["socket_mode_enabled"]
    where = http["settings"]["interactivity"]["request_url"]
    assert where == "https://signoff.example.com/slack/interactions"
    assert socket["oauth_config"]["scopes"]["bot"] == list(SCOPES)


async def test_scopes_that_cannot_be_read_are_a_finding(
    workspace: Workspace, settings: SlackSettings
) -> None:
    """Slack limits the second request, and the other checks are made."""
    workspace.failures["auth.test"] = [None, "ratelimited"]
    found = await problems(settings, channels=["C0OPS"])
    assert "ratelimited" in found["scopes"]
    assert "channel C0OPS" in found
