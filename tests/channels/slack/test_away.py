"""Absences in Slack: a shortcut opens a modal, and the modal sets the absence."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from slack_bolt import App, BoltRequest
from slack_bolt.authorization import AuthorizeResult

from builders import MARA, paused, present
from channels.slack.office import CLEO_AT, MARA_AT, Office, view_submission
from channels.slack.test_http import served, signed
from channels.slack.workspace import SECRET, TEAM
from deciding import Decider
from signoff.broker.ledger import audit
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.http import PATH
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.inbound.payloads import read_payload
from signoff.channels.slack.manifest import manifest
from signoff.channels.slack.references import AWAY, REQUESTS
from signoff.channels.slack.settings import SlackSettings
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import LedgerUnavailable, SlackPayloadUnreadable
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person

Json = dict[str, Any]
DAY = timedelta(days=1)


def shortcut(user: str = MARA_AT, *, team: str = TEAM, callback: str = AWAY) -> Json:
    """Return the payload of a global shortcut as the documentation shows it."""
    return {
        "type": "shortcut",
        "token": "legacy",
        "action_ts": "1763700000.123456",
        "team": {"id": TEAM, "domain": "example"},
        "user": {"id": user, "username": "x", "team_id": team},
        "is_enterprise_install": False,
        "enterprise": None,
        "callback_id": callback,
        "trigger_id": "12.34.abc",
    }


def filled(first: date | None, last: date | None, *, delegate: str = "") -> Json:
    """Return the values of the modal."""
    return {
        "first": {"type": "datepicker", "selected_date": first and first.isoformat()},
        "last": {"type": "datepicker", "selected_date": last and last.isoformat()},
        "delegate": {"type": "users_select", "selected_user": delegate or None},
    }


def ticked(values: Json) -> Json:
    """Return the values of the modal with the box to be back."""
    return values | {"back": {"type": "checkboxes", "selected_options": [{"value": "back"}]}}


async def today_of(office: Office, person: Person = MARA) -> date:
    """Return the current date at a person's place."""
    return person.day(await office.ledger.now())


async def absence_of(office: Office, person: str = "mara") -> Absence | None:
    """Return the current absence."""
    found = (await office.decider.people.directory()).get(person)
    assert found is not None
    return found.absence(await office.ledger.now())


async def noted(office: Office, what: What) -> list[Event]:
    """Return the audit entries of one kind."""
    entries = [Event.model_validate_json(e) async for _, e, _ in audit.entries(office.ledger.store)]
    return [one for one in entries if one.what is what]


async def test_an_absence_is_set_and_ended_in_the_modal(office: Office) -> None:
    """The shortcut opens the modal, its absence is in the ledger, and the modal ends it too."""
    today = await today_of(office)
    assert await office.handler.handle(shortcut()) is None
    (view,) = office.workspace.views
    first, last, stands_in = view["blocks"]
    assert first["element"]["initial_date"] == today.isoformat()
    assert (last["element"]["type"], last["optional"]) == ("datepicker", False)
    assert (stands_in["element"]["type"], stands_in["optional"]) == ("users_select", True)

    said = await office.submit(filled(today, today + 3 * DAY, delegate=CLEO_AT))

    absence = Absence(start=today, end=today + 3 * DAY, delegate="cleo")
    assert await absence_of(office) == absence
    (left,) = await noted(office, What.LEFT)
    assert left.by == "mara"
    assert left.more == {
        "person": "mara",
        **absence.model_dump(mode="json"),
        "channel": "slack",
        "user": MARA_AT,
        "team": TEAM,
    }
    assert said["response_action"] == "update"
    assert f"You are away until {absence.end}" in str(said["view"])
    assert "decides instead of you" in str(said["view"])
    assert "I am back" in str(said["view"])

    await office.handler.handle(shortcut())
    assert f"You are away until {absence.end}." in str(office.workspace.views[-1]["blocks"][0])
    said = await office.submit(ticked(filled(today, None)))
    assert await absence_of(office) is None
    assert "You are back" in str(said["view"])
    (back,) = await noted(office, What.BACK)
    assert (back.by, back.more["channel"]) == ("mara", "slack")


async def test_the_modal_starts_with_the_date_of_the_person(office: Office) -> None:
    """When Auckland already has the next date, the modal starts with that date."""
    far = MARA.model_copy(update={"slack": MARA_AT, "time_zone": "Pacific/Auckland"})
    directory = Directory([far])
    identities = Identities(office.web, directory)
    handler = SlackHandler(Decider(office.ledger, directory), office.web, identities)
    while await today_of(office, far) == (await office.ledger.now()).date():
        office.clock.advance(timedelta(hours=1))
    await handler.handle(shortcut())
    shown = office.workspace.views[-1]["blocks"][0]["element"]["initial_date"]
    assert date.fromisoformat(shown) == (await office.ledger.now()).date() + DAY


async def test_an_invalid_absence_is_reported_at_its_field(office: Office) -> None:
    """Invalid days and an unknown delegate get an error at the field; nothing is set."""
    today = await today_of(office)
    office.workspace.add("U0NOBODY", "nobody@example.com")
    await office.handler.handle(shortcut())
    for values, block, words in (
        (filled(today, today - DAY), "last", "before it begins"),
        (filled(today - 2 * DAY, today - DAY), "last", f"today is {today}"),
        (filled(today, None), "last", "Choose a day"),
        (filled(None, today), "first", "Choose a day"),
        ({}, "first", "Choose a day"),
        (filled(today, today) | {"last": {"selected_date": "24.12."}}, "last", "not a day"),
        (filled(today, today) | {"last": "x"}, "last", "Choose a day"),
        (filled(today, today, delegate="U0NOBODY"), "delegate", "does not know this person"),
        (filled(today, today, delegate="U0GONE"), "delegate", "does not know this person"),
        (filled(today, today, delegate=MARA_AT), "delegate", "nobody could decide"),
    ):
        said = await office.submit(values)
        assert said["response_action"] == "errors"
        ((at, why),) = said["errors"].items()
        assert at == block, why
        assert words in why
    assert await absence_of(office) is None
    assert not await noted(office, What.LEFT)


async def test_an_absence_that_is_over_meanwhile_cannot_be_ended(office: Office) -> None:
    """The modal still has the box, which gets the error."""
    today = await today_of(office)
    await office.handler.handle(shortcut())
    await office.submit(filled(today, today))
    await office.handler.handle(shortcut())
    await office.decider.people.come_back(MARA, by="mara", more={})
    said = await office.submit(ticked(filled(today, today)))
    assert list(said["errors"]) == ["back"]
    assert "is not away" in said["errors"]["back"]


async def test_a_circle_of_delegates_is_refused_and_can_be_mended(office: Office) -> None:
    """Two people cannot be each other's delegate; the corrected modal is accepted."""
    today = await today_of(office)
    await office.handler.handle(shortcut(CLEO_AT))
    await office.submit(filled(today, today + DAY, delegate=MARA_AT), user=CLEO_AT)
    await office.handler.handle(shortcut())
    view = {**office.workspace.views[-1], "id": "V0SAME"}
    said = await office.submit(filled(today, today + DAY, delegate=CLEO_AT), view=view)
    assert "stand in for each other" in said["errors"]["delegate"]
    said = await office.submit(filled(today, today + DAY), view=view)
    assert "nobody decides instead" in str(said["view"])
    assert await absence_of(office) == Absence(start=today, end=today + DAY)


async def test_a_repeated_submission_counts_once(office: Office) -> None:
    """A repeated, simultaneous or later submission, after a return, is not applied again."""
    today = await today_of(office)
    await office.handler.handle(shortcut())
    view = {**office.workspace.views[-1], "id": "V0SAME"}
    sent = view_submission(view, filled(today, today + DAY), MARA_AT)
    said = await asyncio.gather(*(office.handler.handle(sent) for _ in range(3)))
    assert all(one is None or one["response_action"] == "update" for one in said)
    assert await absence_of(office) is not None
    await office.decider.people.come_back(MARA, by="mara", more={})
    assert await office.handler.handle(sent) is None
    assert await absence_of(office) is None
    assert len(await noted(office, What.LEFT)) == 1


async def test_strangers_are_refused(office: Office) -> None:
    """Unknown people, and Mara's id in another team, get a message; nothing is set."""
    today = await today_of(office)
    office.workspace.add("U0NOBODY", "nobody@example.com")
    await office.handler.handle(shortcut())
    modal = office.workspace.views[-1]
    for user, team in (("U0NOBODY", TEAM), (MARA_AT, "T0OTHER")):
        await office.handler.handle(shortcut(user, team=team))
        assert "does not know you" in str(office.workspace.views[-1])
        assert "submit" not in office.workspace.views[-1]
        sent = view_submission(modal, filled(today, today), user, team=team)
        said = await office.handler.handle(sent)
        assert "does not know you" in str(present(said)["view"])
    assert not await noted(office, What.LEFT)


async def test_expired_triggers_and_foreign_shortcuts_have_no_effect(office: Office) -> None:
    """Neither has an effect, and both are acknowledged."""
    office.workspace.failures["views.open"] = ["expired_trigger_id"]
    assert await office.handler.handle(shortcut()) is None
    assert await office.handler.handle(shortcut(callback="theirs")) is None
    assert not office.workspace.views


async def test_a_failed_absence_keeps_the_modal_open(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the ledger does not accept it, the modal stays open with an error."""
    today = await today_of(office)
    await office.handler.handle(shortcut())

    async def down(_change: object) -> None:
        raise LedgerUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(office.ledger, "commit", down)
        said = await office.submit(filled(today, today))
    assert "nothing was done" in said["errors"]["last"]
    assert await absence_of(office) is None


@pytest.mark.parametrize("without", ["callback_id", "trigger_id", "user"])
def test_a_shortcut_is_read_strictly(without: str) -> None:
    """A documented part that is missing is an error."""
    payload = shortcut()
    del payload[without]
    with pytest.raises(SlackPayloadUnreadable):
        read_payload(payload)


def test_the_manifest_has_the_shortcuts() -> None:
    """The manifest has their ids and scope, within the documented lengths."""
    made = manifest(name="Signoff", url="")
    found = made["features"]["shortcuts"]
    assert [one["callback_id"] for one in found] == [AWAY, REQUESTS]
    for one in found:
        assert one["type"] == "global"
        assert len(one["name"]) <= 24
        assert len(one["description"]) <= 150
    assert "commands" in made["oauth_config"]["scopes"]["bot"]


async def test_bolt_accepts_the_same_shortcut_and_modal(
    office: Office, settings: SlackSettings
) -> None:
    """Bolt finds a listener for the shortcut and the modal; our route accepts the same bytes."""
    read: list[Json] = []
    app = App(
        signing_secret=SECRET,
        authorize=lambda **_: AuthorizeResult(
            enterprise_id=None, team_id=TEAM, bot_token="xoxb-x", bot_id="B1", bot_user_id="U1"
        ),
        process_before_response=True,
    )

    def take(ack: Any, payload: Json) -> None:
        read.append(payload)
        ack()

    app.global_shortcut(AWAY)(take)
    app.view(AWAY)(take)
    today = await today_of(office)
    async with served(settings, office.handler) as http:
        payloads: list[Callable[[], Json]] = [
            shortcut,
            lambda: view_submission(office.workspace.views[-1], filled(today, today), MARA_AT),
        ]
        for made in payloads:
            body = urlencode({"payload": json.dumps(made())})
            request = BoltRequest(body=body, headers=signed(body))
            assert (await asyncio.to_thread(app.dispatch, request)).status == 200
            ours = await http.post(PATH, content=body, headers=signed(body))
            assert ours.status_code == 200
    assert [one["callback_id"] for one in read] == [AWAY, AWAY]
    assert (await absence_of(office)) == Absence(start=today, end=today)


async def test_waiting_requests_are_handed_over_in_the_modal(office: Office) -> None:
    """The modal has the number of waiting requests, and one box hands them over."""
    today = await today_of(office)
    _, (approval,) = await paused(office.ledger, asked=[MARA])
    await office.handler.handle(shortcut())
    assert "1 request still waiting for you" in str(office.workspace.views[-1])
    values = filled(today, today + DAY, delegate=CLEO_AT)
    tick = {"type": "checkboxes", "selected_options": [{"value": "hand_over"}]}
    said = await office.submit(values | {"hand_over": tick})
    assert "Cleo Park has 1 of your requests now." in str(said["view"])
    assert "mara" not in (await office.ledger.approval(approval.id)).ballot.own


async def test_a_hand_over_needs_somebody(office: Office) -> None:
    """A ticked box without a person is an error at the person, and nothing is set."""
    today = await today_of(office)
    await paused(office.ledger, asked=[MARA])
    await office.handler.handle(shortcut())
    tick = {"type": "checkboxes", "selected_options": [{"value": "hand_over"}]}
    answer = await office.submit(filled(today, today + DAY) | {"hand_over": tick})
    assert answer["errors"] == {"delegate": "Choose the person who gets your requests."}
    assert await absence_of(office) is None
