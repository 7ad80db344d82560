"""Outgoing webhooks: posts, signatures, retries, and refused addresses."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from pydantic import ValidationError
from structlog.testing import LogCapture

from builders import MARA, paused, present
from deciding import Decider
from ports import free_port
from signoff.broker import stages
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.pipeline.outbox import post_each
from signoff.channels.web.signatures import is_signed, key_of, standard
from signoff.channels.webhooks.addresses import PrivateAddress, public_address
from signoff.channels.webhooks.dead_letters import dead_letters, replay
from signoff.channels.webhooks.feed import Feed
from signoff.channels.webhooks.posting import Poster
from signoff.channels.webhooks.sender import PAUSES, Sender
from signoff.channels.webhooks.settings import Webhook
from signoff.core.base.errors import LedgerUnavailable
from signoff.testing import VirtualClock

SECRETS = ("whsec_" + "a" * 32, "whsec_" + "b" * 32)


@dataclass
class Receiver:
    """A real server: the received posts, and its answers; the last answer repeats."""

    statuses: list[int] = field(default_factory=lambda: [204])
    headers: dict[str, str] = field(default_factory=dict)
    posted: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    async def take(self, request: web.Request) -> web.Response:
        """Keep the post."""
        names = {name.lower(): value for name, value in request.headers.items()}
        self.posted.append((names, await request.read()))
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.Response(status=status, headers=self.headers)

    @property
    def types(self) -> list[str]:
        """The types of the posts, sorted."""
        return sorted(json.loads(body)["type"] for _, body in self.posted)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """Return a server on this machine."""
    made, app = Receiver(), web.Application()
    app.router.add_post("/hook", made.take)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/hook"))
        yield made


def hook(receiver: Receiver, **more: Any) -> Webhook:
    """Return a webhook for a server of this machine."""
    usual = {"name": "erp", "url": receiver.url, "secrets": SECRETS, "allow_private": True}
    return Webhook(**(usual | more))


POST = {"entry": "1-0", "message": {}}
"""A waiting message of a webhook."""


async def drained(ledger: Ledger, one: Webhook) -> None:
    """Post the waiting messages."""
    sender = Sender(ledger, one)
    await sender.drain()
    await sender.close()


async def test_each_wanted_event_is_posted_once_and_signed(
    decider: Decider, ledger: Ledger, receiver: Receiver
) -> None:
    """Each wanted event is one message of Standard Webhooks, and no other event is."""
    one = hook(receiver, events=("opened", "approved"))
    feed = Feed(ledger, [one])
    await paused(ledger)
    await feed.once()
    assert (await feed.once(), receiver.posted) == (0, [])
    _, (approval,) = await paused(ledger)
    await decider.approve(approval.id, MARA, channel="cli", reason="fine — go")
    while await feed.once():
        pass
    await drained(ledger, one)
    assert receiver.types == ["approval.approved", "approval.opened"]
    for headers, body in receiver.posted:
        signed = present(standard(headers, body))
        assert all(is_signed(signed, [present(key_of(secret))]) for secret in SECRETS)
        assert not is_signed(signed, [b"another"])
        assert headers["content-type"] == "application/json"
    told = next(json.loads(body) for _, body in receiver.posted if b"approved" in body)
    assert told["data"] == {
        "approval": approval.id,
        "run": approval.origin.run,
        "by": "mara",
        "why": "fine — go",
    }
    ids = [headers["webhook-id"] for headers, _ in receiver.posted]
    assert len(set(ids)) == 2
    await drained(ledger, one)
    assert len(receiver.posted) == 2


async def test_parallel_audit_readers_enqueue_each_entry_once(
    ledger: Ledger, receiver: Receiver
) -> None:
    """Parallel readers lose no entry and add none twice."""
    one = hook(receiver, events=("opened",))
    feeds = [Feed(ledger, [one]) for _ in range(5)]
    await feeds[0].once()
    await paused(ledger, siblings=30)
    await asyncio.gather(*(feed.once() for feed in feeds))
    await asyncio.gather(*(feed.once() for feed in feeds))
    await drained(ledger, one)
    assert receiver.types == ["approval.opened"] * 30
    assert len({headers["webhook-id"] for headers, _ in receiver.posted}) == 30


async def waiting(ledger: Ledger, one: Webhook) -> None:
    """Add one waiting message for a webhook."""
    feed = Feed(ledger, [one])
    await feed.once()
    await paused(ledger)
    while await feed.once():
        pass


async def test_refused_message_is_retried_with_the_same_id(
    still_ledger: Ledger, clock: VirtualClock, receiver: Receiver
) -> None:
    """It has the same id, after a growing pause or the server's own."""
    receiver.statuses, receiver.headers = [500, 429, 302, 204], {"Retry-After": "60"}
    one = hook(receiver, events=("opened",))
    await waiting(still_ledger, one)
    for count, pause in enumerate((0, 72, 72, 150), start=1):
        clock.advance(timedelta(seconds=pause))
        await drained(still_ledger, one)
        assert len(receiver.posted) == count
        await drained(still_ledger, one)
        assert len(receiver.posted) == count
    assert len({headers["webhook-id"] for headers, _ in receiver.posted}) == 1
    assert len({body for _, body in receiver.posted}) == 1
    assert (await still_ledger.backlog())[stages.webhook("erp")] == 0


async def test_undeliverable_message_is_kept_and_can_be_replayed(
    still_ledger: Ledger, clock: VirtualClock, receiver: Receiver
) -> None:
    """After the last attempt, or if the server says it is gone, it is kept and not lost."""
    one = hook(receiver, events=("opened",))
    for statuses, attempts in (([500], len(PAUSES) + 1), ([410], 1)):
        receiver.statuses, receiver.posted = statuses, []
        await waiting(still_ledger, one)
        for pause in (0, *PAUSES[: attempts - 1]):
            clock.advance(timedelta(seconds=pause * 1.3))
            await drained(still_ledger, one)
        assert len(receiver.posted) == attempts
        (letter,) = await dead_letters(still_ledger, "erp")
        assert letter.problem == f"it answered {statuses[0]}"
        receiver.statuses = [204]
        assert await replay(still_ledger, "erp") == 1
        await drained(still_ledger, one)
        assert receiver.posted[0][0]["webhook-id"] == receiver.posted[-1][0]["webhook-id"]
        assert await dead_letters(still_ledger, "erp") == []
        assert await replay(still_ledger, "erp") == 0


async def test_a_server_that_is_away_costs_an_attempt(
    still_ledger: Ledger, receiver: Receiver
) -> None:
    """If nothing listens, the message waits for the next attempt."""
    one = hook(receiver, events=("opened",), url="http://127.0.0.1:9/hook")
    await waiting(still_ledger, one)
    await drained(still_ledger, one)
    assert (await still_ledger.backlog())[stages.webhook("erp")] == 1


async def test_without_redis_a_drain_fails_as_every_stage_does() -> None:
    """The error is that of the ledger, which the tasks expect, and not a group of errors."""
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{free_port()}/0"))

    async def post(item: Item) -> Change:
        await ledger.now()
        return Change().ack(item)

    items = [Item(stage="webhook.erp", id=str(at), body={}, token="", attempts=1) for at in (1, 2)]
    with pytest.raises(LedgerUnavailable):
        await post_each(ledger, items, post)
    await ledger.close()


async def test_a_name_that_leads_inside_is_not_followed(
    still_ledger: Ledger, receiver: Receiver, log_output: LogCapture
) -> None:
    """One private address among public ones is enough for a refusal."""

    async def both(host: str, port: int) -> list[str]:
        return ["93.184.215.14", "10.0.0.1"]

    with pytest.raises(PrivateAddress, match=r"10\.0\.0\.1"):
        await public_address("erp.example.com", 443, both)

    class Nowhere(httpx.AsyncBaseTransport):
        """A transport that must not be used."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            raise AssertionError(request.url)

    url = "https://erp.example.com/x"
    one = hook(receiver, events=("opened",), url=url, allow_private=False)
    await waiting(still_ledger, one)
    sender = Sender(still_ledger, one, lookup=both, transport=Nowhere())
    await sender.drain()
    await sender.close()
    (failed,) = [entry for entry in log_output.entries if entry["event"] == "webhook.retry"]
    assert "allow_private" in failed["problem"]


async def test_request_connects_to_the_checked_address(
    still_ledger: Ledger, receiver: Receiver
) -> None:
    """The request uses the checked address, with the certificate of the name."""
    seen = []

    async def public(host: str, port: int) -> list[str]:
        return ["2606:2800:21f:cb07::2c"]

    class Watched(httpx.AsyncBaseTransport):
        """Keeps the requests."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(request)
            return httpx.Response(204)

    url = "https://erp.example.com:8443/x?y=1"
    one = hook(receiver, events=("opened",), url=url, allow_private=False)
    await waiting(still_ledger, one)
    sender = Sender(still_ledger, one, lookup=public, transport=Watched())
    await sender.drain()
    await sender.close()
    assert (await still_ledger.backlog())[stages.webhook("erp")] == 0
    (request,) = seen
    assert str(request.url) == "https://[2606:2800:21f:cb07::2c]:8443/x?y=1"
    assert request.headers["host"] == "erp.example.com:8443"
    assert request.extensions["sni_hostname"] == "erp.example.com"


async def test_an_answer_is_never_unpacked() -> None:
    """Compressed kilobytes that would become gigabytes stay kilobytes."""
    packed = gzip.compress(bytes(1 << 20))

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        stream = httpx.ByteStream(packed)
        return httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=stream)

    poster = Poster(timeout=5, transport=httpx.MockTransport(answer))
    found = await poster.post("http://localhost/", b"{}", {}, allow_private=True, most=64)
    await poster.close()
    assert found.body == packed[:64]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"url": "http://erp.example.com/"}, "https"),
        ({"url": "https://127.0.0.1/"}, "allow_private"),
        ({"url": "https://localhost/"}, "allow_private"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "allow_private"),
        ({"url": "https://user:pw@erp.example.com/"}, "not a URL"),
        ({"url": "ftp://erp.example.com/"}, "not a URL"),
        ({"url": "https://[/"}, "not a URL"),
        ({"secrets": ()}, "at least 1"),
        ({"secrets": ("short",)}, "Standard Webhooks"),
        ({"events": ("nothing",)}, "opened"),
        ({"name": "A b"}, "pattern"),
    ],
)
def test_a_webhook_that_cannot_be_is_refused(
    receiver: Receiver,
    change: dict[str, str] | dict[str, object] | dict[str, tuple[str, ...]],
    words: str,
) -> None:
    """The settings report it before anything is posted."""
    parts = {"url": "https://erp.example.com/", "allow_private": False} | change
    with pytest.raises(ValidationError, match=words):
        hook(receiver, **parts)


@pytest.mark.parametrize("host", ["a..b", "a" * 64 + ".com", "[v1.a]"])
async def test_unresolvable_host_is_a_network_error(host: str) -> None:
    """It is a normal network error: the stage retries, and continues with the rest."""
    poster = Poster(timeout=5)
    with pytest.raises(OSError, match=r"a"):
        await poster.post(f"https://{host}/x", b"", {}, allow_private=False)
    await poster.close()


@pytest.mark.parametrize("after", ["soon", "-5", "6 Jan 2020 10:10:10 +" + "9" * 20])
async def test_invalid_retry_after_header_is_ignored(receiver: Receiver, after: str) -> None:
    """A receiver cannot stop other notifications with a header."""
    receiver.statuses, receiver.headers = [503], {"Retry-After": after}
    poster = Poster(timeout=5)
    answer = await poster.post(receiver.url, b"", {}, allow_private=True)
    await poster.close()
    assert (answer.status, answer.after) == (503, 0)
