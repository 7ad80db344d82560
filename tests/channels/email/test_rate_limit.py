"""Outgoing mail keeps to the rates of the settings and the server, and no mail is lost."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import LogCapture

from builders import MARA, NOON, asked_approval, people
from channels.conftest import Channels, Sink, SinkFactory
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.email.outbound.rate_limit import AGAIN, MailRateLimit
from signoff.channels.pipeline.outbox import MOST_ATTEMPTS
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result, Retry
from signoff.core.cards.card import card
from signoff.core.policies.policy import Policy
from signoff.testing import FakeChannel, VirtualClock


def messages(count: int) -> list[Message]:
    """Return this number of cards for Mara."""
    shown = card(asked_approval(), people())
    return [
        Message(
            id=f"card:{nth}",
            kind=Kind.CARD,
            card=shown,
            person="mara",
            name=MARA.shown,
            address=MARA.email,
            at=NOON,
        )
        for nth in range(count)
    ]


def always(result: Result) -> Callable[[Message], Result]:
    """Return a handler that gives every message this reply."""
    return lambda _: result


def channel(ledger: Ledger, sink: Sink, **smtp: Any) -> EmailChannel:
    """Return a channel that sends to the sink with a shared rate limit."""
    settings = sink.settings(**smtp)
    return EmailChannel(settings, rate_limit=MailRateLimit(ledger, settings.smtp))


async def test_all_senders_share_the_rate_limit(start_sink: SinkFactory, ledger: Ledger) -> None:
    """Two senders share the minute's limit; the rest waits without an attempt."""
    sink = await start_sink()
    first, second = (channel(ledger, sink, per_minute=3) for _ in range(2))
    results = [*await first.deliver(messages(2)), *await second.deliver(messages(3))]
    assert [type(one) for one in results] == [Delivered, Delivered, Delivered, Retry, Retry]
    later = results[3]
    assert isinstance(later, Retry)
    assert later.after == AGAIN
    assert not later.counted
    assert len(sink.mails) == 3


async def test_connections_are_limited(start_sink: SinkFactory, ledger: Ledger) -> None:
    """While the only connection is in use, the others wait for it."""
    sink = await start_sink()
    email = channel(ledger, sink, connections=1)
    async with MailRateLimit(ledger, sink.settings(connections=1).smtp).connection() as free:
        assert free
        (waits,) = await email.deliver(messages(1))
        assert isinstance(waits, Retry)
        assert sink.connections == 0
    (sent,) = await email.deliver(messages(1))
    assert isinstance(sent, Delivered)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("DATA", "421 4.7.28 Rate limit exceeded"),
        ("DATA", "451 4.7.650 Too much mail"),
        ("MAIL", "452 4.7.1 Slow down"),
        ("DATA", "550 5.4.5 Daily user sending quota exceeded"),
    ],
)
async def test_a_server_that_asks_for_less_gets_less(
    start_sink: SinkFactory, ledger: Ledger, command: str, answer: str
) -> None:
    """One mail learns it; the others are not tried, and no process sends for a minute."""
    sink = await start_sink(answers={command: answer})
    email = channel(ledger, sink)
    first, *others = await email.deliver(messages(3))
    assert isinstance(first, Retry)
    assert first.counted
    assert all(isinstance(one, Retry) and not one.counted for one in others)
    sink.answers.clear()
    (waits,) = await channel(ledger, sink).deliver(messages(1))
    assert isinstance(waits, Retry)
    assert sink.mails == []


@pytest.mark.parametrize("code", [530, 535])
async def test_a_late_login_request_does_not_refuse_the_recipient(
    start_sink: SinkFactory, ledger: Ledger, code: int
) -> None:
    """A server that wants a login at MAIL or RCPT has not refused the recipient."""
    sink = await start_sink(answers={f"RCPT {MARA.email}": f"{code} 5.7.0 Authenticate first"})
    for result in await channel(ledger, sink).deliver(messages(2)):
        assert isinstance(result, Retry)
        assert "login" in result.problem


async def test_a_refused_password_is_not_tried_by_every_mail(
    start_sink: SinkFactory, ledger: Ledger, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    """Providers lock an account after some attempts, so no process logs in for a minute."""
    sink = await start_sink(tls=server_tls, auth=True)
    login = {"username": "signoff", "password": SecretStr("wrong"), "host": "localhost"}
    tls = {"security": "starttls", "ca_file": certificate}
    for result in await channel(ledger, sink, **login, **tls).deliver(messages(2)):
        assert isinstance(result, Retry)
        assert result.counted
    for _ in range(3):
        (waits,) = await channel(ledger, sink, **login, **tls).deliver(messages(1))
        assert isinstance(waits, Retry)
        assert not waits.counted
    assert sink.connections == 1


async def test_waiting_for_ones_turn_is_never_given_up(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """A card that has waited keeps all its attempts."""
    channels, waits = still_channels, 2 * MOST_ATTEMPTS
    results: list[Result] = [
        *[Retry(10, "not yet", counted=False)] * waits,
        Retry(0, "away"),
        Delivered("it"),
    ]
    channels.channel = FakeChannel(respond=lambda _: results.pop(0))
    await channels.open()
    await channels.router.drain()
    for _ in range(waits + 2):
        assert await channels.delivery.drain() == 1
        clock.advance(timedelta(seconds=11))
    assert len(channels.channel.delivered) == 1


async def test_an_outage_is_logged_as_an_error_and_a_refusal_is_not(
    still_channels: Channels, clock: VirtualClock, log_output: LogCapture
) -> None:
    """Mail that is given up after an outage is logged as an error, once; a refusal is not."""
    channels = still_channels
    channels.policies = (Policy(name="patient", ask=("mara",), within="2d"),)
    for result in (Retry(0, "the server is away"), Refused("no such user")):
        channels.channel = FakeChannel(respond=always(result))
        await channels.open()
        await channels.router.drain()
        for _ in range(2 * MOST_ATTEMPTS):
            await channels.delivery.drain()
            clock.advance(timedelta(minutes=13))
    found = [one for one in log_output.entries if one["event"].startswith("delivery.")]
    errors = [one for one in found if one["log_level"] == "error"]
    assert [one["event"] for one in errors] == ["delivery.given_up"]
    assert errors[0]["problem"] == "the server is away"
    assert found[-1]["event"] == "delivery.refused"
