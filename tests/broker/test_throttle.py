"""Limits on how often an action may be tried."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.throttle import Rule, Throttle

SOON = Rule("tries:soon", 3, timedelta(minutes=15))
LATER = Rule("tries:later", 5, timedelta(days=1))


@pytest.fixture
def throttle(ledger: Ledger) -> Throttle:
    """Return a throttle without any counts."""
    return Throttle(ledger.store)


async def counts(ledger: Ledger) -> dict[str, int]:
    """Return what is counted, by key."""
    store = ledger.store
    keys = await store.keys("tries:")
    return {key: int(str(await store.client.get(store.prefix + key))) for key in keys}


async def window_over(ledger: Ledger, rule: Rule) -> None:
    """End the window of a rule."""
    await ledger.store.client.delete(ledger.store.prefix + rule.key)


async def test_an_attempt_refused_by_one_rule_counts_for_no_rule(
    throttle: Throttle, ledger: Ledger
) -> None:
    """The rule of the day only counts attempts that were made."""
    tried = [await throttle.allow(SOON, LATER) for _ in range(50)]
    assert tried == [True] * 3 + [False] * 47
    assert await counts(ledger) == {SOON.key: 3, LATER.key: 3}
    await window_over(ledger, SOON)
    assert [await throttle.allow(SOON, LATER) for _ in range(4)] == [True] * 2 + [False] * 2
    # The rule of the day has refused the last two, so the other rule has an attempt left.
    assert await counts(ledger) == {SOON.key: 2, LATER.key: 5}
    assert await throttle.allow(SOON)


async def test_concurrent_attempts_respect_the_limit(throttle: Throttle, ledger: Ledger) -> None:
    """Checking and counting are one step."""
    tried = await asyncio.gather(*(throttle.allow(SOON, LATER) for _ in range(40)))
    assert sum(tried) == 3
    assert await counts(ledger) == {SOON.key: 3, LATER.key: 3}


async def test_a_pause_is_as_long_as_the_window_of_the_first_rule_that_refuses(
    throttle: Throttle,
) -> None:
    """The pause is for Retry-After; refused attempts do not extend it."""
    assert [await throttle.pause(SOON, LATER) for _ in range(3)] == [0] * 3
    first = await throttle.pause(SOON, LATER)
    assert 0 < await throttle.pause(SOON, LATER) <= first <= 15 * 60


async def test_a_returned_attempt_can_be_repeated(throttle: Throttle, ledger: Ledger) -> None:
    """Giving back an attempt that was not counted, or whose window is over, changes nothing."""
    await throttle.refund(SOON)
    assert await counts(ledger) == {}
    assert [await throttle.allow(SOON) for _ in range(3)] == [True] * 3
    await throttle.refund(SOON, LATER)
    assert [await throttle.allow(SOON) for _ in range(2)] == [True, False]
    assert await counts(ledger) == {SOON.key: 3}
