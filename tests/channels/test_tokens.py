"""Tokens: random, recognisable, found by their hash, and removed from output."""

from datetime import timedelta

import pytest

from channels.conftest import Channels
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.pipeline.reply_tokens import (
    Holder,
    find_holder,
    is_token,
    issue_token,
    new_token,
    redact,
    token_key,
)
from signoff.core.policies.policy import OnTimeout, Policy


def test_tokens_are_random_and_fit_a_local_part() -> None:
    """128 bits in 26 lower-case letters and digits; no two are equal."""
    tokens = {new_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert all(is_token(token) and token == token.lower() for token in tokens)
    assert len(f"approvals+{new_token()}") <= 64


@pytest.mark.parametrize("text", ["", "a" * 25, "a" * 27, "0" * 26, "A" * 26, "ä" * 26])
def test_malformed_token_is_not_looked_up(text: str) -> None:
    """Other text is not looked up."""
    assert not is_token(text)


async def test_a_token_is_found_whatever_its_case(ledger: Ledger) -> None:
    """Mail programs change the case of local parts."""
    change, holder = Change(), Holder("ap_1", "mara", "email")
    token = issue_token(change, holder, within=timedelta(hours=1))
    await ledger.commit(change)
    assert await find_holder(ledger, token) == holder
    assert await find_holder(ledger, token.upper()) == holder
    assert await find_holder(ledger, new_token()) is None
    assert await find_holder(ledger, "nonsense") is None
    assert token not in token_key(token)


def test_tokens_are_removed_from_text() -> None:
    """A server's message about an address can then be logged."""
    token = new_token()
    text = f"<approvals+{token}@x.example> and APPROVALS+{token.upper()}@x.example: a+b@x.example"
    assert redact(text) == (
        "<approvals+[token]@x.example> and APPROVALS+[token]@x.example: a+b@x.example"
    )


@pytest.mark.parametrize(
    ("policy", "days"),
    [
        (Policy(name="slow", ask=("mara",), within="60d"), 3 * 60),
        (Policy(name="open", ask=("mara",), within="4h", on_timeout=OnTimeout.STAY), 365),
    ],
    ids=lambda one: one.name if isinstance(one, Policy) else "",
)
async def test_a_token_lasts_as_long_as_an_answer_can_count(
    channels: Channels, policy: Policy, days: int
) -> None:
    """The level can be extended and its clock be stopped, and an approval can stay open."""
    channels.policies = (policy,)
    _, token = await channels.ask()
    store = channels.ledger.store
    left = await store.client.pttl(store.prefix + token_key(token))
    assert timedelta(milliseconds=left) > timedelta(days=days)
