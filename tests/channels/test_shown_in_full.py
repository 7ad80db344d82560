"""A truncated mail can be answered with a rejection; an approval needs the whole call."""

from __future__ import annotations

from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any

import pytest

from builders import MARA, present
from channels.conftest import MAILBOX, Channels, Sink, SinkFactory
from signoff.broker.ledger.change import Change
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.deliver import Delivery
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, Shown, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import NotShownInFull
from signoff.core.policies.policy import GrantRules, Policy

INBOX = InboxSettings(url="https://approvals.example.com", secret_key="k" * 32)
RULES = GrantRules(who=("mara",), longest="8h", vary=("amount",))
POLICY = Policy(name="expenses", ask=("mara",), within="4h", grants=RULES, batch=True)
LONG = "y" * 60_000


class Office:
    """The stages of the channels with a real SMTP server."""

    def __init__(self, channels: Channels, sink: Sink) -> None:
        channels.inbox, channels.policies = INBOX, (POLICY,)
        self.channels, self.ledger, self.decider = channels, channels.ledger, channels.decider
        self.sink, self.answers = sink, 0
        self.channel = EmailChannel(sink.settings())

    async def deliver(self) -> Sequence[EmailMessage]:
        """Deliver waiting mails, and return them."""
        before = len(self.sink.mails)
        delivery = Delivery(
            self.ledger, self.channel, directory=self.channels.directory, inbox=INBOX
        )
        await delivery.drain()
        return self.sink.mails[before:]

    async def ask(self, **args: Any) -> tuple[Approval, EmailMessage]:
        """Ask Mara about a call, and return her mail."""
        approval = await self.channels.open(**args)
        await self.channels.router.drain()
        (mail,) = await self.deliver()
        return await self.ledger.approval(approval.id), mail

    async def reply(self, to: EmailMessage, text: str) -> Sequence[EmailMessage]:
        """Answer a mail, and return the replies to Mara."""
        self.answers += 1
        mail = EmailMessage()
        mail["From"], mail["To"] = MARA.email, to["Reply-To"]
        mail["Subject"], mail["Message-ID"] = to["Subject"], f"<{self.answers}@mail.example>"
        mail["In-Reply-To"] = to["Message-ID"]
        mail.set_content(text)
        await store(self.ledger, mail.as_bytes(), sender=MARA.email, recipients=())
        await self.channels.intake.drain()
        return await self.deliver()


@pytest.fixture
async def office(channels: Channels, start_sink: SinkFactory) -> Office:
    """Return an office that sends mail."""
    assert MAILBOX
    return Office(channels, await start_sink())


def parts(mail: EmailMessage) -> tuple[str, str]:
    """Return the plain text and the HTML of a mail."""
    plain, html = (present(mail.get_body((kind,))) for kind in ("plain", "html"))
    return plain.get_content(), html.get_content()


async def test_shortened_mail_links_to_the_whole_call_without_approve(office: Office) -> None:
    """Both parts say where the whole call is, and that a rejection counts."""
    approval, mail = await office.ask(purpose=LONG)
    assert [one.shown for one in approval.asked] == [Shown.CUT]
    page = f"https://approvals.example.com/inbox/approvals/{approval.id}"
    plain, html = parts(mail)
    for text in (plain, html):
        assert "This mail does not show the whole request" in text
        assert page in text
        assert "reject: the reason" in text
    assert "To say yes" not in plain
    assert "body=approve" not in html
    assert "body=reject" in html


async def test_a_mail_that_shows_all_offers_a_yes(office: Office) -> None:
    """Ten thousand characters are shown and can be approved."""
    approval, mail = await office.ask(purpose="z" * 15_000, amount=5)
    assert [one.shown for one in approval.asked] == [Shown.COMPLETE]
    plain, html = parts(mail)
    for text in (plain, html):
        assert "z" * 15_000 in text.replace("\n", "")
        assert "does not show all" not in text
    assert "body=approve" in html
    await office.reply(mail, "approve")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


@pytest.mark.parametrize(
    "text", ["approve", "yes", "approve\namount: 900", "approve this and calls like it for 2 hours"]
)
async def test_a_yes_to_a_cut_mail_is_refused_and_answered(office: Office, text: str) -> None:
    """Nothing is decided; the reply has the reason and a link, and the audit has the refusal."""
    approval, mail = await office.ask(purpose=LONG, amount=2500)
    (told,) = await office.reply(mail, text)
    plain, html = parts(told)
    assert "has to be read first" in plain
    for one in (plain, html):
        assert f"https://approvals.example.com/inbox/approvals/{approval.id}" in one
    assert "body=approve" not in html
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert (await office.channels.whats(approval)).count(What.REFUSED_ANSWER) == 1


async def test_a_no_to_a_cut_mail_counts(office: Office) -> None:
    """It also counts after a refused approval, as an answer to the refusal."""
    approval, mail = await office.ask(purpose=LONG)
    (told,) = await office.reply(mail, "approve")
    await office.reply(told, "reject: far too long")
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).reason) == (State.REJECTED, "far too long")


async def test_approval_of_the_whole_call_on_the_page_counts(office: Office) -> None:
    """The page shows the whole call, so it can be approved there."""
    approval, mail = await office.ask(purpose=LONG)
    await office.reply(mail, "approve")
    await office.decider.approve(approval.id, MARA, channel="inbox")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_calls_that_are_approved_together_are_shown_too(office: Office) -> None:
    """A channel that truncates one of them cannot approve it with others."""
    approval, _ = await office.ask(purpose=LONG)
    together = moves.Approve(together=True)
    with pytest.raises(NotShownInFull):
        await office.decider.made(approval.id, together, MARA, channel="email")
    assert (await office.channels.whats(approval)).count(What.REFUSED_ANSWER) == 1
    await office.decider.made(approval.id, together, MARA, channel="inbox")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_a_reply_that_overtakes_the_note_of_its_card_waits(office: Office) -> None:
    """If it arrives before the delivery is recorded, it is judged a moment later."""
    approval, mail = await office.ask(purpose="z" * 1_000)
    was = approval
    under_way = tuple(
        one.model_copy(update={"receipt": "", "shown": Shown.UNKNOWN}) for one in was.asked
    )

    await office.ledger.commit(Change().put(was.model_copy(update={"asked": under_way}), was=was))
    assert await office.reply(mail, "approve") == []
    now = await office.ledger.approval(approval.id)
    assert now.state is State.PENDING
    assert (await office.channels.whats(approval)).count(What.REFUSED_ANSWER) == 0
