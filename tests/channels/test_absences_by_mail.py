"""Absences by mail: they count only if the mail's author is proven."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from browser import SETTINGS
from builders import MARA, present, proof_of
from channels.conftest import Channels
from channels.test_who_wrote_it import COMPANY, answer, intake_of, take
from signoff.broker.ledger import audit
from signoff.channels.pipeline.port import Message
from signoff.channels.text_channel import take_text
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import Event, What
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import EmailProof
from zone import Zone, serving

UNTIL = "9999-12-31"

Says = Callable[..., Awaitable[Mapping[str, Message]]]


@pytest.fixture
async def signed(channels: Channels) -> AsyncIterator[Says]:
    """Return a function that takes in a signed mail with this text and returns the replies."""
    async with serving(Zone()) as zone:
        zone.publish(COMPANY)
        intake = intake_of(channels, zone, absence_page=SETTINGS.absence_page)

        async def says(token: str, text: str, **headers: str) -> Mapping[str, Message]:
            return await take(channels, COMPANY.sign(answer(token, text, **headers)), intake=intake)

        yield says


async def absence_of(channels: Channels, person: str = "mara") -> Absence | None:
    """Return the current absence."""
    found = (await channels.decider.people.directory()).get(person)
    return present(found).absence(await channels.ledger.now())


async def test_signed_mail_sets_an_absence_and_its_delegate(
    channels: Channels, signed: Says
) -> None:
    """It counts immediately; the person is told, the audit has the proof, and the request stays."""
    approval, token = await channels.ask()
    told = await signed(token, f"Away until {UNTIL}, delegate: Cleo Park")
    assert told["mara"].headline == f"You are away until {UNTIL}"
    assert "Cleo Park decides instead of you" in told["mara"].text
    absence = present(await absence_of(channels))
    assert (absence.end.isoformat(), absence.delegate) == (UNTIL, "cleo")
    entries = [
        Event.model_validate_json(one) async for _, one, _ in audit.entries(channels.ledger.store)
    ]
    (left,) = [one for one in entries if one.what is What.LEFT]
    assert left.by == "mara"
    assert proof_of(left)["proven"] == "dmarc"
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING

    back = await signed(told["mara"].token, "back", **{"Message-ID": "<2@mail.example>"})
    assert back["mara"].headline == "You are back"
    assert await absence_of(channels) is None


@pytest.mark.parametrize("required", list(EmailProof))
async def test_unproven_mail_sets_no_absence(channels: Channels, required: EmailProof) -> None:
    """An absence needs more proof than a decision, because a delegate gets all decisions."""
    _, token = await channels.ask()
    intake = intake_of(channels, required=required)
    told = await take(channels, answer(token, f"away until {UNTIL}, delegate cleo"), intake=intake)
    assert await absence_of(channels) is None
    if required is not EmailProof.TOKEN_FROM_DMARC:
        assert "nothing proves that this mail is yours" in told["mara"].text


async def test_forwarded_signed_mail_sets_no_absence(channels: Channels, signed: Says) -> None:
    """Mara has told Cleo about her absence, and Cleo forwards the mail to Mara's card."""
    _, token = await channels.ask()
    told = await signed(token, f"away until {UNTIL}, delegate cleo", To="cleo@example.com")
    assert await absence_of(channels) is None
    assert "mara" not in told or "You are away" not in told["mara"].headline


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("away until some day", "from when to when"),
        ("away until 2020-01-01", "would end on 2020-01-01, before"),
        ("away from 2999-02-02 until 2999-02-01", "before it begins on 2999-02-02"),
        (f"away until {UNTIL}, delegate somebody", "nobody called somebody"),
        (f"away until {UNTIL}, delegate mara", "stand in for each other"),
        ("back", "is not away"),
    ],
)
async def test_invalid_absence_gets_an_answer_with_the_reason(
    channels: Channels, signed: Says, text: str, words: str
) -> None:
    """The person reads the reason, and nothing changes."""
    _, token = await channels.ask()
    told = await signed(token, text)
    assert words in told["mara"].text
    assert await absence_of(channels) is None


async def test_a_channel_that_vouches_for_people_is_believed(channels: Channels) -> None:
    """In a custom channel, the platform identifies the writer."""
    approval, _ = await channels.ask()
    mara = MARA.model_copy(update={"addresses": {"chat": "u1"}})
    others = (one for one in channels.directory if one.id != "mara")
    channels.directory.become(Directory([mara, *others]))
    text = f"{approval.id}\naway until {UNTIL}"
    await take_text(channels.decider, "chat", "u1", text, source="1")
    assert present(await absence_of(channels)).delegate == ""


async def test_absence_answer_lists_pending_requests_and_how_to_delegate(
    channels: Channels, signed: Says
) -> None:
    """A line of the mail names each request, and how to hand it over."""
    approval, token = await channels.ask()
    told = await signed(token, f"Away until {UNTIL}, delegate: Cleo Park")
    text = told["mara"].text
    assert f"1 request still waits for you: reimburse ({approval.id})." in text
    assert "Cleo Park can answer them too, and the first answer counts." in text
    assert "reply to its card with `forward`" in text
    assert "To hand over all of them: https://approvals.example.com/inbox/away" in text
