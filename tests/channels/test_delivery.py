"""The delivery of a card and of its updates, and failures of a channel."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from builders import CLEO, MARA
from channels.conftest import Channels
from deciding import Decider
from services import plain_redis
from signoff.broker import stages
from signoff.broker.freezes import Freezes
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.reconciler import Reconciler
from signoff.broker.work import AskElsewhere, AskOthers, SendReminder
from signoff.channels.pipeline import outbox
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result, Retry
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, Shown, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import LedgerError, LedgerUnavailable
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, OnTimeout, Policy
from signoff.testing import FakeChannel, VirtualClock

BOTH = (Policy(name="both", ask=("mara", "cleo"), within="4h"),)


async def test_a_delivered_card_is_noted_with_its_receipt(channels: Channels) -> None:
    """The channel's receipt is stored with the approver."""
    approval, token = await channels.ask()

    (asked,) = approval.asked
    (message,) = channels.channel.delivered
    assert (asked.receipt, asked.problem) == (f"fake:{message.id}", "")
    assert (message.kind, message.person, message.name) == (Kind.CARD, "mara", "Mara Lind")
    assert (message.address, message.token) == ("mara@example.com", token)
    assert message.card.rows[0].value == "2500"
    assert await channels.whats(approval) == [What.OPENED, What.ASKED, What.DELIVERED]
    assert set((await channels.ledger.backlog()).values()) == {0}


async def test_a_delivery_that_cannot_be_committed_is_not_repeated(
    tmp_path: Path, directory: Directory, clock: VirtualClock
) -> None:
    """A Redis that is full when the mail has been sent gets its record when it has room again."""
    with (
        plain_redis(tmp_path, maxmemory_policy="noeviction") as url,
        redis.Redis.from_url(url) as client,
    ):
        ledger = Ledger(Store.open(url, clock=clock))

        def fill(message: Message) -> Result:
            if message.card.approval != similar.id:
                client.config_set("maxmemory", 1)
            return Delivered("receipt", shown=Shown.COMPLETE)

        channel = FakeChannel(respond=fill)
        made = Channels(ledger, Decider(ledger, directory), directory, channel, virtual=clock)
        similar = await made.open(amount=2400)
        await made.router.drain()
        await made.delivery.drain()
        channel.delivered.clear()
        approval = await made.open(amount=2500)
        await made.router.drain()
        delivery = made.delivery
        with pytest.raises(LedgerUnavailable, match="maxmemory"):
            await delivery.drain()
        client.config_set("maxmemory", 0)
        # The card would now say that she has approved a similar one.
        await made.decider.approve(similar.id, MARA, channel="email")
        clock.advance(timedelta(seconds=2 * outbox.LEASE))
        await delivery.drain()
        cards = [one for one in channel.delivered if one.kind is Kind.CARD]
        assert [one.card.approval for one in cards] == [approval.id]
        (asked,) = (await ledger.approval(approval.id)).asked
        assert asked.receipt == "receipt"
        assert (await ledger.backlog())["deliver.email"] == 0
        await ledger.close()


async def test_undelivered_card_is_retried_later(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """An undelivered card is put back, and delivered at its time."""
    channels = still_channels
    results: list[Result] = [Retry(0, "greylisted"), Delivered("receipt")]
    channels.channel = FakeChannel(respond=lambda _: results.pop(0))
    approval = await channels.open()
    await channels.router.drain()

    assert await channels.delivery.drain() == 1
    assert await channels.delivery.drain() == 0
    clock.advance(timedelta(seconds=7))
    assert await channels.delivery.drain() == 1

    assert (await channels.ledger.approval(approval.id)).asked[0].receipt == "receipt"


async def test_the_channel_may_wish_for_a_longer_pause(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The longer of the two pauses counts."""
    channels = still_channels
    channels.channel = FakeChannel(respond=lambda _: Retry(300, "slow down"))
    await channels.open()
    await channels.router.drain()
    await channels.delivery.drain()

    clock.advance(timedelta(seconds=299))
    assert await channels.delivery.drain() == 0
    clock.advance(timedelta(seconds=2))
    assert await channels.delivery.drain() == 1


async def test_card_is_given_up_after_the_last_attempt(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """After the last attempt the card is given up, and the default is asked."""
    channels = still_channels
    channels.policies = (Policy(name="patient", ask=("mara",), within="2d"),)
    channels.channel = FakeChannel(respond=lambda _: Retry(0, "the mail server is away"))
    approval = await channels.open()
    await channels.router.drain()
    for _ in range(outbox.MOST_ATTEMPTS):
        assert await channels.delivery.drain() == 1
        clock.advance(timedelta(minutes=13))

    (asked,) = (await channels.ledger.approval(approval.id)).asked
    assert "the mail server is away (given up after 13 attempts)" in asked.problem
    routed = (await channels.ledger.claim(stages.ROUTE)).items
    assert [type(item.work) for item in routed] == [AskElsewhere, AskOthers]


@pytest.mark.parametrize("ask", [("mara",), ("mara", "cleo")])
async def test_a_card_arrives_after_an_outage_if_nobody_else_could_be_asked(
    still_channels: Channels, clock: VirtualClock, ask: tuple[str, ...]
) -> None:
    """Mail is away for three hours. Nobody can be asked meanwhile, and then everybody is."""
    channels = still_channels
    approval = await _outage(channels, ask)
    assert [one.id for one in await channels.ledger.unreachable()] == [approval.id]
    whats = await channels.whats(approval)
    assert whats.count(What.UNDELIVERED) == len(ask)

    channels.channel = FakeChannel()
    clock.advance(timedelta(minutes=13))
    await channels.delivery.drain()
    asked = (await channels.ledger.approval(approval.id)).asked
    assert {one.person: bool(one.receipt) for one in asked} == dict.fromkeys(ask, True)
    assert {one.problem for one in asked} == {""}
    assert await channels.ledger.unreachable() == []
    assert len(channels.channel.delivered) == len(ask)
    clock.advance(timedelta(minutes=13))
    assert await channels.delivery.drain() == 0


async def test_a_card_that_arrives_after_the_end_is_closed(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The request ends while a card that was given up is on its way; its reader is told."""
    channels = still_channels
    approval = await _outage(channels, ("mara",))
    channels.channel = channel = _Withdrawn(channels, approval.id)
    clock.advance(timedelta(minutes=13))
    await channels.delivery.drain()
    await channels.router.drain()
    await channels.delivery.drain()
    assert [one.kind for one in channel.delivered] == [Kind.CARD, Kind.OUTCOME]


@pytest.mark.parametrize(("hours", "arrives"), [(20, True), (40, False)])
async def test_outcomes_arrive_after_an_outage_of_up_to_a_day(
    still_channels: Channels, clock: VirtualClock, hours: int, *, arrives: bool
) -> None:
    """What only this channel can tell people is not given up after an hour."""
    channels = still_channels
    approval, _ = await channels.ask()
    await channels.decider.reject(approval.id, MARA, channel="cli", reason="no")
    await _away(channels, timedelta(hours=hours))
    await channels.delivery.drain()
    told = {(one.person, one.kind) for one in channels.channel.delivered}
    assert told == ({("mara", Kind.OUTCOME), ("riley", Kind.STATUS)} if arrives else set())


async def test_reminders_do_not_add_up_in_an_outage(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """A reminder that is hours late is dropped, because the next one says the same."""
    channels = still_channels
    channels.policies = (Policy(name="patient", ask=("mara",), within="2d"),)
    approval, _ = await channels.ask()
    level_key = (await channels.ledger.approval(approval.id)).level_key
    reminders = (
        SendReminder(
            channel="email",
            approval=approval.id,
            person="mara",
            headline="It waits.",
            level_key=level_key,
            nth=nth,
        )
        for nth in ("1", "2")
    )
    await channels.ledger.commit(Change().send(next(reminders)))
    await _away(channels, timedelta(hours=3))
    await channels.ledger.commit(Change().send(next(reminders)))
    await channels.delivery.drain()
    assert [one.id for one in channels.channel.delivered] == [f"remind:{approval.id}:mara::2"]


async def _away(channels: Channels, span: timedelta) -> None:
    """Deliver for a time while the channel is away; afterwards it works."""
    channels.channel = FakeChannel(respond=lambda _: Retry(0, "the mail server is away"))
    for _ in range(span // timedelta(minutes=13)):
        await channels.router.drain()
        await channels.delivery.drain()
        channels.clock.advance(timedelta(minutes=13))
    channels.channel = FakeChannel()


async def _outage(channels: Channels, ask: tuple[str, ...]) -> Approval:
    """Ask people, also as the default, while the channel is away for three hours."""
    channels.policies = (Policy(name="patient", ask=ask, within="2d"),)
    channels.fallback = Fallback(ask=ask, within="2d")
    channels.channel = FakeChannel(respond=lambda _: Retry(0, "the mail server is away"))
    approval = await channels.open()
    for _ in range(36):
        await channels.router.drain()
        await channels.delivery.drain()
        channels.clock.advance(timedelta(minutes=5))
    return approval


class _Withdrawn(FakeChannel):
    """Withdraws the request while its card is delivered."""

    def __init__(self, channels: Channels, approval: str) -> None:
        super().__init__()
        self._channels, self._approval = channels, approval

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Withdraw, route that, and deliver."""
        if any(one.kind is Kind.CARD for one in messages):
            await self._channels.decider.withdraw(self._approval, by="riley", reason="no")
            await self._channels.router.drain()
        return list(await super().deliver(messages))


def test_the_pauses_grow_and_add_up_to_about_an_hour() -> None:
    """Twelve pauses, from seconds to ten minutes; no two senders keep the same rhythm."""
    pauses = [outbox.backoff(attempt) for attempt in range(1, outbox.MOST_ATTEMPTS)]
    assert 4 <= pauses[0] <= 6
    assert 480 <= pauses[-1] <= 720
    assert 2700 < sum(pauses) < 4500
    assert outbox.backoff(1) != outbox.backoff(1)


async def test_card_of_an_ended_request_is_not_sent(channels: Channels) -> None:
    """Nobody gets a question that is already decided."""
    approval = await channels.open()
    await channels.router.drain()
    await channels.decider.withdraw(approval.id, by="riley", reason="")

    await channels.delivery.drain()

    assert channels.channel.delivered == []


async def test_one_refused_card_of_two_does_not_ask_the_default(channels: Channels) -> None:
    """While another person can answer, the default is not asked."""
    channels.policies = BOTH
    channels.channel = FakeChannel(
        respond=lambda m: Refused("no such user") if m.person == "mara" else Delivered(m.id)
    )
    approval = await channels.open()
    await channels.router.drain()
    await channels.delivery.drain()

    after = await channels.ledger.approval(approval.id)
    assert [one.problem for one in after.asked] == ["no such user", ""]
    assert (await channels.ledger.backlog())["route"] == 0


async def test_all_approvers_get_the_outcome(channels: Channels) -> None:
    """The decider reads that it was recorded; the other reads that it is over."""
    channels.policies = BOTH
    approval, _ = await channels.ask()
    await channels.decider.approve(approval.id, MARA, channel="email", reason="fine by me")
    channels.channel.delivered.clear()

    await channels.delivery.drain()

    told = {one.person: one for one in channels.channel.delivered}
    assert told["mara"].headline == "Recorded: you approved reimburse"
    assert "Note: fine by me" in told["mara"].text
    assert told["cleo"].headline == "Mara Lind approved reimburse"
    assert told["cleo"].text.endswith("There is nothing left for you to do.")
    assert all(one.kind is Kind.OUTCOME and one.good and not one.token for one in told.values())
    assert told["mara"].thread == approval.asked[0].receipt


async def test_rejection_notice_has_the_person_and_the_reason(channels: Channels) -> None:
    """The other person reads who rejected it, and why."""
    channels.policies = BOTH
    approval, _ = await channels.ask()
    await channels.decider.reject(approval.id, CLEO, channel="cli", reason="over budget")
    channels.channel.delivered.clear()

    await channels.delivery.drain()

    told = {one.person: one for one in channels.channel.delivered}
    assert told["mara"].headline == "Cleo Park rejected reimburse"
    assert "over budget" in told["mara"].text
    assert not told["mara"].good


async def test_timeout_is_reported_to_the_approvers(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """If nobody answers, the approvers read that it is over."""
    channels = still_channels
    approval, _ = await channels.ask()
    clock.advance(timedelta(hours=5))
    await channels.decider.time_out(approval.id)
    await channels.delivery.drain()

    message = channels.channel.delivered[-1]
    assert message.headline == "The time to decide on reimburse is over"
    assert "It was not decided in time" in message.text


async def test_withdrawal_is_reported_to_the_approvers(channels: Channels) -> None:
    """After a withdrawal, the approvers read that no answer is needed."""
    approval, _ = await channels.ask()
    await channels.decider.withdraw(approval.id, by="riley", reason="bought it myself")
    await channels.delivery.drain()

    message = channels.channel.delivered[-1]
    assert message.headline == "The request to run reimburse was withdrawn"
    assert "bought it myself" in message.text


async def test_outcome_is_dropped_for_an_approver_without_a_card(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """An outcome waits a little for its card, and is dropped without it."""
    channels = still_channels
    channels.channel = FakeChannel(respond=lambda _: Retry(0, "busy", unsure=False))
    approval = await channels.open()
    await channels.router.drain()
    await channels.decider.reject(
        (await channels.ledger.approval(approval.id)).id, MARA, channel="cli", reason=""
    )
    for _ in range(8):
        await channels.delivery.drain()
        clock.advance(timedelta(seconds=10))

    assert channels.channel.delivered == []
    assert (await channels.ledger.backlog())["deliver.email"] == 0


@pytest.mark.parametrize("ends", ["rejected", "escalated"])
async def test_recipient_of_a_card_without_a_receipt_is_told_once_how_it_ended(
    still_channels: Channels, clock: VirtualClock, ends: str
) -> None:
    """The card may have arrived although the channel failed, and must not stay open."""
    channels = still_channels
    channels.policies = (
        Policy(name="two", levels=(Level(ask=("mara",), within="1h"), Level(ask=("cleo",)))),
    )
    results: list[Result] = [Retry(0, "the connection broke", unsure=True)]
    channels.channel = FakeChannel(
        respond=lambda sent: results.pop(0) if results else Delivered(f"fake:{sent.id}")
    )
    approval = await channels.open()
    await channels.router.drain()
    await channels.delivery.drain()
    if ends == "rejected":
        await channels.decider.reject(approval.id, MARA, channel="cli", reason="")
    else:
        clock.advance(timedelta(hours=1, seconds=1))
        await Reconciler(channels.decider.roster).once()
        await channels.router.drain()
    for _ in range(8):
        await channels.delivery.drain()
        clock.advance(timedelta(seconds=10))

    sent = [one for one in channels.channel.delivered if one.person == "mara"]
    assert [one.kind for one in sent] == [Kind.OUTCOME]
    assert not sent[0].token
    assert (await channels.ledger.backlog())["deliver.email"] == 0


async def test_outcome_waits_for_a_card_in_delivery(
    still_channels: Channels, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A decision during the delivery of the card is still reported."""
    channels = still_channels
    approval = await channels.open()
    await channels.router.drain()
    delivery = channels.delivery
    (card,) = (await channels.ledger.claim("deliver.email")).items

    async def answered_at_once(messages: Sequence[Message]) -> list[Result]:
        await channels.decider.approve(approval.id, MARA, channel="email")
        await delivery.drain()
        return [Delivered("receipt")] * len(messages)

    with monkeypatch.context() as patch:
        patch.setattr(channels.channel, "deliver", answered_at_once)
        await delivery.work([card])
    clock.advance(timedelta(seconds=5))
    await delivery.drain()

    (message,) = channels.channel.delivered
    assert (message.kind, message.thread) == (Kind.OUTCOME, "receipt")
    after = await channels.ledger.approval(approval.id)
    assert (after.state, after.asked[0].receipt) == (State.APPROVED, "receipt")


async def test_a_channel_that_raises_is_tried_again(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No message is lost if a channel raises an error against its contract."""

    async def broken(messages: Sequence[Message]) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(channels.channel, "deliver", broken)
    approval = await channels.open()
    await channels.router.drain()

    await channels.delivery.drain()

    assert (await channels.ledger.backlog())["deliver.email"] == 1
    assert await channels.whats(approval) == [What.OPENED, What.ASKED]


async def test_invalid_item_does_not_block_other_cards(channels: Channels) -> None:
    """An invalid item is put back, and the card beside it is delivered."""
    approval = await channels.open()
    await channels.router.drain()
    change = Change()
    body = {"approval": approval.id, "person": "mara"}
    change.send_raw(stages.deliver("email"), "bad-1", {**body, "kind": "poem"})
    change.send_raw(stages.deliver("email"), "bad-2", {**body, "kind": "notice"})
    change.send_raw(stages.deliver("email"), "bad-3", {"kind": "card", "approval": "ap_ghost"})
    await channels.ledger.commit(change)

    await channels.delivery.drain()

    assert [one.kind for one in channels.channel.delivered] == [Kind.CARD]
    assert (await channels.ledger.backlog())["deliver.email"] == 2


async def test_a_card_that_can_never_be_shown_counts_as_undelivered(
    still_channels: Channels, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A card that fails at every attempt becomes a dead letter, and the default is asked."""
    channels = still_channels
    channels.policies = (Policy(name="patient", ask=("mara",), within="2d"),)
    approval = await channels.open()
    await channels.router.drain()

    def card(*_: object) -> None:
        raise ZeroDivisionError("cannot be shown")

    monkeypatch.setattr("signoff.channels.pipeline.compose.card", card)
    for _ in range(outbox.MOST_ATTEMPTS):
        await channels.delivery.drain()
        clock.advance(timedelta(minutes=13))

    (asked,) = (await channels.ledger.approval(approval.id)).asked
    assert "cannot be shown" in asked.problem
    assert (await channels.ledger.backlog())["route"] == 1
    async with channels.ledger.store.translated_client() as client:
        (key,) = await client.keys(f"{channels.ledger.store.prefix}dead:deliver.email:*")
        assert "token" not in str(await client.get(key))


async def test_concurrent_deliveries_of_one_approval_are_all_recorded(
    channels: Channels, directory: Directory
) -> None:
    """The deliveries of one approval in a batch conflict only temporarily."""
    from signoff.core.directory.people import Directory, Person

    crowd = [Person(id=f"p{n}", email=f"p{n}@example.com") for n in range(25)]
    channels.directory = Directory([*directory, *crowd])
    ask = tuple(person.id for person in crowd)
    channels.policies = (Policy(name="crowd", ask=ask, on_timeout=OnTimeout.STAY),)
    approval = await channels.open()
    await channels.router.drain()
    await channels.delivery.drain()

    after = await channels.ledger.approval(approval.id)
    assert all(one.receipt for one in after.asked)


async def test_deliveries_that_change_no_approval_are_committed_at_once(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two outcomes of one approval take one commit; its two cards are recorded one by one."""
    together, sizes = channels.ledger.commit_together, list[int]()

    async def counted(changes: Sequence[Change]) -> list[LedgerError | None]:
        sizes.append(len(changes))
        return await together(changes)

    channels.policies = BOTH
    approval = await channels.open()
    await channels.router.drain()
    monkeypatch.setattr(channels.ledger, "commit_together", counted)
    await channels.delivery.drain()
    assert sizes == [1, 1]
    await channels.decider.approve(approval.id, MARA, channel="email")
    await channels.delivery.drain()
    assert sizes == [1, 1, 2]
    assert (await channels.ledger.backlog())["deliver.email"] == 0


def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the pauses between heartbeats, so that leases can be long on a busy machine."""
    sleep = asyncio.sleep

    async def at_once(_: float) -> None:
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", at_once)


async def _leased_until(ledger: Ledger, item: Item) -> float:
    """Return the end of an item's lease in milliseconds."""
    outbox_key = f"{ledger.store.prefix}outbox:{item.stage}"
    until = await ledger.store.client.zscore(outbox_key, item.id)
    assert until is not None
    return float(until)


async def test_slow_delivery_keeps_its_lease(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a batch is delivered, no other process gets its items."""
    await ledger.commit(Change().send_raw("slow", "one", {}).send_raw("slow", "two", {}))
    claim = await ledger.claim("slow", lease=60)
    prolonged = asyncio.Event()
    extend = ledger.extend
    seen: list[str] = []
    _without_pauses(monkeypatch)

    async def counted(item: Item, **kwargs: Any) -> None:
        await extend(item, **kwargs)
        seen.append(item.id)
        if len(seen) >= 8:
            prolonged.set()

    monkeypatch.setattr(ledger, "extend", counted)
    leased = [await _leased_until(ledger, one) for one in claim.items]
    async with outbox.renewed_leases(ledger, claim.items, lease=600):
        await prolonged.wait()
        kept = [await _leased_until(ledger, one) for one in claim.items]
    assert all(after - before > 60_000 for before, after in zip(leased, kept, strict=True))


@pytest.mark.parametrize("done", ["ack", "retry"])
async def test_lease_of_a_finished_item_is_not_extended(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, done: str
) -> None:
    """The lease of an acknowledged or returned item is not extended."""
    await ledger.commit(Change().send_raw("slow", "one", {}).send_raw("slow", "two", {}))
    one, two = (await ledger.claim("slow", lease=60)).items
    change = Change().ack(one) if done == "ack" else Change().retry(one, after=0)
    await ledger.commit(change)
    prolonged = asyncio.Event()
    extend = ledger.extend
    lost: list[str] = []
    _without_pauses(monkeypatch)

    async def counted(item: Item, **kwargs: Any) -> None:
        try:
            await extend(item, **kwargs)
        except Exception:
            lost.append(item.id)
            raise
        if lost:
            prolonged.set()

    monkeypatch.setattr(ledger, "extend", counted)
    async with outbox.renewed_leases(ledger, (one, two), lease=60):
        await prolonged.wait()
    assert lost == ["one"]


class _Rewriting(FakeChannel):
    rewrites = True


async def test_cards_show_an_active_freeze_until_it_ends(channels: Channels) -> None:
    """New and updated cards show a freeze, and no longer after its end."""
    channels.channel = _Rewriting()
    freezes = Freezes(channels.ledger)
    delivery = channels.delivery
    first = await channels.open()
    await channels.router.drain()
    await delivery.drain()

    await freezes.freeze(tool="reimburse", why="the bank called", by="ops")
    second = await channels.open()
    await channels.router.drain()
    await delivery.drain()
    rewritten = channels.channel.find(first.id, Kind.UPDATE)
    new = channels.channel.find(second.id)
    assert rewritten is not None
    assert new is not None
    assert "frozen" in rewritten.card.warnings[0]
    assert "frozen" in new.card.warnings[0]

    await freezes.thaw(tool="reimburse", by="ops")
    await delivery.drain()
    thawed = channels.channel.find(first.id, Kind.UPDATE)
    assert thawed is not None
    assert thawed.card.warnings == ()


class _Interrupted(_Rewriting):
    """Does something else once, while it rewrites a card."""

    def __init__(self, meanwhile: Callable[[], Awaitable[object]]) -> None:
        super().__init__()
        self._meanwhile: Callable[[], Awaitable[object]] | None = meanwhile

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Deliver after the other thing."""
        meanwhile = self._meanwhile
        if meanwhile is not None and any(one.kind is Kind.UPDATE for one in messages):
            self._meanwhile = None
            await meanwhile()
        return await super().deliver(messages)


async def test_a_thaw_while_a_card_is_rewritten_is_shown(channels: Channels) -> None:
    """Another process has written the thaw before this one writes the freeze: it writes again."""
    freezes, other = Freezes(channels.ledger), _Rewriting()

    async def thawed_elsewhere() -> None:
        await freezes.thaw(tool="reimburse", by="ops")
        await Delivery(channels.ledger, other, directory=channels.directory).drain()

    channels.channel = _Interrupted(thawed_elsewhere)
    approval, _ = await channels.ask()
    await freezes.freeze(tool="reimburse", why="the bank called", by="ops")
    await channels.delivery.drain()
    assert [one.kind for one in other.delivered] == [Kind.UPDATE]
    updates = [one for one in channels.channel.delivered if one.kind is Kind.UPDATE]
    assert [bool(one.card.warnings) for one in updates] == [True, False]
    assert updates[-1].card.approval == approval.id


async def test_a_card_is_rewritten_once_for_a_reader_with_similar_decisions(
    channels: Channels,
) -> None:
    """The sentence about them is added when a card is sent; it is not a change of the card."""
    channels.channel = _Rewriting()
    before, _ = await channels.ask()
    await channels.decider.approve(before.id, MARA, channel="inbox")
    approval, _ = await channels.ask()
    await channels.delivery.drain()
    await channels.decider.made(approval.id, moves.Claim(), MARA, channel="inbox")
    async with asyncio.timeout(30):
        await channels.delivery.drain()
    updates = [one for one in channels.channel.delivered if one.kind is Kind.UPDATE]
    assert [one.card.similar for one in updates] == [
        "You decided 1 request like this before: 1 approved."
    ]
