"""The router: who is asked, and what happens if nobody can be."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import CLEO, MARA, RILEY, present
from channels.conftest import Channels
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import AskElsewhere, RouteApproval
from signoff.channels.pipeline import outbox
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result, Retry
from signoff.channels.pipeline.reply_tokens import find_holder, is_token, token_key
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.deliveries import is_reachable
from signoff.core.approvals.events import What
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing import selection
from signoff.testing import FakeChannel, VirtualClock


async def deliveries(channels: Channels) -> tuple[Item, ...]:
    """Claim and return the waiting deliveries."""
    return (await channels.ledger.claim("deliver.email")).items


async def test_the_policy_that_matches_is_asked(channels: Channels) -> None:
    """A routed approval has its policy's terms, deadline and people."""
    channels.policies = (
        Policy(name="small", when="args.amount < 100.0", ask=("cleo",)),
        Policy(name="large", when="args.amount >= 100.0", ask=("mara", "cleo"), within="2h"),
    )
    opened = await channels.open(amount=2500.0)

    assert await channels.router.drain() == 1

    approval = await channels.ledger.approval(opened.id)
    assert present(approval.terms).policy == "large"
    assert [(one.person, one.channel, one.address) for one in approval.asked] == [
        ("mara", "email", "mara@example.com"),
        ("cleo", "email", "cleo@example.com"),
    ]
    assert present(approval.deadline) - opened.opened_at >= timedelta(hours=2)
    assert await channels.whats(approval) == [What.OPENED, What.ASKED]
    assert await channels.ledger.backlog() == {"deliver.email": 2, "run.finance": 0, "route": 0}


async def test_only_the_hash_of_each_token_is_stored(channels: Channels) -> None:
    """The outbox has the token; its record only has the hash, and expires."""
    channels.policies = (Policy(name="both", ask=("mara", "cleo"), within="1h"),)
    approval = await channels.open()
    await channels.router.drain()

    items = await deliveries(channels)

    tokens = [item.body["token"] for item in items]
    assert len(set(tokens)) == 2
    assert all(is_token(token) for token in tokens)
    assert {item.id for item in items} == {f"card:{approval.id}:{p}" for p in ("mara", "cleo")}
    for item in items:
        holder = await find_holder(channels.ledger, item.body["token"])
        assert (present(holder).approval, present(holder).person, present(holder).channel) == (
            approval.id,
            item.body["person"],
            "email",
        )
        key = channels.ledger.store.prefix + token_key(item.body["token"])
        client = channels.ledger.store.client
        left = timedelta(milliseconds=await client.pttl(key))
        assert item.body["token"] not in str(await client.get(key))
        # The hour of the level, and three more by which answers may come later.
        assert timedelta(days=30, hours=1) < left <= timedelta(days=30, hours=4)


async def test_repeated_routing_asks_once(channels: Channels) -> None:
    """A second item about a routed approval does nothing."""
    approval = await channels.open()
    await channels.router.drain()
    change = Change().send(RouteApproval(approval=approval.id))
    await channels.ledger.commit(change)

    await channels.router.drain()

    assert len(await deliveries(channels)) == 1
    assert await channels.whats(approval) == [What.OPENED, What.ASKED]


async def test_withdrawn_request_is_not_routed(channels: Channels) -> None:
    """Nobody is asked about a request that was withdrawn meanwhile."""
    approval = await channels.open()
    await channels.decider.withdraw(approval.id, by="riley", reason="changed my mind")

    await channels.router.drain()

    assert await deliveries(channels) == ()
    assert (await channels.ledger.backlog())["route"] == 0


async def test_approval_withdrawn_before_the_commit_is_not_asked(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An approval that is withdrawn between reading and commit is not asked about."""
    approval = await channels.open()
    real = outbox.read_each
    raced: list[bool] = []

    async def read_each(
        ledger: Ledger, ids: Sequence[str]
    ) -> tuple[dict[str, Approval | Exception], datetime]:
        found = await real(ledger, ids)
        if not raced:
            raced.append(True)
            await channels.decider.withdraw(approval.id, by="riley", reason="changed my mind")
        return found

    monkeypatch.setattr(outbox, "read_each", read_each)
    await channels.router.drain()

    assert (await channels.ledger.approval(approval.id)).state is State.WITHDRAWN
    assert await deliveries(channels) == ()
    assert (await channels.ledger.backlog())["route"] == 0


async def test_approval_without_approvers_waits_for_its_deadline(channels: Channels) -> None:
    """The approval says so, keeps its deadline and waits for it."""
    channels.policies, channels.fallback = (), Fallback(within=timedelta(hours=1))
    opened = await channels.open()

    await channels.router.drain()

    approval = await channels.ledger.approval(opened.id)
    assert (approval.state, approval.asked) == (State.PENDING, ())
    assert approval.deadline is not None
    event = (await channels.events(approval))[-1]
    assert event.what is What.UNROUTABLE
    assert "nobody can be asked" in event.why


async def test_the_requester_is_never_asked(channels: Channels) -> None:
    """The requester is left out, and the default is asked instead."""
    approval = await channels.open(user="m.lind@example.net")

    await channels.router.drain()

    asked = (await channels.ledger.approval(approval.id)).asked
    assert [one.person for one in asked] == ["cleo"]


async def test_failed_routing_does_not_block_the_batch(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An approval whose routing fails is put back; the rest of its batch is asked about."""
    first = await channels.open(purpose="poison")
    second = await channels.open(purpose="fine")

    def choose(
        policies: Sequence[Policy],
        fallback: Fallback,
        directory: Directory,
        facts: Mapping[str, Any],
        **rest: Any,
    ) -> Any:
        if facts["args"]["purpose"] == "poison":
            raise ZeroDivisionError("a policy of the third kind")
        return selection.choose(policies, fallback, directory, facts, **rest)

    monkeypatch.setattr("signoff.channels.pipeline.route.choose", choose)

    await channels.router.drain()

    assert (await channels.ledger.approval(first.id)).terms is None
    assert (await channels.ledger.approval(second.id)).terms is not None
    assert (await channels.ledger.backlog())["route"] == 1


async def test_last_failed_attempt_leaves_a_dead_letter(
    still_channels: Channels, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends as a record and an event that people can inspect."""
    channels = still_channels
    approval = await channels.open()

    def choose(*_: object, **__: Any) -> None:
        raise ZeroDivisionError("a policy of the third kind")

    monkeypatch.setattr("signoff.channels.pipeline.route.choose", choose)
    for _ in range(outbox.MOST_ATTEMPTS):
        assert await channels.router.drain() == 1
        clock.advance(timedelta(hours=1))

    assert (await channels.ledger.backlog())["route"] == 0
    event = (await channels.events(approval))[-1]
    assert event.what is What.UNROUTABLE
    assert "ZeroDivisionError" in event.why
    async with channels.ledger.store.translated_client() as client:
        (key,) = await client.keys(f"{channels.ledger.store.prefix}dead:route:*")
        record = json.loads(present(await client.get(key)).split(" ", 2)[2])
    assert record["body"] == {"work": "route_approval", "approval": approval.id}


async def test_level_whose_cards_cannot_be_made_asks_others(
    still_channels: Channels, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last attempt fails: its people are asked as if their cards had been refused."""
    channels = still_channels
    levels = (Level(ask=("mara",), within="1h"), Level(ask=("cleo",), within="30d"))
    channels.policies = (Policy(name="levels", levels=levels),)
    approval, _ = await channels.ask()
    clock.advance(timedelta(hours=1))
    await channels.decider.time_out(approval.id)

    def targets_of(*_: object) -> None:
        raise ZeroDivisionError("a channel of the third kind")

    with monkeypatch.context() as patch:
        patch.setattr("signoff.channels.pipeline.route.targets_of", targets_of)
        for _ in range(outbox.MOST_ATTEMPTS):
            await channels.router.drain()
            clock.advance(timedelta(hours=1))
    await channels.delivery.drain()
    after = await channels.ledger.approval(approval.id)
    assert (after.level, after.approvers) == (1, frozenset({"cleo"}))
    assert channels.channel.delivered[-1].person == "cleo"


async def test_item_of_a_missing_approval_becomes_a_dead_letter_at_once(channels: Channels) -> None:
    """Such an item is not retried, and does not stop the others."""
    change = Change().send(RouteApproval(approval="ap_ghost"))
    await channels.ledger.commit(change)
    approval = await channels.open()

    await channels.router.drain()

    assert (await channels.ledger.approval(approval.id)).terms is not None
    assert (await channels.ledger.backlog())["route"] == 0


async def test_refused_only_card_asks_the_default(channels: Channels) -> None:
    """If the only card is refused, the default is asked with its own deadline."""

    def respond(message: Message) -> Result:
        return Refused("no such mailbox") if message.person == MARA.id else Delivered(message.id)

    channels.channel = FakeChannel(respond=respond)
    approval = await channels.open()
    await channels.router.drain()
    await channels.delivery.drain()

    assert await channels.router.drain() == 1
    await channels.delivery.drain()

    after = await channels.ledger.approval(approval.id)
    assert [(one.person, bool(one.problem)) for one in after.asked] == [
        ("mara", True),
        ("cleo", False),
    ]
    assert present(after.terms).policy == "default"
    assert await channels.whats(approval) == [
        What.OPENED,
        What.ASKED,
        What.UNDELIVERED,
        What.ASKED,
        What.DELIVERED,
    ]


async def test_unreachable_default_is_recorded_once(channels: Channels) -> None:
    """It is noted, and the deadline ends the request; nobody is asked in circles."""
    channels.channel = FakeChannel(respond=lambda _: Refused("no such mailbox"))
    approval = await channels.open()
    for _ in range(4):
        await channels.router.drain()
        await channels.delivery.drain()

    after = await channels.ledger.approval(approval.id)
    assert after.state is State.PENDING
    assert not is_reachable(after)
    assert (await channels.whats(approval))[-1] is What.UNROUTABLE
    assert set((await channels.ledger.backlog()).values()) == {0}


@pytest.mark.parametrize("count", [120])
async def test_one_drain_routes_all_batches(channels: Channels, count: int) -> None:
    """One drain routes more requests than a batch has."""
    for _ in range(count):
        await channels.open()

    assert await channels.router.drain() == count

    assert (await channels.ledger.backlog())["deliver.email"] == count


@pytest.mark.parametrize("arrives", [False, True])
async def test_only_people_whose_card_waits_are_asked_elsewhere(
    still_channels: Channels, arrives: bool
) -> None:
    """Slack takes Cleo's card and not Mara's: she alone gets a mail, unless her card arrived."""
    channels = still_channels
    people = [one.model_copy(update={"slack": f"U{one.id.upper()}"}) for one in (MARA, CLEO)]
    channels.directory = Directory([*people, RILEY])
    router = Router(
        channels.ledger,
        policies=[Policy(name="both", ask=("mara", "cleo"), quorum=2, within="4h")],
        fallback=channels.fallback,
        directory=channels.directory,
        channels=("email", "slack"),
    )

    def respond(message: Message) -> Result:
        waits = message.person == "mara" and not arrives
        return Retry(60, "later") if waits else Delivered(f"r:{message.id}")

    slack = FakeChannel("slack", respond=respond)
    opened = await channels.open()
    await router.drain()
    await Delivery(channels.ledger, slack, directory=channels.directory).drain()

    for level_key in ("1", ""):
        work = AskElsewhere(approval=opened.id, level_key=level_key, person="mara")
        await channels.ledger.commit(Change().send(work))
        await router.drain()
        await Delivery(channels.ledger, channels.channel, directory=channels.directory).drain()
        expected = [] if arrives or level_key else [("mara", Kind.CARD)]
        assert [(one.person, one.kind) for one in channels.channel.delivered] == expected
    await Delivery(channels.ledger, slack, directory=channels.directory).drain()
    assert sorted(one.person for one in slack.delivered) == ["cleo"] + ["mara"] * arrives
    after = await channels.ledger.approval(opened.id)
    asked = [("mara", "slack"), ("cleo", "slack")] + [("mara", "email")] * (not arrives)
    assert [(one.person, one.channel) for one in after.asked] == asked
    assert after.deadline == channels.clock.now() + timedelta(hours=4)
