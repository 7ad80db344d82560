"""Every time appears in its reader's time zone, which is named."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import StringIO
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import CLEO, MARA, NOON, RILEY, make_approval
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.inbox.pages.rows import list_row
from signoff.channels.preview import message
from signoff.channels.slack.text import date
from signoff.channels.text_channel import text_of
from signoff.channels.words import phrases
from signoff.cli.commands.approvals import tables
from signoff.cli.printing import Output
from signoff.core.approvals.approval import Approval, Asked
from signoff.core.approvals.events import What
from signoff.core.base.errors import TooLate
from signoff.core.base.moments import moment_text
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Terms

EMAIL = EmailSettings(mailbox="approvals@signoff.example.com", sender="signoff@example.com")
ZONES = {"Europe/Berlin": "Mon 2 Mar 2026, 17:00 CET", "Asia/Dubai": "Mon 2 Mar 2026, 20:00 UTC+04"}


def directory(zone: str = "", *, default: str = "UTC") -> Directory:
    """Return the people; Mara has this time zone, or none for ""."""
    mara = MARA
    if zone:
        mara = Person.model_validate({**MARA.model_dump(), "time_zone": zone})
    return Directory([mara, CLEO, RILEY], time_zone=default)


def asked() -> Approval:
    """Return a request that Mara may answer until four."""
    terms = Terms.model_validate({"policy": "p", "ask": ["mara"], "within": "4h"})
    cards = (Asked(person="mara", channel="email", address=MARA.email),)
    return make_approval().ask(terms, cards, now=NOON)[0]


@pytest.mark.parametrize(("zone", "text"), ZONES.items())
def test_mail_text_and_notices_show_the_readers_time(zone: str, text: str) -> None:
    """This holds for the card, a reminder, a refusal and the notice of a late answer."""
    here, approval = directory(zone), asked()
    sent = message(approval, here, channel="email", now=NOON)
    mara = here.get("mara")
    assert mara is not None
    for shown in (
        plain_text(sent, EMAIL),
        re.sub(r"\s+", " ", html(sent, EMAIL)),
        text_of(sent),
        phrases.reminder(approval, here, "mara").text,
        phrases.late(approval, here, "mara").text,
        str(list_row(approval, mara, here, NOON)),
    ):
        assert text in shown
        assert not re.search(r"16:00 UTC(?![-+])", shown)
    with pytest.raises(TooLate, match=re.escape(text)):
        approval.approve(mara, here, channel="cli", now=NOON + timedelta(days=1))


def test_settings_time_zone_applies_to_people_without_one() -> None:
    """A person's own zone wins, even if it is UTC."""
    berlin, utc = ZoneInfo("Europe/Berlin"), ZoneInfo("UTC")
    assert directory(default="Europe/Berlin").zone_of("mara") == berlin
    assert directory("UTC", default="Europe/Berlin").zone_of("mara") == utc
    assert directory("UTC", default="Europe/Berlin").zone_of("MARA@example.com") == utc
    assert directory(default="Europe/Berlin").zone_of("") == berlin
    assert directory().zone_of("nobody@example.com") == utc


def test_the_terminal_shows_the_zone_of_the_settings() -> None:
    """The person at a terminal is not known."""
    approval, here = asked(), directory(default="Europe/Berlin")
    opened = approval.note(What.OPENED, now=NOON)
    with redirect_stdout(StringIO()) as out:
        tables.print_approval(Output(), approval, here, [opened], NOON)
    said = out.getvalue()
    assert "2026-03-02 17:00:00 CET" in said
    assert "time (Europe/Berlin)" in said
    assert "13:00:00.000" in said


def test_slack_shows_times_in_the_zone_of_each_reader() -> None:
    """A program without support for it shows UTC."""
    assert date(NOON) == (
        f"<!date^{int(NOON.timestamp())}^{{date_short_pretty}} at {{time}}"
        "|Mon 2 Mar 2026, 12:00 UTC>"
    )


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from([*ZONES, "UTC", "America/St_Johns"]))
def test_any_moment_is_written_with_its_zone(at: datetime, zone: str) -> None:
    """This holds at the ends of the calendar too."""
    text = moment_text(at, ZoneInfo(zone))
    assert re.fullmatch(
        r"\w{3} \d{1,2} \w{3} \d{1,4}, \d{2}:\d{2} ([A-Z]{2,5}|UTC[-+]\d{2}(:?\d{2}){0,2})", text
    )
