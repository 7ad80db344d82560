"""Bundles: many cards for one person become one message; each approval stays separate."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from email.message import EmailMessage

import pytest

from builders import CLEO, MARA, RILEY
from channels.conftest import MAILBOX, Channels, SinkFactory
from channels.writing import Post
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.message_ids import MessageKey, bundle_named
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline import bundles
from signoff.channels.pipeline.bundles import BundleDelivery, BundleRule, find_bundle
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Channel, Delivered, Kind, Message, Refused, Result, Retry
from signoff.channels.pipeline.route import Router
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, Shown, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import LedgerUnavailable
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import FakeChannel, VirtualClock

PAGE = InboxSettings(url="https://approvals.example.com")
BUNDLING = BundleRule(over=3, within=timedelta(minutes=5))


@pytest.fixture
def crowd(still_channels: Channels) -> Channels:
    """Return the stages on the virtual clock, with a page and a channel that takes bundles."""
    still_channels.inbox = PAGE
    still_channels.channel = Post(bundles=True)
    return still_channels


def answering(crowd: Channels, respond: Callable[[Message], Result]) -> Channels:
    """Let the channel give these answers."""
    crowd.channel = Post(bundles=True, respond=respond)
    return crowd


def delivery(crowd: Channels, channel: Channel | None = None) -> Delivery:
    """Return a delivery that makes bundles."""
    return Delivery(
        crowd.ledger,
        channel or crowd.channel,
        directory=crowd.directory,
        inbox=crowd.inbox,
        bundling=BUNDLING,
    )


async def opened(crowd: Channels, count: int) -> list[Approval]:
    """Open this number of requests, and route all before the delivery."""
    found = [await crowd.open(amount=100 + number) for number in range(count)]
    await crowd.router.drain()
    return found


async def now(crowd: Channels, approvals: list[Approval]) -> list[Approval]:
    """Return the current approvals."""
    return await crowd.ledger.approvals([one.id for one in approvals])


def sent(crowd: Channels) -> list[tuple[Kind, int]]:
    """Return the deliveries: the kind, and the number of entries."""
    return [(one.kind, len(one.entries)) for one in crowd.channel.delivered]


async def test_requests_up_to_the_limit_get_their_own_cards(crowd: Channels) -> None:
    """Up to the limit, every request has its own card."""
    await opened(crowd, 3)
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.CARD, 0)] * 3


async def test_requests_above_the_limit_are_one_message(crowd: Channels) -> None:
    """With a limit of three, four become one message with a link to each."""
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()

    (message,) = crowd.channel.delivered
    assert (message.kind, message.person, message.address) == (Kind.BUNDLE, "mara", MARA.email)
    assert message.headline == "4 requests wait for your decision"
    links = {f"{PAGE.url}/inbox/approvals/{one.id}" for one in approvals}
    assert {one.link for one in message.entries} == links
    call = "reimbursement_agent asks to run reimburse"
    assert {one.title for one in message.entries} == {f"{call}: amount {100 + n}" for n in range(4)}
    assert message.card.approval.startswith("bn_")
    assert set((await crowd.ledger.backlog()).values()) == {0}


async def test_each_channel_of_a_policy_has_its_bundle(crowd: Channels) -> None:
    """People who are asked in Slack and by mail get one message with all requests in each."""
    crowd.directory = Directory([MARA.model_copy(update={"slack": "U0MARA"}), CLEO, RILEY])
    policy = Policy(name="expenses", ask=("mara",), channels=("slack", "email"))
    for number in range(4):
        await crowd.open(amount=100 + number)
    await Router(
        crowd.ledger,
        policies=[policy],
        fallback=crowd.fallback,
        directory=crowd.directory,
        channels=("email", "slack"),
    ).drain()
    for name in ("slack", "email"):
        channel = FakeChannel(name, bundles=True)
        await delivery(crowd, channel).drain()
        assert [(one.kind, len(one.entries)) for one in channel.delivered] == [(Kind.BUNDLE, 4)]


async def test_a_bundle_is_the_delivery_of_each(crowd: Channels) -> None:
    """Each approval has the receipt, and does not count as shown in full."""
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    (message,) = crowd.channel.delivered
    for one in await now(crowd, approvals):
        (asked,) = one.asked
        assert (asked.receipt, asked.bundle) == (f"fake:{message.id}", message.card.approval)
        assert asked.shown is Shown.CUT
        assert await crowd.whats(one) == [What.OPENED, What.ASKED, What.DELIVERED]


async def test_later_requests_wait_for_minutes_and_share_one_message(
    crowd: Channels, clock: VirtualClock
) -> None:
    """The first come alone; later ones wait for minutes and come in one message."""
    for _ in range(9):
        await opened(crowd, 1)
        await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.CARD, 0)] * 3

    clock.advance(BUNDLING.within + timedelta(seconds=1))
    await delivery(crowd).drain()

    assert sent(crowd) == [(Kind.CARD, 0)] * 3 + [(Kind.BUNDLE, 6)]


async def test_second_group_within_minutes_is_bundled_in_one_message(
    crowd: Channels, clock: VirtualClock
) -> None:
    """Two groups are two messages; later ones within the same minutes share one."""
    await opened(crowd, 5)
    await delivery(crowd).drain()
    for _ in range(2):
        await opened(crowd, 5)
        await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.BUNDLE, 5)]
    clock.advance(BUNDLING.within + timedelta(seconds=1))
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.BUNDLE, 5), (Kind.BUNDLE, 10)]


async def test_single_waiting_request_is_sent_as_a_card(
    crowd: Channels, clock: VirtualClock
) -> None:
    """A single request is sent as a card."""
    for _ in range(4):
        await opened(crowd, 1)
        await delivery(crowd).drain()
    clock.advance(BUNDLING.within + timedelta(seconds=1))
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.CARD, 0)] * 4


@pytest.mark.parametrize(
    ("policy", "inbox"),
    [
        (Policy(name="urgent", ask=("mara",), within="4h", urgent=True), PAGE),
        (Policy(name="plain", ask=("mara",), within="4h"), InboxSettings()),
    ],
    ids=["urgent", "no page"],
)
async def test_urgent_requests_and_requests_without_a_page_are_not_bundled(
    crowd: Channels, policy: Policy, inbox: InboxSettings
) -> None:
    """Urgent requests are not, nor is any request without a page to link to."""
    crowd.policies, crowd.inbox = (policy,), inbox
    await opened(crowd, 8)
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.CARD, 0)] * 8


async def test_request_close_to_its_deadline_does_not_wait_for_a_bundle(crowd: Channels) -> None:
    """A request that ends in six minutes does not wait for five."""
    crowd.policies = (Policy(name="short", ask=("mara",), within="6m"),)
    for _ in range(5):
        await opened(crowd, 1)
        await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.CARD, 0)] * 5


async def test_bundling_counts_each_person_separately(crowd: Channels) -> None:
    """Many cards for Mara do not affect the few for Cleo."""
    await opened(crowd, 4)
    crowd.policies = (Policy(name="cleo", ask=("cleo",), within="4h"),)
    await opened(crowd, 2)
    await delivery(crowd).drain()
    to = Counter((one.kind, one.person) for one in crowd.channel.delivered)
    assert to == {(Kind.BUNDLE, "mara"): 1, (Kind.CARD, "cleo"): 2}


async def test_a_refused_bundle_is_refused_for_each(crowd: Channels) -> None:
    """For a person who cannot be reached, each request is refused and the default is asked."""
    answering(
        crowd, lambda one: Refused("no such user") if one.person == "mara" else Delivered(one.id)
    )
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    await crowd.router.drain()
    for one in await now(crowd, approvals):
        assert [(asked.person, asked.problem) for asked in one.asked] == [
            ("mara", "no such user"),
            ("cleo", ""),
        ]


async def test_a_bundle_arrives_after_an_outage_if_nobody_else_could_be_asked(
    crowd: Channels, clock: VirtualClock
) -> None:
    """Mail is away for three hours; the requests that still wait are then in one message."""
    crowd.policies = (Policy(name="patient", ask=("mara",), within="2d"),)
    crowd.fallback = Fallback(ask=("mara",), within="2d")
    answering(crowd, lambda _: Retry(0, "the mail server is away"))
    approvals = await opened(crowd, 5)
    for _ in range(36):
        await crowd.router.drain()
        await delivery(crowd).drain()
        clock.advance(timedelta(minutes=5))
    assert len(await crowd.ledger.unreachable()) == 5
    for one in approvals:
        assert (await crowd.whats(one)).count(What.UNDELIVERED) == 1
    await crowd.decider.withdraw(approvals[0].id, by="riley", reason="no")

    crowd.channel = Post(bundles=True)
    clock.advance(timedelta(minutes=13))
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.BUNDLE, 4)]
    assert await crowd.ledger.unreachable() == []
    assert {one.asked[0].problem for one in (await now(crowd, approvals))[1:]} == {""}
    clock.advance(timedelta(minutes=13))
    assert await delivery(crowd).drain() == 0


async def test_retried_bundle_keeps_its_id_and_only_pending_entries(
    crowd: Channels, clock: VirtualClock
) -> None:
    """It has the same id and only the entries that still wait."""
    seen: list[Message] = []

    def respond(message: Message) -> Result:
        seen.append(message)
        return Retry(5, "greylisted") if len(seen) == 1 else Delivered("1")

    answering(crowd, respond)
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    await crowd.decider.approve(approvals[0].id, MARA, channel="inbox", reason="")
    clock.advance(timedelta(seconds=10))
    await delivery(crowd).drain()

    bundle = [one for one in seen if one.kind is Kind.BUNDLE]
    assert [len(one.entries) for one in bundle] == [4, 3]
    assert bundle[0].id == bundle[1].id
    assert [one.asked[0].receipt for one in await now(crowd, approvals)] == ["", "1", "1", "1"]


async def test_unrecorded_bundle_is_sent_again_with_the_same_id(
    crowd: Channels, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that was sent but not recorded has the same id, and is recorded once."""

    async def dies(*_: object) -> None:
        raise KeyboardInterrupt

    approvals = await opened(crowd, 4)
    with monkeypatch.context() as patch:
        patch.setattr(BundleDelivery, "_committed", dies)
        with pytest.raises(KeyboardInterrupt):
            await delivery(crowd).drain()
    clock.advance(timedelta(seconds=11))
    await delivery(crowd).drain()
    first, second = crowd.channel.delivered
    assert (first.id, first.entries) == (second.id, second.entries)
    assert second.unsure
    for one in await now(crowd, approvals):
        assert (await crowd.whats(one)).count(What.DELIVERED) == 1


async def test_bundle_is_delivered_after_a_redis_outage(
    crowd: Channels, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage of Redis, all requests are listed."""

    async def away(*_: object) -> None:
        raise LedgerUnavailable("Redis is away.")

    await opened(crowd, 4)
    with monkeypatch.context() as patch:
        patch.setattr(bundles, "read_each", away)
        with pytest.raises(LedgerUnavailable):
            await delivery(crowd).drain()
    clock.advance(timedelta(seconds=11))
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.BUNDLE, 4)]


async def test_bundled_requests_send_no_outcome_mails(crowd: Channels) -> None:
    """Decisions on the page about bundled requests send no mails."""
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    crowd.channel.delivered.clear()
    for one in approvals:
        await crowd.decider.approve(one.id, MARA, channel="inbox", reason="")
    await delivery(crowd).drain()
    assert crowd.channel.delivered == []
    assert (await crowd.ledger.backlog())["deliver.email"] == 0


async def test_next_level_sends_a_card_to_a_person_who_got_a_bundle(
    crowd: Channels, clock: VirtualClock
) -> None:
    """A person who is asked again gets a card, because the list is not a copy of it."""
    levels = (Level(ask=("mara",), within="1h"), Level(ask=("mara",), within="4h"))
    crowd.policies = (Policy(name="twice", levels=levels),)
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    clock.advance(timedelta(hours=1))
    assert await crowd.decider.time_out(approvals[0].id) is not None
    await crowd.router.drain()
    await delivery(crowd).drain()
    (asked,) = (await now(crowd, approvals))[0].asked
    assert (asked.bundle, asked.copies) == ("", ())
    assert asked.receipt


async def test_simultaneous_reminders_are_one_message(crowd: Channels, clock: VirtualClock) -> None:
    """Four reminders at the same time are one message."""
    crowd.policies = (Policy(name="late", ask=("mara",), within="4h", remind=("1h",)),)
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    clock.advance(timedelta(hours=1))
    for one in approvals:
        await crowd.decider.time_out(one.id)
    await crowd.router.drain()
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.BUNDLE, 4)] * 2
    assert crowd.channel.delivered[1].headline == "A reminder: 4 requests wait for your decision"


async def test_a_long_list_is_several(crowd: Channels) -> None:
    """A message has a limited number of entries."""
    await opened(crowd, bundles.MOST + 2)
    await delivery(crowd).drain()
    assert Counter(sent(crowd)) == {(Kind.BUNDLE, bundles.MOST): 1, (Kind.BUNDLE, 2): 1}


@pytest.mark.parametrize("seed", range(4))
async def test_random_bundles_deliver_each_request_once(
    crowd: Channels, clock: VirtualClock, seed: int
) -> None:
    """With random groups, pauses and failures, each request is delivered once."""
    dice = random.Random(seed)

    def respond(message: Message) -> Result:
        return Retry(3, "later", unsure=False) if dice.random() < 0.3 else Delivered(message.id)

    answering(crowd, respond)
    approvals: list[Approval] = []
    for _ in range(6):
        approvals += await opened(crowd, dice.randrange(6))
        await delivery(crowd).drain()
        clock.advance(timedelta(seconds=dice.randrange(400)))
    for _ in range(12):
        clock.advance(timedelta(minutes=2))
        await delivery(crowd).drain()

    links = [one.link for each in crowd.channel.delivered for one in each.entries]
    alone = [one.link for one in crowd.channel.delivered if one.kind is Kind.CARD]
    assert Counter(links + alone) == Counter(PAGE.link_to(one.id) for one in approvals)
    for one in await now(crowd, approvals):
        assert (await crowd.whats(one)).count(What.DELIVERED) == 1


def answer(bundle: Message, text: str, *, sender: str = MARA.email, number: int = 1) -> bytes:
    """Return a mail that answers a bundle."""
    local, _, domain = MAILBOX.partition("@")
    mail = EmailMessage()
    mail["From"], mail["To"] = sender, f"{local}+{bundle.token}@{domain}"
    mail["Subject"] = f"Re: {bundle.headline}"
    mail["Message-ID"] = f"<answer-{number}@mail.example>"
    mail.set_content(text)
    return mail.as_bytes()


async def taken(crowd: Channels, raw: bytes) -> None:
    """Take in a person's mail, and deliver the replies."""
    await store(crowd.ledger, raw, sender=MARA.email, recipients=())
    await Intake(crowd.decider, mailbox=MAILBOX).drain()
    await delivery(crowd).drain()


async def test_approval_of_a_bundle_gets_the_list_again_once_a_day(crowd: Channels) -> None:
    """A yes to a list approves nothing: the person gets the list again, once a day."""
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    (bundle,) = crowd.channel.delivered
    assert bundle.token

    await taken(crowd, answer(bundle, "approve"))
    await taken(crowd, answer(bundle, "approve all", number=2))

    assert {one.state for one in await now(crowd, approvals)} == {State.PENDING}
    _, again = crowd.channel.delivered
    assert again.headline == "Which request do you mean? Nothing was decided"
    assert again.reply_to == "<answer-1@mail.example>"
    assert (again.person, len(again.entries)) == ("mara", 4)
    assert not any(one.votes for one in await now(crowd, approvals))


async def test_forwarded_bundle_answer_gets_no_reply(crowd: Channels) -> None:
    """A person with a forwarded list gets no reply, and neither does its owner."""
    await opened(crowd, 4)
    await delivery(crowd).drain()
    (bundle,) = crowd.channel.delivered
    await taken(crowd, answer(bundle, "approve", sender=CLEO.email))
    assert crowd.channel.delivered == [bundle]


def bounced(to: str, returned: str = "") -> bytes:
    """Return a delivery status notification (RFC 3464)."""
    lines = [
        "From: Mail Delivery System <mailer-daemon@mx.example>",
        f"To: {to}",
        "Subject: Undelivered Mail Returned to Sender",
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
        "",
        "--b",
        "Content-Type: message/delivery-status",
        "",
        "Reporting-MTA: dns; mx.example",
        "",
        "Final-Recipient: rfc822; mara@example.com",
        "Action: failed",
        "Status: 5.1.1",
        "",
        "--b",
        "Content-Type: text/rfc822-headers",
        "",
        f"Message-ID: {returned}",
        "",
        "--b--",
        "",
    ]
    return "\r\n".join(lines).encode()


@pytest.mark.parametrize("by", ["address", "message id", "forged message id"])
async def test_a_bundle_that_bounces_is_refused_for_each(
    crowd: Channels, start_sink: SinkFactory, by: str
) -> None:
    """A real mail returns to its envelope's address or with its Message-ID: each is refused."""
    sink = await start_sink()
    key = MessageKey(crowd.ledger)
    approvals = await opened(crowd, 4)
    await delivery(crowd, EmailChannel(sink.settings(), key=key)).drain()
    (mail,) = sink.mails
    assert bundle_named(str(mail["Message-ID"])).startswith("bn_")
    to, returned = str(mail["Reply-To"]), ""
    if by != "address":
        to, returned = MAILBOX, str(mail["Message-ID"])
    if by == "forged message id":
        returned = returned.replace("<signoff.", "<signoff.a", 1)

    await store(crowd.ledger, bounced(to, returned), sender="", recipients=())
    await Intake(crowd.decider, mailbox=MAILBOX, key=key).drain()

    problems = {one.asked[0].problem for one in await now(crowd, approvals)}
    forged = by == "forged message id"
    assert problems == ({""} if forged else {"the mail system sent the card back"})


async def test_bundle_mail_lists_each_request_once_without_buttons(
    crowd: Channels, start_sink: SinkFactory
) -> None:
    """Text and HTML list each request once, without a button or a deciding word."""
    sink = await start_sink()
    approvals = await opened(crowd, 4)
    await delivery(crowd, EmailChannel(sink.settings())).drain()
    (mail,) = sink.mails
    assert str(mail["Subject"]).startswith("4 requests wait for your decision #")
    assert mail["Auto-Submitted"] == "auto-generated"
    for kind in ("plain", "html"):
        body = mail.get_body((kind,))
        assert body is not None
        text = body.get_content()
        for one in approvals:
            assert text.count(PAGE.link_to(one.id)) == 1
        assert "mailto:" not in text
        assert not [line for line in text.splitlines() if line.lower().startswith("approve")]
        assert all(token not in text for token in str(mail["Reply-To"]).split("+")[1:])


async def test_bundle_record_outlives_its_items(crowd: Channels) -> None:
    """The list is kept, because bounces and answers come later."""
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    (bundle,) = crowd.channel.delivered
    known = await find_bundle(crowd.ledger, bundle.card.approval)
    assert known is not None
    assert {one.approval for one in known.listed} == {one.id for one in approvals}
    assert await find_bundle(crowd.ledger, "bn_none") is None


async def test_card_that_may_have_arrived_alone_is_sent_alone_again(
    crowd: Channels, clock: VirtualClock
) -> None:
    """The process died while it sent three cards: they have the same ids and are in no bundle."""
    tried: list[str] = []

    def dies(message: Message) -> Result:
        tried.append(message.id)
        raise KeyboardInterrupt

    answering(crowd, dies)
    await opened(crowd, 1)
    with pytest.raises(KeyboardInterrupt):
        await delivery(crowd).drain()
    answering(crowd, lambda one: Delivered(one.id))
    await opened(crowd, 4)
    clock.advance(timedelta(minutes=1))
    await delivery(crowd).drain()
    assert Counter(sent(crowd)) == {(Kind.CARD, 0): 1, (Kind.BUNDLE, 4): 1}
    (card,) = (one for one in crowd.channel.delivered if one.kind is Kind.CARD)
    assert [card.id] == tried
    assert card.unsure


async def test_card_that_the_channel_has_put_back_is_sent_alone(
    crowd: Channels, clock: VirtualClock
) -> None:
    """Slack wants a pause, which is no attempt; the card was counted, so it waits for no others."""
    answering(crowd, lambda _: Retry(3, "too fast", counted=False))
    await opened(crowd, 1)
    await delivery(crowd).drain()
    answering(crowd, lambda one: Delivered(one.id))
    await opened(crowd, 4)
    clock.advance(timedelta(seconds=4))
    await delivery(crowd).drain()
    assert Counter(sent(crowd)) == {(Kind.CARD, 0): 1, (Kind.BUNDLE, 4): 1}


async def test_urgent_time_left_is_not_spent_waiting_beside_others(
    crowd: Channels, clock: VirtualClock
) -> None:
    """A group waits after a bundle; the request in it that ends in six minutes does not."""
    await opened(crowd, 4)
    await delivery(crowd).drain()
    await opened(crowd, 4)
    crowd.policies = (Policy(name="short", ask=("mara",), within="6m"),)
    (short,) = await opened(crowd, 1)
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.BUNDLE, 4), (Kind.CARD, 0)]
    assert crowd.channel.delivered[1].card.approval == short.id
    clock.advance(BUNDLING.within + timedelta(seconds=1))
    await delivery(crowd).drain()
    assert sent(crowd)[2:] == [(Kind.BUNDLE, 4)]


async def test_bundle_whose_requests_have_all_ended_is_not_sent(
    crowd: Channels, clock: VirtualClock
) -> None:
    """All are withdrawn before it goes out: nothing is sent, and nothing waits."""
    answering(crowd, lambda _: Retry(5, "greylisted"))
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    for one in approvals:
        await crowd.decider.withdraw(one.id, by="riley", reason="no")
    answering(crowd, lambda one: Delivered(one.id))
    for _ in range(6):
        clock.advance(timedelta(minutes=1))
        await delivery(crowd).drain()
    assert crowd.channel.delivered == []
    assert (await crowd.ledger.backlog())["deliver.email"] == 0


async def test_retried_bundle_omits_requests_that_moved_to_the_next_level(
    crowd: Channels, clock: VirtualClock
) -> None:
    """One went on to its next level, where the same person has a card of their own for it."""
    levels = (Level(ask=("mara",), within="1h"), Level(ask=("mara",), within="4h"))
    crowd.policies = (Policy(name="twice", levels=levels),)
    answering(crowd, lambda _: Retry(3590, "greylisted"))
    approvals = await opened(crowd, 3)
    clock.advance(timedelta(minutes=1))
    approvals += await opened(crowd, 1)
    await delivery(crowd).drain()
    clock.advance(timedelta(minutes=59))
    for one in approvals[:3]:
        assert await crowd.decider.time_out(one.id) is not None
    await crowd.router.drain()
    answering(crowd, lambda one: Delivered(one.id))
    clock.advance(timedelta(seconds=55))
    await delivery(crowd).drain()
    assert Counter(sent(crowd)) == {(Kind.CARD, 0): 3, (Kind.BUNDLE, 1): 1}
    for one in await now(crowd, approvals):
        assert (await crowd.whats(one)).count(What.DELIVERED) == 1


async def test_retried_bundle_omits_requests_that_its_reader_gave_away(
    crowd: Channels, clock: VirtualClock
) -> None:
    """Mara reassigned one to Cleo before the bundle went out: it lists the others."""
    answering(crowd, lambda _: Retry(5, "greylisted"))
    approvals = await opened(crowd, 4)
    await delivery(crowd).drain()
    given = moves.Reassign(of=MARA, to=CLEO, reason="yours")
    await crowd.decider.made(approvals[0].id, given, MARA, channel="inbox")
    answering(crowd, lambda one: Delivered(one.id))
    clock.advance(timedelta(seconds=10))
    await delivery(crowd).drain()
    (bundle,) = (one for one in crowd.channel.delivered if one.person == "mara")
    links = {PAGE.link_to(one.id) for one in approvals[1:]}
    assert {one.link for one in bundle.entries} == links


async def test_unreadable_request_hides_no_other_of_its_bundle(
    crowd: Channels, clock: VirtualClock
) -> None:
    """The record of one is damaged before the bundle goes out; the other three are listed."""
    answering(crowd, lambda _: Retry(5, "greylisted"))
    damaged, *others = await opened(crowd, 4)
    await delivery(crowd).drain()
    store = crowd.ledger.store
    await store.client.set(f"{store.prefix}approval:{damaged.id}", "1 x {}")
    answering(crowd, lambda one: Delivered(one.id))
    clock.advance(timedelta(seconds=10))
    await delivery(crowd).drain()
    (message,) = crowd.channel.delivered
    assert {one.link for one in message.entries} == {PAGE.link_to(one.id) for one in others}
    for one in await now(crowd, others):
        assert one.asked[0].receipt


class Broken:
    """Pages that cannot say where one request is, once its card is in a bundle."""

    def __init__(self) -> None:
        self.broken = ""

    def link_to(self, approval: str) -> str:
        """Return the page of a request."""
        if approval == self.broken:
            raise ValueError("no page")
        return PAGE.link_to(approval)


async def test_bundle_that_cannot_be_made_does_not_stop_the_others(
    crowd: Channels, clock: VirtualClock
) -> None:
    """The bundle for Mara fails and is tried again; that for Cleo goes out."""
    answering(crowd, lambda _: Retry(5, "greylisted"))
    pages = Broken()

    async def deliver() -> None:
        await Delivery(
            crowd.ledger, crowd.channel, directory=crowd.directory, inbox=pages, bundling=BUNDLING
        ).drain()

    broken, *_ = await opened(crowd, 4)
    crowd.policies = (Policy(name="cleo", ask=("cleo",), within="4h"),)
    await opened(crowd, 4)
    await deliver()

    pages.broken = broken.id
    answering(crowd, lambda one: Delivered(one.id))
    clock.advance(timedelta(seconds=10))
    await deliver()
    assert [(one.kind, one.person) for one in crowd.channel.delivered] == [(Kind.BUNDLE, "cleo")]

    pages.broken = ""
    clock.advance(timedelta(minutes=1))
    await deliver()
    assert {one.person for one in crowd.channel.delivered} == {"cleo", "mara"}
    assert set((await crowd.ledger.backlog()).values()) == {0}


async def test_cards_that_another_process_has_taken_are_not_sent(
    crowd: Channels, clock: VirtualClock
) -> None:
    """The leases of the first process ran out: it sends nothing, and the second sends each once."""
    await opened(crowd, 4)
    first = await crowd.ledger.claim("deliver.email", lease=10)
    clock.advance(timedelta(seconds=11))
    second = await crowd.ledger.claim("deliver.email", lease=60)
    assert len(second.items) == 4
    await delivery(crowd).work(first.items)
    assert crowd.channel.delivered == []
    await delivery(crowd).work(second.items)
    await delivery(crowd).drain()
    assert sent(crowd) == [(Kind.CARD, 0)] * 4


async def test_given_up_bundle_is_not_tried_for_people_whom_a_mail_has_reached(
    crowd: Channels, clock: VirtualClock
) -> None:
    """Slack was away until the bundle was given up, and the mails arrived: it is not sent."""
    crowd.directory = Directory([MARA.model_copy(update={"slack": "U0MARA"}), CLEO, RILEY])
    policy = Policy(name="both", ask=("mara",), channels=("slack", "email"), within="2d")
    slack = FakeChannel("slack", bundles=True, respond=lambda _: Retry(0, "Slack is away"))
    for number in range(4):
        await crowd.open(amount=100 + number)
    router = Router(
        crowd.ledger,
        policies=[policy],
        fallback=crowd.fallback,
        directory=crowd.directory,
        channels=("email", "slack"),
    )
    for _ in range(36):
        await router.drain()
        await delivery(crowd).drain()
        await delivery(crowd, slack).drain()
        clock.advance(timedelta(minutes=5))
    assert sent(crowd) == [(Kind.BUNDLE, 4)]
    assert (await crowd.ledger.backlog())["deliver.slack"] == 0
    slack.respond = lambda one: Delivered(one.id)
    clock.advance(timedelta(hours=1))
    await delivery(crowd, slack).drain()
    assert slack.delivered == []


async def test_bundle_that_waits_too_long_is_asked_about_elsewhere_once(
    crowd: Channels, clock: VirtualClock
) -> None:
    """After a quarter of the shortest time, all that still wait are mailed, once."""
    crowd.directory = Directory([MARA.model_copy(update={"slack": "U0MARA"}), CLEO, RILEY])
    policies = [
        Policy(name="short", when="tool == 'short'", ask=("mara",), within="40m"),
        Policy(name="open", when="tool == 'open'", ask=("mara",), within="8h"),
    ]
    slack = FakeChannel("slack", bundles=True, respond=lambda _: Retry(60, "later"))
    router = Router(
        crowd.ledger,
        policies=policies,
        fallback=crowd.fallback,
        directory=crowd.directory,
        channels=("email", "slack"),
    )

    async def mailed(minutes: int) -> list[str]:
        for _ in range(minutes):
            clock.advance(timedelta(minutes=1))
            await router.drain()
            await delivery(crowd, slack).drain()
            await delivery(crowd).drain()
        return [one.card.approval for one in crowd.channel.delivered if one.kind is Kind.CARD]

    approvals = [await crowd.open(tool=tool) for tool in ("short", "short", "open", "open")]
    await router.drain()
    await delivery(crowd, slack).drain()
    await crowd.decider.withdraw(approvals[0].id, by="riley", reason="no")
    assert await mailed(8) == []
    assert sorted(await mailed(6)) == sorted(one.id for one in approvals[1:])
    assert len(await mailed(6)) == 3
    assert slack.delivered == []


class Slow(Post):
    """A channel that rewrites, and during whose first delivery something happens."""

    rewrites = True
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Let it happen, and deliver."""
        if (meanwhile := self.meanwhile) is not None:
            self.meanwhile = None
            await meanwhile()
        return await super().deliver(messages)


async def test_request_that_ends_while_its_bundle_is_sent_is_struck_out(
    crowd: Channels, clock: VirtualClock
) -> None:
    """The list has arrived with an open request that was decided meanwhile: it is rewritten."""
    crowd.channel = slow = Slow(bundles=True)
    first, *_ = await opened(crowd, 4)

    async def decided() -> None:
        await crowd.decider.approve(first.id, MARA, channel="inbox", reason="")

    slow.meanwhile = decided
    for _ in range(3):
        await delivery(crowd).drain()
        clock.advance(timedelta(seconds=10))
    one, two = slow.delivered
    assert [entry.outcome for entry in one.entries] == [""] * 4
    assert two.thread == f"fake:{one.id}"
    ended = {entry.link: entry.outcome for entry in two.entries if entry.outcome}
    assert ended == {PAGE.link_to(first.id): "approved by Mara Lind"}
    assert (await crowd.ledger.backlog())["deliver.email"] == 0
