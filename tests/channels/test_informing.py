"""The requester and informed people get one message each, which cannot decide."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiosmtplib
import pytest

from builders import CLEO, MARA, RILEY
from channels.conftest import MAILBOX, Channels, Sink, SinkFactory
from channels.writing import Post
from deciding import Decider
from signoff.broker.announcements import Announcer
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.work import CloseCard, Purpose, SendCard, SendStatus, purpose_of
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.email.settings import EmailSettings
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.informing import Notifications
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.milestones import Milestone
from signoff.core.base.errors import DecisionRefused
from signoff.core.directory.notifications import NotifyOn
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.policies.policy import Policy
from signoff.core.routing.targets import Reach
from signoff.testing import FakeChannel, VirtualClock
from signoff.worker import turn_results
from signoff.worker.port import TurnResult

ANN = Person(id="ann", name="Ann Audit", email="ann@example.com")
ALL = tuple(NotifyOn)


def usual(**more: object) -> Policy:
    """Return a policy that asks Mara, informs Ann, and tells Riley everything."""
    parts: dict[str, Any] = {
        "name": "expenses",
        "ask": ("mara",),
        "within": "4h",
        "inform": ("queue:audit",),
        "notify_requester": ALL,
    }
    return Policy(**(parts | more))


class Firm:
    """Mara approves, Ann is informed, Riley is the requester; `wait` delays news for a result.

    If it addresses at once, the messages about a decision do not go through the stage `route`.
    """

    def __init__(
        self, channels: Channels, *, wait: timedelta = timedelta(), at_once: bool = False
    ) -> None:
        queues = [Queue(name="audit", members=("ann",))]
        channels.directory = Directory([MARA, CLEO, RILEY, ANN], queues=queues)
        channels.policies = (usual(),)
        channels.decider = Decider(channels.ledger, channels.directory)
        self.channels, self.ledger = channels, channels.ledger
        self.notifications = Notifications(wait)
        self.at_once = at_once
        self.channel: FakeChannel = Post()

    def staff(self, *people: Person) -> None:
        """Use other people."""
        self.channels.directory = Directory(
            [*people], queues=[Queue(name="audit", members=("ann",))]
        )

    async def work(self) -> list[Message]:
        """Route and deliver all waiting work, and return the messages."""
        if self.at_once:
            self.ledger.announcer = announcer = Announcer(self.channels.directory)
            reach = Reach(["email"], self.notifications.requester_domains)
            announcer.listen([json.dumps({"rules": "r", "reach": reach.text})], "r")
        self.channel.delivered.clear()
        router = Router(
            self.ledger,
            policies=self.channels.policies,
            fallback=self.channels.fallback,
            directory=self.channels.directory,
            notifications=self.notifications,
        )
        await router.drain()
        await Delivery(
            self.ledger,
            self.channel,
            directory=self.channels.directory,
            inbox=InboxSettings(url="https://inbox.example"),
            notifications=self.notifications,
        ).drain()
        return list(self.channel.delivered)

    async def run_it(self, approval: Approval, *, result: str = '"paid"', text: str = "") -> None:
        """Run the tool and end the agent's turn."""
        here = await self.ledger.approval(approval.id)
        for step in (Handoff.STARTED, Handoff.FINISHED) if here.state is State.APPROVED else ():
            after, _ = here.hand_on(step, now=await self.ledger.now(), result=result)
            await self.ledger.commit(Change().put(after, was=here))
            here = await self.ledger.approval(approval.id)
        run = await self.ledger.run(here.origin.run)
        now = await self.ledger.now()
        change = turn_results.turn_ended(run, TurnResult(text=text), [here], {here.id}, {}, now=now)
        await self.ledger.commit(change)

    async def fail(self, approval: Approval, problem: str) -> None:
        """Let the run fail."""
        here = await self.ledger.approval(approval.id)
        run = await self.ledger.run(here.origin.run)
        now = await self.ledger.now()
        await self.ledger.commit(turn_results.failed(run, problem, [here], now=now))


@pytest.fixture(params=[False, True], ids=["by route", "at once"])
def firm(still_channels: Channels, request: pytest.FixtureRequest) -> Firm:
    """Return a firm whose messages are addressed by the stage `route`, or by each commit."""
    return Firm(still_channels, at_once=request.param)


def told(messages: list[Message]) -> list[tuple[str, str]]:
    """Return the recipients of all messages that are not cards."""
    return sorted((one.person, one.headline) for one in messages if one.kind is Kind.STATUS)


async def test_from_the_opening_to_the_end(firm: Firm) -> None:
    """Riley gets all messages, Ann those until the decision; no message can decide."""
    approval = await firm.channels.open()
    begun = await firm.work()
    waits = "reimburse waits for Mara Lind"
    assert told(begun) == [("ann", waits), ("riley", waits)]
    (card,) = [one for one in begun if one.kind is Kind.CARD]
    assert card.person == "mara"
    await firm.channels.decider.approve(approval.id, MARA, channel="email", reason="fine")
    decided = await firm.work()
    outcome = "Mara Lind approved reimburse"
    assert told(decided) == [("ann", outcome), ("riley", outcome)]
    await firm.run_it(approval, text="It is paid.")
    done = await firm.work()
    assert told(done) == [("riley", "reimburse has run")]
    (news,) = [one for one in done if one.person == "riley"]
    assert "It is paid." in news.text
    for one in (*begun, *decided, *done):
        if one.kind is Kind.STATUS:
            assert (one.token, one.example, one.offers) == ("", "", "")
            assert one.link == f"https://inbox.example/inbox/approvals/{approval.id}"


async def test_each_delivery_is_in_the_audit(firm: Firm) -> None:
    """It names the recipient, the channel and the milestone."""
    approval = await firm.channels.open()
    await firm.work()
    found = [
        (one.what, one.by, one.more["to"], one.more["notice"])
        for one in await firm.channels.events(approval)
        if "notice" in one.more
    ]
    assert sorted(found) == [
        (What.DELIVERED, "email", "ann", "opened"),
        (What.DELIVERED, "email", "riley", "opened"),
    ]
    (asked,) = [one for one in await firm.channels.events(approval) if one.what is What.ASKED]
    assert asked.more["informed"] == ["ann"]


async def test_escalation_message_names_old_and_new_approvers(
    firm: Firm, clock: VirtualClock
) -> None:
    """It names the people who did not decide and those who are asked now."""
    levels = [{"ask": ["mara"], "within": "1h"}, {"ask": ["cleo"], "within": "1h"}]
    firm.channels.policies = (usual(ask=(), levels=levels),)
    approval = await firm.channels.open()
    await firm.work()
    clock.advance(timedelta(hours=1))
    await firm.channels.decider.time_out(approval.id)
    news = await firm.work()
    headline = "reimburse was escalated to Cleo Park"
    assert told(news) == [("ann", headline), ("riley", headline)]
    (riley,) = [one for one in news if one.person == "riley"]
    assert "Mara Lind did not decide within 1 h" in riley.text
    clock.advance(timedelta(hours=1))
    await firm.channels.decider.time_out(approval.id)
    over = "The time to decide on reimburse is over"
    assert told(await firm.work()) == [("ann", over), ("riley", over)]


async def test_rejection_notice_has_the_reason_and_is_the_only_message(firm: Firm) -> None:
    """The end of the run causes no further message, because the call did not run."""
    approval = await firm.channels.open()
    await firm.work()
    await firm.channels.decider.reject(approval.id, MARA, channel="email", reason="too expensive")
    news = await firm.work()
    (riley,) = [one for one in news if one.person == "riley"]
    assert riley.headline == "Mara Lind rejected reimburse"
    assert "Reason: too expensive" in riley.text
    assert not riley.good
    await firm.run_it(approval, text="A pity.")
    assert told(await firm.work()) == []


async def test_failed_call_is_reported(firm: Firm) -> None:
    """The requester would wait for the result otherwise."""
    approval = await firm.channels.open()
    await firm.work()
    await firm.channels.decider.approve(approval.id, MARA, channel="email")
    await firm.work()
    await firm.fail(approval, "the session is gone")
    news = await firm.work()
    assert told(news) == [("riley", "The agent could not continue with reimburse")]
    (riley,) = [one for one in news if one.kind is Kind.STATUS]
    assert "the session is gone" in riley.text
    assert not riley.good


async def test_decision_and_result_are_reported_in_one_message(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The message about the decision waits for the result, and both people get one message."""
    firm = Firm(still_channels, wait=timedelta(seconds=15))
    firm.channels.policies = (Policy(name="expenses", ask=("mara",), within="4h"),)
    approval = await firm.channels.open()
    assert told(await firm.work()) == []
    await firm.channels.decider.approve(approval.id, MARA, channel="email", reason="fine")
    assert await firm.work() == [], "it waits for the result"
    await firm.run_it(approval, text="It is paid.")
    news = await firm.work()
    assert sorted((one.person, one.kind) for one in news) == [
        ("mara", Kind.END),
        ("riley", Kind.STATUS),
    ]
    for one in news:
        assert one.headline == "reimburse has run"
        assert "approved it on" in one.text
        assert "Note: fine" in one.text
        assert "It is paid." in one.text
    clock.advance(timedelta(minutes=1))
    assert await firm.work() == [], "nothing is told a second time"
    assert (await firm.ledger.backlog())["deliver.email"] == 0


async def test_slow_call_is_reported_in_two_messages(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The decision is reported after the time of the settings, even without a result."""
    firm = Firm(still_channels, wait=timedelta(seconds=15))
    approval = await firm.channels.open()
    await firm.work()
    await firm.channels.decider.approve(approval.id, MARA, channel="email")
    assert told(await firm.work()) == [("ann", "Mara Lind approved reimburse")], (
        "Ann waits for none"
    )
    clock.advance(timedelta(seconds=15))
    news = await firm.work()
    assert sorted((one.person, one.headline) for one in news) == [
        ("mara", "Recorded: you approved reimburse"),
        ("riley", "Mara Lind approved reimburse"),
    ]
    await firm.run_it(approval, text="It is paid.")
    assert sorted((one.person, one.headline) for one in await firm.work()) == [
        ("mara", "reimburse has run"),
        ("riley", "reimburse has run"),
    ]


async def test_decision_is_reported_after_a_turn_without_text_or_result(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """A turn without text and result does not delay the message forever."""
    firm = Firm(still_channels, wait=timedelta(seconds=15))
    approval = await firm.channels.open()
    await firm.work()
    await firm.channels.decider.reject(approval.id, MARA, channel="email", reason="no")
    assert "mara" not in [one.person for one in await firm.work()]
    await firm.run_it(approval)
    clock.advance(timedelta(seconds=15))
    (mara,) = [one for one in await firm.work() if one.person == "mara"]
    assert mara.headline == "Recorded: you rejected reimburse"


async def test_decided_request_sends_no_message_about_waiting(firm: Firm) -> None:
    """A request that is decided first causes no message about waiting."""
    approval = await firm.channels.open()
    router = firm.channels.router
    await router.drain()
    await firm.channels.decider.approve(approval.id, MARA, channel="email")
    outcome = "Mara Lind approved reimburse"
    assert told(await firm.work()) == [("ann", outcome), ("riley", outcome)]


async def test_informed_approver_gets_only_a_card(firm: Firm) -> None:
    """Later they get the outcome, like other approvers."""
    firm.channels.policies = (usual(inform=("mara", "cleo"), ask=("mara", "cleo")),)
    approval = await firm.channels.open()
    begun = await firm.work()
    assert sorted((one.person, one.kind) for one in begun) == [
        ("cleo", Kind.CARD),
        ("mara", Kind.CARD),
        ("riley", Kind.STATUS),
    ]
    await firm.channels.decider.approve(approval.id, MARA, channel="email")
    ended = await firm.work()
    assert sorted((one.person, one.kind) for one in ended) == [
        ("cleo", Kind.OUTCOME),
        ("mara", Kind.OUTCOME),
        ("riley", Kind.STATUS),
    ]


async def test_the_informed_cannot_vote(firm: Firm) -> None:
    """Their answer is refused in every channel."""
    approval = await firm.channels.open()
    await firm.work()
    with pytest.raises(DecisionRefused, match="not asked"):
        await firm.channels.decider.approve(approval.id, ANN, channel="inbox")


async def test_a_stranger_reads_neither_arguments_nor_results(firm: Firm) -> None:
    """A configured domain allows the mail, which only has the decision."""
    firm.notifications = replace(firm.notifications, requester_domains=("partner.example",))
    approval = await firm.channels.open(user="kim@partner.example", amount=2500, iban="DE02 1203")
    begun = await firm.work()
    await firm.channels.decider.approve(approval.id, MARA, channel="email", reason="fine")
    decided = await firm.work()
    await firm.run_it(approval, result='"s3cret"', text="The s3cret is out.")
    done = await firm.work()
    news = [one for one in (*begun, *decided, *done) if one.person == "kim@partner.example"]
    assert len(news) == 3
    for one in news:
        assert one.address == "kim@partner.example"
        assert one.link == ""
        assert "s3cret" not in f"{one.headline}{one.text}"
        assert "DE02" not in one.card.model_dump_json()


@pytest.mark.parametrize("domains", [(), ("example.org",)])
async def test_without_a_setting_no_mail_goes_to_a_stranger(
    firm: Firm, domains: tuple[str, ...]
) -> None:
    """An agent that names an address cannot send mail to it."""
    firm.notifications = Notifications(requester_domains=domains)
    await firm.channels.open(user="victim@partner.example")
    assert {one.person for one in await firm.work()} == {"mara", "ann"}


async def test_repeated_work_informs_people_once(firm: Firm, clock: VirtualClock) -> None:
    """A router without its lease commits nothing, and the same cause gives the same item."""
    approval = await firm.channels.open()
    await firm.work()
    await firm.channels.decider.approve(approval.id, MARA, channel="email")
    first = (await firm.ledger.claim("route", lease=10)).items
    clock.advance(timedelta(seconds=11))
    second = (await firm.ledger.claim("route", lease=10)).items
    for items in (first, second, second):
        await firm.channels.router.work(items)
    outcome = "Mara Lind approved reimburse"
    assert told(await firm.work()) == [("ann", outcome), ("riley", outcome)]
    assert told(await firm.work()) == []


class Stubborn(FakeChannel):
    """A channel that refuses everything."""

    async def deliver(self, messages: Any) -> list[Result]:
        """Refuse everything."""
        return [Refused("no such user")] * len(messages)


async def test_a_channel_that_refuses_is_replaced_by_mail(firm: Firm) -> None:
    """The audit has both deliveries, and no approver is asked again."""
    slack = RILEY.model_copy(update={"slack": "U0RILEY"})
    firm.staff(MARA, CLEO, slack, ANN)
    approval = await firm.channels.open()
    router = Router(
        firm.ledger,
        policies=firm.channels.policies,
        fallback=firm.channels.fallback,
        directory=firm.channels.directory,
        channels=("email", "slack"),
    )
    await router.drain()
    there = Delivery(firm.ledger, Stubborn("slack"), directory=firm.channels.directory)
    assert await there.drain() == 1
    assert ("riley", "reimburse waits for Mara Lind") in told(await firm.work())
    noted = [
        (one.what, one.by, one.why)
        for one in await firm.channels.events(approval)
        if one.more.get("to") == "riley"
    ]
    assert noted == [
        (What.UNDELIVERED, "slack", "no such user"),
        (What.DELIVERED, "email", ""),
    ]
    assert (await firm.ledger.approval(approval.id)).approvers == {"mara"}


async def test_a_mail_that_is_refused_ends_there(firm: Firm) -> None:
    """The audit has the refusal, and the approval continues."""
    firm.channel = FakeChannel(
        respond=lambda one: Refused("gone") if one.person == "ann" else Delivered(one.id)
    )
    approval = await firm.channels.open()
    await firm.work()
    (noted,) = [one for one in await firm.channels.events(approval) if one.what is What.UNDELIVERED]
    assert (noted.more["to"], noted.why) == ("ann", "gone")
    assert (await firm.ledger.approval(approval.id)).state is State.PENDING


def test_news_are_never_urgent() -> None:
    """Such messages differ from questions by their priority."""
    card = SendCard(channel="email", approval="ap_1", person="mara")
    news = SendStatus(channel="email", approval="ap_1", person="ann", milestone=Milestone.OPENED)
    outcome = CloseCard(channel="email", approval="ap_1", person="mara")
    assert purpose_of(card) is Purpose.ASK
    assert purpose_of(news) is purpose_of(outcome) is Purpose.INFORM


# With real mail.


class MailRoom:
    """The stages with SMTP: outgoing mail, and a server for answers."""

    def __init__(self, channels: Channels, sink: Sink, settings: EmailSettings) -> None:
        self.channels, self.sink, self.settings = channels, sink, settings
        self.server = MailServer(settings, channels.ledger)

    async def work(self) -> None:
        """Route and deliver all waiting work."""
        await self.channels.router.drain()
        channel = EmailChannel(self.settings)
        await Delivery(self.channels.ledger, channel, directory=self.channels.directory).drain()

    async def answer(self, sender: str, to: str, about: Any, text: str) -> None:
        """Send a mail as a mail program does, and process it."""
        client = aiosmtplib.SMTP(
            hostname="127.0.0.1", port=self.server.port, local_hostname="m.example", start_tls=False
        )
        async with client:
            await client.sendmail(sender, [to], self.raw(sender, to, about, text))
        await self.read()

    async def fetched(self, sender: str, to: str, about: Any, text: str) -> None:
        """Take in a mail from a mailbox, which cannot refuse it."""
        raw = self.raw(sender, to, about, text)
        await store(self.channels.ledger, raw, sender=sender, recipients=())
        await self.read()

    async def read(self) -> None:
        """Process the arrived mails."""
        await Intake(self.channels.decider, mailbox=MAILBOX).drain()
        await self.work()

    def raw(self, sender: str, to: str, about: Any, text: str) -> bytes:
        """Return a mail that answers another mail."""
        return (
            f"From: {sender}\r\nTo: {to}\r\nSubject: Re: {about['Subject']}\r\n"
            f"Message-ID: <{sender}.{len(self.sink.mails)}>\r\n"
            f"In-Reply-To: {about['Message-ID']}\r\n\r\n{text}\r\n"
        ).encode()

    def to(self, person: Person) -> list[Any]:
        """Return the mails to a person."""
        return [one for one in self.sink.mails if one["To"].addresses[0].addr_spec == person.email]


@pytest.fixture
async def mail_room(channels: Channels, start_sink: SinkFactory) -> AsyncIterator[MailRoom]:
    """Riley requests, Mara approves, Cleo is informed; each has a mailbox."""
    sink = await start_sink()
    settings = sink.settings()
    inbound = settings.inbound.model_copy(update={"port": 0})
    settings = settings.model_copy(update={"inbound": inbound})
    channels.policies = (usual(inform=("cleo",)),)
    made = MailRoom(channels, sink, settings)
    await made.server.start()
    yield made
    await made.server.stop()


async def test_from_the_request_to_the_last_mail(mail_room: MailRoom) -> None:
    """Real mails have no reply address and no deciding link, and a reply is ignored."""
    channels = mail_room.channels
    approval = await channels.open()
    await mail_room.work()
    (card,), (opened,), (informed,) = (mail_room.to(one) for one in (MARA, RILEY, CLEO))
    for news in (opened, informed):
        text = news.get_body(("plain",)).get_content()
        page = news.get_body(("html",)).get_content()
        assert news["Reply-To"] is None
        assert "+" not in str(news["From"])
        assert "mailto:" not in page
        assert "Replies to this mail are not read." in text
        assert str(news["Subject"]).startswith("reimburse waits for Mara Lind (finance) #")
        assert card["Reply-To"].addresses[0].username not in text + page
    for envelope in mail_room.sink.envelopes:
        mine = envelope.rcpt_tos != [MARA.email]
        assert ("+" in str(envelope.mail_from)) is not mine

    for person, news in ((CLEO, informed), (RILEY, opened)):
        with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
            await mail_room.answer(person.email, MAILBOX, news, "approve")
        await mail_room.fetched(person.email, MAILBOX, news, "approve")
    ignored = [text async for _, text, _ in audit.entries(channels.ledger.store)]
    assert sum(What.IGNORED_MAIL in text for text in ignored) == 2
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert len(mail_room.sink.mails) == 3, "nobody is written to because of them"

    await mail_room.answer(MARA.email, str(card["Reply-To"]), card, "approve")
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    last = [mail_room.to(one)[-1] for one in (RILEY, CLEO)]
    for news in last:
        assert str(news["Subject"]).startswith("Mara Lind approved reimburse (finance) #")
    assert len(mail_room.sink.mails) == 6
    ids = [str(one["Message-ID"]) for one in mail_room.sink.mails]
    assert len(set(ids)) == len(ids)
