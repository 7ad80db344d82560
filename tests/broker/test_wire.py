"""Commands that are sent at the same time share a round trip, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import redis.asyncio
import redis.exceptions
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from ports import free_port
from signoff.broker.ledger.pipeline import Wire
from signoff.broker.server.address import DECODE_ANY
from signoff.broker.server.embedded import EmbeddedRedis


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRedis]:
    """A server of this module's own."""
    with EmbeddedRedis(tmp_path_factory.mktemp("redis"), fsync="everysec") as running:
        yield running


@pytest.fixture
async def client(server: EmbeddedRedis) -> AsyncIterator[redis.asyncio.Redis]:
    """A client on an empty database, which decodes replies as `open_pool` does."""
    async with redis.asyncio.Redis.from_url(
        server.url, decode_responses=True, encoding_errors=DECODE_ANY
    ) as one:
        await one.flushall()
        yield one


@pytest.fixture
def wire(client: redis.asyncio.Redis) -> Wire:
    """A wire on the client."""
    return Wire(client.connection_pool)


async def test_everybody_gets_his_own_replies(wire: Wire) -> None:
    """Of a thousand concurrent callers, each gets their own replies in order."""

    async def one(number: int) -> list[object]:
        return await wire.send([("SET", f"k{number}", number), ("GET", f"k{number}")])

    replies = await asyncio.gather(*(one(number) for number in range(1000)))
    assert replies == [["OK", str(number)] for number in range(1000)]


async def test_concurrent_commands_share_round_trips(
    wire: Wire, client: redis.asyncio.Redis
) -> None:
    """A hundred commands at the same moment need far fewer reads of the server's socket."""
    before = (await client.info("stats"))["total_reads_processed"]
    await asyncio.gather(*(wire.send([("TIME",)]) for _ in range(100)))
    after = (await client.info("stats"))["total_reads_processed"]
    assert after - before < 10


async def test_a_command_does_not_wait_for_a_slow_one(
    wire: Wire, client: redis.asyncio.Redis
) -> None:
    """While a round trip waits, the next one is under way: here it ends the waiting."""
    slow = asyncio.create_task(wire.send([("BLPOP", "list", 15)]))
    while not (await client.info("clients"))["blocked_clients"]:
        pass
    assert await wire.send([("RPUSH", "list", "one")]) == [1]
    assert await slow == [["list", "one"]]


async def test_a_refused_command_does_not_affect_others(wire: Wire) -> None:
    """Its reply is the error, and the replies of the others are unaffected."""
    good, bad = await asyncio.gather(
        wire.send([("SET", "k", "1"), ("GET", "k")]), wire.send([("INCRBY", "k", "x")])
    )
    assert good == ["OK", "1"]
    assert isinstance(bad[0], redis.exceptions.ResponseError)


@pytest.mark.parametrize("unsendable", [None, "\ud800"])
async def test_an_unencodable_command_does_not_affect_others(wire: Wire, unsendable: Any) -> None:
    """A value that cannot be encoded is its sender's error; the others get their replies."""
    results = await asyncio.gather(
        wire.send([("SET", "a", "1")]),
        wire.send([("SET", "b", unsendable)]),
        wire.send([("SET", "c", "3")]),
        return_exceptions=True,
    )
    assert results[0] == results[2] == ["OK"]
    assert isinstance(results[1], TypeError | UnicodeError)


async def test_a_reply_that_is_not_text_does_not_affect_others(
    wire: Wire, server: EmbeddedRedis
) -> None:
    """The bytes of a value that is not UTF-8 become surrogates; the others get their replies."""
    async with redis.asyncio.Redis.from_url(server.url) as binary:
        await binary.set("binary", b"\xff")
    results = tuple(
        await asyncio.gather(
            wire.send([("SET", "a", "1")]),
            wire.send([("GET", "binary")]),
            wire.send([("GET", "a")]),
        )
    )
    assert results == (["OK"], ["\udcff"], ["1"])


async def test_a_cancelled_caller_does_not_affect_others(wire: Wire) -> None:
    """Commands that were not sent yet are dropped; the others' replies arrive."""
    first = asyncio.create_task(wire.send([("SET", "a", "1")]))
    second = asyncio.create_task(wire.send([("SET", "b", "2")]))
    third = asyncio.create_task(wire.send([("SET", "c", "3")]))
    await asyncio.sleep(0)
    second.cancel()
    assert await first == await third == ["OK"]
    with pytest.raises(asyncio.CancelledError):
        await second
    assert await wire.send([("GET", "b")]) == [None]


async def test_a_server_that_is_away_fails_everybody_and_is_tried_again() -> None:
    """Nobody waits forever, and the next caller tries again."""
    port = free_port()
    async with redis.asyncio.Redis(
        port=port, decode_responses=True, retry=Retry(NoBackoff(), 0)
    ) as lonely:
        wire = Wire(lonely.connection_pool)
        for _ in range(2):
            results = await asyncio.gather(
                *(wire.send([("TIME",)]) for _ in range(3)), return_exceptions=True
            )
            assert all(isinstance(one, redis.exceptions.ConnectionError) for one in results)


async def test_a_batch_that_is_larger_than_a_round_trip_goes_out_whole(wire: Wire) -> None:
    """One caller's commands stay together, however many there are."""
    assert await wire.send([("INCR", "n")] * 1000) == list(range(1, 1001))


async def test_slow_replies_may_together_take_longer_than_the_time_out(
    server: EmbeddedRedis,
) -> None:
    """The time-out of a connection is for each reply, and not for the round trip."""
    async with redis.asyncio.Redis.from_url(server.url, socket_timeout=1.5) as slow:
        replies = await Wire(slow.connection_pool).send([("BLPOP", "none", "0.6")] * 5)
    assert replies == [None] * 5


async def test_a_reply_that_does_not_come_is_an_error(server: EmbeddedRedis) -> None:
    """Nobody waits forever; the connection is closed, because the reply may still come."""
    async with redis.asyncio.Redis.from_url(
        server.url, socket_timeout=0.2, retry=Retry(NoBackoff(), 0), max_connections=1
    ) as hasty:
        wire = Wire(hasty.connection_pool)
        with pytest.raises(redis.exceptions.TimeoutError):
            await wire.send([("ECHO", "first"), ("BLPOP", "none", "30")])
        assert await wire.send([("ECHO", "second")]) == [b"second"]
