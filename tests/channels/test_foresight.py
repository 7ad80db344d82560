"""The forecast matches reality: the timeline is compared with the router and the timers."""

from __future__ import annotations

import asyncio
import secrets
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import CLEO, MARA, NOON, RILEY, people
from channels import granting
from channels.conftest import Channels
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.forecast import call_facts, timeline_of
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.simulation.forecast import Timeline
from signoff.testing import FakeChannel, VirtualClock

WORKING = {"time_zone": "Europe/Berlin", "hours": ("Mon-Fri 09:00-17:00",)}
AWAY = Absence(start=date(2026, 3, 2), end=date(2026, 3, 4), delegate="tom")
PEOPLE = (
    MARA.model_copy(update={"manager": "tom", **WORKING}),
    CLEO.model_copy(update={"manager": "tom", "away": (AWAY,)}),
    RILEY.model_copy(update={"manager": "mara"}),
    Person(id="tom", email="tom@example.com", slack="U012AB3CD", time_zone="Asia/Tokyo"),
    Person(id="olga", email="olga@example.com", manager="olga"),
)
QUEUES = (
    Queue(name="all", members=("mara", "cleo", "tom", "riley")),
    Queue(name="turns", members=("olga", "cleo", "mara"), pick=Pick.ROUND_ROBIN),
)
_REFERENCES = st.sampled_from(
    [*(one.id for one in PEOPLE), "nobody", "requester.manager", "queue:all", "queue:turns"]
)
_ASK = st.lists(_REFERENCES, min_size=1, max_size=3).map(tuple)
_SPANS = st.sampled_from(["30m", "4h", "1d", "3h business", "2d business"])
_ASKING: dict[str, Any] = {
    "within": _SPANS,
    "remind": st.lists(_SPANS, max_size=2).map(tuple),
    "quorum": st.sampled_from([1, 2, "all", "majority"]),
    "order": st.sampled_from(["any", "sequence"]),
    "channels": st.sampled_from([(), ("email",), ("slack", "email")]),
    "slack_channel": st.sampled_from(["", "", "C012AB3CD"]),
}
_LEVELS: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.builds(
        dict, ask=_ASK, name=st.sampled_from(["", "x"]), earlier=st.sampled_from(["leave", "stay"])
    )
    | st.builds(dict, ask=_ASK, **_ASKING),
    min_size=1,
    max_size=3,
)
_RULES: dict[str, Any] = {
    **_ASKING,
    "on_timeout": st.sampled_from(["reject", "stay", "approve"]),
    "ceiling": st.sampled_from(["", "args.amount <= 1000"]),
    "repeat": st.sampled_from([0, 0, 1, 2]),
    "second_step": st.sampled_from(["", "", "true"]),
}
_WHEN = st.sampled_from(
    ["", 'tool == "deploy"', "args.amount > 1000", "args.amount < 1000", "args.amount", "args.x"]
)
_ROUTING: st.SearchStrategy[dict[str, Any]] = st.builds(dict, ask=_ASK, **_RULES) | st.builds(
    dict, levels=_LEVELS, **_RULES
)
_POLICIES = st.lists(st.tuples(_WHEN, _ROUTING), max_size=3).map(
    lambda found: tuple(
        Policy(name=f"policy {at}", when=when, **one) for at, (when, one) in enumerate(found)
    )
)
_FALLBACKS = st.builds(Fallback, **_RULES) | _ROUTING.map(lambda one: Fallback(**one))


class Rules:
    """The settings that determine who is asked."""

    channel_names = ("email", "slack")

    def __init__(self, policies: tuple[Policy, ...], default: Fallback) -> None:
        self.policies, self.default = policies, default
        self.owners = {"finance": "olga", "reimbursement_agent": "cleo@example.com"}
        self.everybody = Directory(PEOPLE, queues=QUEUES)


async def lived(
    rules: Rules, redis_url: str, *, here: bool, **call: Any
) -> tuple[Approval, list[Event]]:
    """Run a call to its end on a virtual clock; return its end and the audit.

    The timers make the cards of later levels, or leave them to the stage `route`.
    """
    clock = VirtualClock(NOON)
    prefix = f"{{test-{secrets.token_hex(8)}}}:"
    ledger = Ledger(Store.open(redis_url, prefix=prefix, clock=clock))
    try:
        decider = Decider(ledger, rules.everybody)
        router = Router(
            ledger,
            policies=rules.policies,
            fallback=rules.default,
            directory=rules.everybody,
            channels=rules.channel_names,
            owners=rules.owners,
        )
        opened = await Channels(ledger, decider, rules.everybody, FakeChannel()).open(**call)
        clockwork = Reconciler(decider.roster, cards=router.cards if here else None)
        await router.drain()
        while (now := await ledger.approval(opened.id)).state is State.PENDING and now.next_due:
            assert now.next_due > clock.now(), "it was due, and nothing was done"
            clock.advance(now.next_due - clock.now())
            await clockwork.once()
            await router.drain()
        return await ledger.approval(opened.id), await ledger.history(opened.id)
    finally:
        await ledger.close()


def happened(events: list[Event]) -> list[tuple[Any, ...]]:
    """Return the audit's events of an approval: time, kind and reason."""
    return [(one.at, one.what, one.why) for one in events if one.what is not What.OPENED]


def foretold(timeline: Timeline) -> list[tuple[Any, ...]]:
    """Return the same events of a timeline."""
    return [(one.at, one.what, one.why) for one in timeline.steps]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    policies=_POLICIES, default=_FALLBACKS, amount=st.sampled_from([250, 2500.0, "many"]), here=...
)
def test_router_ledger_and_timers_follow_the_forecast(
    redis_url: str, policies: tuple[Policy, ...], default: Fallback, amount: Any, here: bool
) -> None:
    """Router, ledger and timers do at each moment what the timeline says, with the same end."""
    rules = Rules(policies, default)
    facts = call_facts(
        "reimburse", {"amount": amount}, app="finance", agent="reimbursement_agent", user="riley"
    )
    timeline = timeline_of(rules, facts, start=NOON)

    approval, events = asyncio.run(lived(rules, redis_url, here=here, amount=amount))

    assert foretold(timeline) == happened(events)
    assert timeline.terms == approval.terms
    cards = {(one.person, one.channel, one.address) for s in timeline.steps for one in s.asked}
    assert cards == {(one.person, one.channel, one.address) for one in approval.asked}
    assert timeline.end_at == (approval.decision.at if approval.decision else None)
    assert timeline.levels[-1].seats == tuple(
        one for one in approval.seats if (one.level, one.round) == (approval.level, approval.round)
    )
    ends = {State.PENDING: "stay", State.APPROVED: "approve", State.TIMED_OUT: "reject"}
    assert timeline.end.value == ends[approval.state]


@pytest.mark.parametrize("here", [True, False])
async def test_forecast_of_a_later_level_follows_the_queue_rotation(
    redis_url: str, here: bool
) -> None:
    """Each time the level begins, the next member is asked, as the forecast says."""
    level = {"ask": ("queue:turns",), "within": "1h"}
    levels = ({"ask": ("mara",), "within": "1h"}, level, level)
    rules = Rules((Policy(name="turns", levels=levels, repeat=1),), Fallback(ask=("tom",)))
    rules.owners = {}
    facts = call_facts("reimburse", {"amount": 1}, user="riley")

    approval, events = await lived(rules, redis_url, here=here, amount=1, user="riley")

    assert approval.state is State.TIMED_OUT
    asked = [one.more["people"] for one in events if one.what is What.ESCALATED]
    timeline = timeline_of(rules, facts, start=NOON)
    assert [list(level.people) for level in timeline.levels[1:]] == asked
    # Tom is the delegate of Cleo, who is away.
    assert asked == [["olga"], ["tom"], ["mara"], ["mara"], ["olga"]]


def test_explanation_names_the_values_of_each_checked_policy() -> None:
    """It names the values that the condition used; after an error no more policies are checked."""
    policies = (
        Policy(name="deploy", when='tool == "deploy"', ask=("mara",)),
        Policy(name="trips", when="args.trip.days > 3", ask=("mara",)),
        Policy(name="wrong", when="args.amount > 1000", ask=("mara",)),
        Policy(name="rest", ask=("mara",)),
    )
    rules = Rules(policies, Fallback(ask=("cleo",)))

    timeline = timeline_of(rules, call_facts("reimburse", {"amount": "many"}), start=NOON)

    considered = [(one.policy, one.verdict.value) for one in timeline.considered]
    assert considered == [("deploy", "no"), ("trips", "no"), ("wrong", "error")]
    assert timeline.considered[0].why == 'tool is "reimburse"'
    assert timeline.considered[1].why == "there is no args.trip.days"
    assert timeline.considered[2].why == "args.amount is text, but must be a number"
    assert timeline.terms.policy == "default"


def test_timeline_that_leaves_a_request_open_has_no_end_time() -> None:
    """A timeline ends when nothing more happens automatically."""
    policy = Policy(name="open", ask=("mara",), within="1h", on_timeout="stay")
    rules = Rules((policy,), Fallback())

    timeline = timeline_of(rules, call_facts("deploy", user="riley"), start=NOON)

    assert [(one.what, one.at - NOON) for one in timeline.steps] == [
        (What.ASKED, timedelta(0)),
        (What.OVERDUE, timedelta(hours=1)),
    ]
    assert (timeline.end.value, timeline.end_at) == ("stay", None)


async def test_a_call_that_a_grant_covers(still_ledger: Ledger) -> None:
    """The forecast approves it immediately, as the router does; another call is asked about."""
    grant = await granting.given(still_ledger)
    rules = Rules((granting.EXPENSES,), Fallback(ask=("cleo",)))
    rules.owners = {}

    def line(amount: int) -> Timeline:
        facts = call_facts(
            "reimburse",
            {"amount": amount},
            app="finance",
            agent="reimbursement_agent",
            user="riley",
        )
        return timeline_of(rules, facts, start=NOON, directory=people(), grants=[grant])

    done = await granting.asked(still_ledger, "second", amount=200)
    assert (done.state, line(200).end.value) == (State.APPROVED, "approve")
    assert (line(200).levels, line(200).end_at) == ((), NOON)
    assert foretold(line(200)) == happened(await still_ledger.history(done.id))
    done = await granting.asked(still_ledger, "third", amount=501)
    assert (done.state, line(501).end.value) == (State.PENDING, "reject")
    assert [level.people for level in line(501).levels] == [("mara",)]
