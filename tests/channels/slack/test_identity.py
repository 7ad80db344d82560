"""The identity of a click: the ids of user and team, and nothing else."""

from __future__ import annotations

import pytest

from builders import CLEO, MARA
from channels.slack.office import view_submission
from channels.slack.workspace import TEAM, Workspace
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.inbound.payloads import SlackUser, ViewSubmission, read_payload
from signoff.channels.slack.web import SlackWeb
from signoff.core.base.errors import SlackDeferred
from signoff.core.directory.people import Directory

DIRECTORY = Directory([MARA.model_copy(update={"slack": "U0MARA"}), CLEO])


@pytest.mark.parametrize(
    ("actor", "person"),
    [
        (SlackUser("U0MARA", TEAM), "mara"),
        (SlackUser("U0CLEO", TEAM), "cleo"),
        (SlackUser("U0MARA", "T0OTHER"), None),
        (SlackUser("U0CLEO", "T0OTHER"), None),
        (SlackUser("U0NOBODY", TEAM), None),
        (SlackUser("U0TWIN", TEAM), None),
        (SlackUser("U0ROBOT", TEAM), None),
        (SlackUser("U0GONE", TEAM), None),
        (SlackUser("U0SILENT", TEAM), None),
    ],
)
async def test_only_members_of_the_own_team_are_identified(
    workspace: Workspace, web_api: SlackWeb, actor: SlackUser, person: str | None
) -> None:
    """Only members of our own team count: by id, or by the address that Slack has verified."""
    workspace.add("U0TWIN", MARA.email)
    workspace.add("U0ROBOT", CLEO.email, is_bot=True)
    workspace.add("U0GONE", CLEO.email, deleted=True)
    workspace.add("U0SILENT", "")
    found = await Identities(web_api, DIRECTORY).who(actor)
    assert (found.id if found else None) == person


async def test_external_user_counts_only_if_team_and_user_are_configured(web_api: SlackWeb) -> None:
    """A member of another organisation counts only if their team and user are configured."""
    named = Directory([MARA.model_copy(update={"slack": "T0OTHER/U9"})])
    identities = Identities(web_api, named)
    assert await identities.who(SlackUser("U9", "T0OTHER")) is not None
    assert await identities.who(SlackUser("U9", TEAM)) is None
    assert await identities.who(SlackUser("U9", "T0THIRD")) is None


@pytest.mark.parametrize("team", ["T0OTHER", ""])
async def test_member_of_no_known_team_is_a_stranger(
    workspace: Workspace, web_api: SlackWeb, team: str
) -> None:
    """Slack's answer without a team or an organisation is no proof that it is ours."""
    workspace.add("U7", CLEO.email, team=team)
    assert await Identities(web_api, DIRECTORY).who(SlackUser("U7", "")) is None
    assert await Identities(web_api, DIRECTORY).who(SlackUser("U0MARA", "")) is not None


async def test_org_wide_install_accepts_members_of_every_team(
    workspace: Workspace, web_api: SlackWeb
) -> None:
    """In an org-wide install, the members of each team of the organisation count."""
    workspace.enterprise = "E0HOME"
    workspace.add("U7", CLEO.email, team="T0SALES", enterprise_user={"enterprise_id": "E0HOME"})
    workspace.add("U8", CLEO.email, team="T0EVIL", enterprise_user={"enterprise_id": "E0EVIL"})
    workspace.members.pop("U0CLEO")
    identities = Identities(web_api, DIRECTORY)
    assert await identities.who(SlackUser("U7", "T0SALES", "E0HOME")) == CLEO
    assert await identities.who(SlackUser("U8", "T0EVIL", "E0HOME")) is None
    # Slack may send the organisation instead of the team.
    assert await identities.who(SlackUser("U7", "E0HOME", "E0HOME")) == CLEO
    assert await identities.who(SlackUser("U8", "E0EVIL", "E0HOME")) is None


@pytest.mark.parametrize(
    ("team", "person"),
    [(TEAM, "mara"), ("T0OTHER", None), ("", None)],
    ids=["ours", "not", "unsaid"],
)
async def test_missing_user_team_is_looked_up_at_slack(
    workspace: Workspace, web_api: SlackWeb, team: str, person: str | None
) -> None:
    """The team of the message proves nothing: Slack is asked for the user's team."""
    workspace.add("U0MARA", MARA.email, team=team)
    sent = view_submission({"callback_id": "signoff.approve"}, {}, "U0MARA")
    del sent["user"]["team_id"]
    read = read_payload(sent)
    assert isinstance(read, ViewSubmission)
    found = await Identities(web_api, DIRECTORY).who(read.actor)
    assert (found.id if found else None) == person


async def test_repeated_clicks_look_up_the_user_once(
    workspace: Workspace, web_api: SlackWeb
) -> None:
    """Many clicks need one lookup."""
    identities = Identities(web_api, DIRECTORY)
    for _ in range(5):
        await identities.who(SlackUser("U0CLEO", TEAM))
    assert len(workspace.called("users.info")) == 1
    assert len(workspace.called("auth.test")) == 1


async def test_click_by_a_user_unknown_to_slack_fails_and_can_be_repeated(
    workspace: Workspace, web_api: SlackWeb
) -> None:
    """If Slack does not know the user, the click fails and can be repeated."""
    workspace.failures["users.info"] = [503]
    with pytest.raises(SlackDeferred):
        await Identities(web_api, DIRECTORY).who(SlackUser("U0CLEO", TEAM))


async def test_directory_reload_clears_cached_identities(web_api: SlackWeb) -> None:
    """By then the address may belong to another person."""
    people = Directory([MARA.model_copy(update={"aliases": (CLEO.email,)})])
    identities = Identities(web_api, people)
    assert getattr(await identities.who(SlackUser("U0CLEO", TEAM)), "id", None) == "mara"
    people.become(Directory([MARA, CLEO]))
    assert await identities.who(SlackUser("U0CLEO", TEAM)) == CLEO


@pytest.mark.parametrize("code", ["missing_scope", "token_revoked", "invalid_auth"])
async def test_an_approver_is_no_stranger_because_our_token_is_bad(
    workspace: Workspace, web_api: SlackWeb, code: str
) -> None:
    """If Slack refuses our own token, the click fails; only an unknown user is a stranger."""
    workspace.failures["users.info"] = [code]
    identities = Identities(web_api, DIRECTORY)
    with pytest.raises(SlackDeferred, match=code):
        await identities.who(SlackUser("U0CLEO", TEAM))
    assert await identities.who(SlackUser("U0CLEO", TEAM)) == CLEO


async def test_unconfirmed_address_identifies_nobody(
    workspace: Workspace, web_api: SlackWeb
) -> None:
    """A user who has given another person's address, and not confirmed it, is not that person."""
    workspace.add("U0EVE", CLEO.email, is_email_confirmed=False)
    workspace.add("U0CLEO", CLEO.email, is_email_confirmed=True)
    workspace.add("U0MARA", "", is_email_confirmed=False)
    identities = Identities(web_api, DIRECTORY)
    assert await identities.who(SlackUser("U0EVE", TEAM)) is None
    assert await identities.who(SlackUser("U0CLEO", TEAM)) == CLEO
    assert getattr(await identities.who(SlackUser("U0MARA", TEAM)), "id", None) == "mara"


@pytest.mark.parametrize("team", [TEAM, "T0OTHER"])
async def test_person_configured_by_team_and_user_is_found_if_only_the_user_is_known(
    workspace: Workspace, web_api: SlackWeb, team: str
) -> None:
    """Modals and user groups name users without their team, which Slack is asked for."""
    workspace.add("U9", "", team=team, is_stranger=team != TEAM)
    workspace.add("U8", "", team="T0THIRD", is_stranger=True)
    mara = MARA.model_copy(update={"slack": f"{team}/U9"})
    eve = CLEO.model_copy(update={"slack": f"{team}/U8"})
    identities = Identities(web_api, Directory([mara, eve]))
    assert await identities.who(SlackUser("U9", "")) == mara
    assert await identities.who(SlackUser("U8", "")) is None
