"""Messages to the requester and informed people in Slack, which cannot decide."""

from __future__ import annotations

import pytest

from channels.slack.office import CLEO_AT, MARA_AT, RILEY_AT, Office
from channels.slack.workspace import Workspace
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.directory.notifications import NotifyOn

ALL = tuple(NotifyOn)


@pytest.mark.parametrize("office", [{"notify_requester": ALL, "inform": ("cleo",)}], indirect=True)
async def test_direct_message_links_to_the_page_without_deciding_buttons(
    office: Office, workspace: Workspace
) -> None:
    """A direct message has a link to the page and no deciding button."""
    office.inbox = InboxSettings(url="https://inbox.example")
    approval = await office.open()
    (news,) = workspace.cards(f"D{RILEY_AT[1:]}")
    assert news["text"] == "reimburse waits for Mara Lind"
    actions = [one for block in news["blocks"] for one in block.get("elements", ())]
    assert [one.get("url") for one in actions] == [
        f"https://inbox.example/inbox/approvals/{approval.id}"
    ]
    (cleo,) = workspace.cards(f"D{CLEO_AT[1:]}")
    assert cleo["text"] == news["text"]
    await office.press("approve")
    await office.route()
    await office.deliver()
    assert [one["text"] for one in workspace.cards(f"D{RILEY_AT[1:]}")] == [
        "reimburse waits for Mara Lind",
        "Mara Lind approved reimburse",
    ]
    (card,) = workspace.cards(f"D{MARA_AT[1:]}")
    assert card["edits"] == 1


@pytest.mark.parametrize("office", [{"notify_requester": ALL}], indirect=True)
async def test_former_slack_user_gets_the_message_by_mail(
    office: Office, workspace: Workspace
) -> None:
    """Slack does not know the user any more, so the message waits in the mail outbox."""
    del workspace.members[RILEY_AT]
    await office.open()
    assert (await office.ledger.backlog())["deliver.email"] == 1
