"""Fixtures of the tests of Slack: a workspace, and an office that is connected to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from builders import CLEO, MARA, RILEY
from channels.slack.office import CLEO_AT, MARA_AT, RILEY_AT, Office
from channels.slack.workspace import APP, BOT, SECRET, Workspace, serve
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SlackWeb
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock


@pytest.fixture
async def workspace(clock: VirtualClock) -> AsyncIterator[Workspace]:
    """Return a workspace with Mara, Cleo and Riley."""
    made = Workspace(now=lambda: clock.now().timestamp())
    for user, person in ((MARA_AT, MARA), (CLEO_AT, CLEO), (RILEY_AT, RILEY)):
        made.add(user, person.email)
    async with serve(made):
        yield made


@pytest.fixture
def settings(workspace: Workspace) -> SlackSettings:
    """Return settings for the workspace."""
    return SlackSettings(
        bot_token=BOT,
        app_token=APP,
        signing_secret=SECRET,
        base_url=f"{workspace.url}/api/",
        timeout=60,
    )


@pytest.fixture
async def web_api(settings: SlackSettings) -> AsyncIterator[SlackWeb]:
    """Return the workspace's Web API."""
    made = SlackWeb(settings)
    yield made
    await made.close()


@pytest.fixture
async def office(
    still_ledger: Ledger,
    clock: VirtualClock,
    workspace: Workspace,
    web_api: SlackWeb,
    request: pytest.FixtureRequest,
) -> Office:
    """Return a ledger that asks people in Slack; a parameter changes the policy."""
    rules = {"name": "expenses", "ask": ("mara",)} | getattr(request, "param", {})
    directory = Directory(
        [
            MARA.model_copy(update={"slack": MARA_AT}),
            CLEO.model_copy(update={"slack": CLEO_AT}),
            RILEY.model_copy(update={"slack": RILEY_AT}),
        ]
    )
    decider = Decider(still_ledger, directory)
    handler = SlackHandler(decider, web_api, Identities(web_api, directory))
    return Office(
        still_ledger, clock, decider, workspace, web_api, handler, directory, Policy(**rules)
    )
