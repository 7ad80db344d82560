"""When the ledger's clock is set back, nothing that waits has to wait longer for it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from builders import NOON, asked_approval, make_origin, paused
from redis_users import PREFIX, guarded, url_of
from signoff.broker.heartbeat import alive, beat
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.search_index import BATCH, SearchIndex
from signoff.broker.ledger.store import Store
from signoff.broker.limits.slots import Limit, SlotRequest, Slots
from signoff.broker.server.acl import CHANNELS, GATEWAY, WORKER
from signoff.broker.timers.due_approvals import LEASE
from signoff.core.approvals.parts import ToolCall

BACK = timedelta(hours=2)
LIMIT = Limit("slack:slots:chat.update", timedelta(seconds=1))


class Server:
    """The clock of a Redis server, which an administrator or a failover can set."""

    def __init__(self) -> None:
        self.at = NOON

    def now(self) -> datetime:
        """Return the time."""
        return self.at


@pytest.fixture
def server() -> Server:
    """Return the clock of the server."""
    return Server()


@pytest.fixture
async def jumping(redis_url: str, prefix: str, server: Server) -> AsyncIterator[Ledger]:
    """Return an empty ledger on this clock."""
    ledger = Ledger(Store.open(redis_url, prefix=prefix, clock=server))
    yield ledger
    await ledger.close()


async def claimed(ledger: Ledger, stage: str = "route") -> list[str]:
    """Claim the waiting items of a stage, and return their ids."""
    return [one.id for one in (await ledger.claim(stage)).items]


async def test_waiting_leased_and_postponed_work_goes_on(jumping: Ledger, server: Server) -> None:
    """Each item waits as long as before, and the bell of its stage rings again."""
    await beat(jumping, "channels", "host/1")
    await jumping.commit(Change().send_raw("route", "leased", {}))
    assert await claimed(jumping) == ["leased"]
    await jumping.commit(Change().send_raw("route", "waits", {}))
    await jumping.commit(Change().send_raw("route", "later", {}, after=300))
    server.at -= BACK
    assert await claimed(jumping) == []
    assert (await jumping.look()).rung == []
    assert (await beat(jumping, "channels", "host/1")).set_back == BACK.total_seconds()
    assert (await jumping.look()).rung == ["route"]
    assert await claimed(jumping) == ["waits"]
    server.at += timedelta(seconds=60)
    assert set(await claimed(jumping)) == {"leased", "waits"}
    server.at += timedelta(seconds=240)
    assert "later" in await claimed(jumping)


async def test_work_is_moved_once_by_whichever_process_finds_it(
    jumping: Ledger, server: Server
) -> None:
    """A worker only says that it is alive; of two other processes, the first one moves the work."""
    for kind in ("worker", "channels", "gateway"):
        await beat(jumping, kind, "host/1")
    await jumping.commit(Change().send_raw("route", "later", {}, after=10_000))
    server.at -= BACK
    kinds = ("worker", "gateway", "channels")
    backs = [(await beat(jumping, kind, "host/1")).set_back for kind in kinds]
    assert backs == [0, BACK.total_seconds(), 0]
    server.at += timedelta(seconds=10_000 - 1)
    assert await claimed(jumping) == []
    server.at += timedelta(seconds=1)
    assert await claimed(jumping) == ["later"]


async def test_work_is_moved_though_no_process_lived_when_the_clock_was_set_back(
    jumping: Ledger, server: Server
) -> None:
    """All processes are stopped, the clock is corrected, and they start again: work goes on."""
    for kind in ("worker", "channels", "gateway"):
        await beat(jumping, kind, "host/1")
    await jumping.commit(Change().send_raw("resume.finance", "answered", {}))
    server.at += timedelta(minutes=10)
    await _end_keys_of_seconds(jumping)
    server.at -= BACK
    assert await claimed(jumping, "resume.finance") == []
    assert await alive(jumping) == {}
    await beat(jumping, "worker", "host/2")
    step = BACK - timedelta(minutes=10)
    assert (await beat(jumping, "gateway", "host/2")).set_back == step.total_seconds()
    assert await claimed(jumping, "resume.finance") == ["answered"]
    assert await alive(jumping) == {"gateway": ["host/2"]}


async def _end_keys_of_seconds(ledger: Ledger) -> None:
    """Delete what the real server would have ended, whose clock these tests cannot set."""
    client = ledger.store.client
    for key in await client.keys(f"{ledger.store.prefix}*"):
        if await client.pttl(key) >= 0:
            await client.delete(key)


async def test_dead_processes_are_not_alive_for_longer(jumping: Ledger, server: Server) -> None:
    """Processes that died before the clock was set back are forgotten."""
    for name in ("host/1", "host/2"):
        await beat(jumping, "worker", name)
    server.at -= BACK
    await beat(jumping, "gateway", "host/3")
    await beat(jumping, "worker", "host/2")
    assert await alive(jumping) == {"gateway": ["host/3"], "worker": ["host/2"]}


async def test_a_clock_that_goes_on_moves_nothing(jumping: Ledger, server: Server) -> None:
    """Small steps and pauses change nothing; neither does a clock that was set forward."""
    await beat(jumping, "channels", "host/1")
    await jumping.commit(Change().send_raw("route", "later", {}, after=300))
    for step in (timedelta(seconds=-4), timedelta(seconds=5), timedelta(hours=5)):
        server.at += step
        assert (await beat(jumping, "channels", "host/1")).set_back == 0
    assert await claimed(jumping) == ["later"]


async def test_leases_and_counters_end_in_time(jumping: Ledger, server: Server) -> None:
    """Redis ends keys by its own clock; they keep the time that they had left."""
    key = "lease:finance\0riley\0s_1"
    client, prefix = jumping.store.client, jumping.store.prefix
    await beat(jumping, "channels", "host/1")
    # The clock that this test sets is not the one by which the real server ends keys.
    for name in (key, "tries:login:riley", "rate:smtp"):
        await client.set(prefix + name, "1", px=BACK + timedelta(seconds=30))
    await client.set(f"{prefix}token:t", "1", px=BACK * 2)
    server.at -= BACK
    await beat(jumping, "channels", "host/1")
    for name in (key, "tries:login:riley", "rate:smtp"):
        assert 0 < await client.pttl(prefix + name) <= 30_000
    assert await client.pttl(f"{prefix}token:t") > BACK.total_seconds() * 1000


async def test_limits_give_out_slots_again(jumping: Ledger, server: Server) -> None:
    """Calls of Slack do not wait until the clock is where it was."""
    slots = Slots(jumping.store)
    await beat(jumping, "channels", "host/1")
    await slots.take([SlotRequest("a", (LIMIT,))])
    server.at -= BACK
    assert await slots.take([SlotRequest("b", (LIMIT,))]) != [0]
    await beat(jumping, "channels", "host/1")
    assert await slots.take([SlotRequest("b", (LIMIT,))]) == [0]


async def test_claimed_approvals_are_due_by_the_new_clock(jumping: Ledger, server: Server) -> None:
    """Timers that died with a claim do not delay its deadline."""
    _, (approval,) = await paused(jumping, within=timedelta(hours=1))
    server.at += timedelta(hours=1)
    await beat(jumping, "channels", "host/1")
    assert await jumping.due(lease=LEASE) == [approval.id]
    server.at -= BACK
    await beat(jumping, "channels", "host/1")
    assert await jumping.due(lease=LEASE) == [approval.id]


async def test_searches_find_requests_of_the_new_time(jumping: Ledger, server: Server) -> None:
    """The index continues with later requests, so it is made again."""

    def opened(number: int, purpose: str, at: datetime) -> Change:
        call = ToolCall(id=f"fc-{number}", name="reimburse", args={"purpose": purpose})
        origin = make_origin(session=f"s_{number}", confirmation=f"c_{number}")
        made = asked_approval(call=call, origin=origin)
        return Change().put(made.model_copy(update={"opened_at": at}), was=None)

    await jumping.commit_all([opened(n, "trip", NOON) for n in range(BATCH)])
    server.at += timedelta(minutes=3)
    index = SearchIndex(jumping)
    assert await index.extend() == BATCH
    await beat(jumping, "channels", "host/1")
    server.at -= BACK
    await beat(jumping, "channels", "host/1")
    await jumping.commit(opened(BATCH, "hovercraft", server.at))
    (last,) = await jumping.store.members("approvals", limit=1)
    await index.extend()
    found = await index.candidates(["hovercraft"])
    assert found is None or last in found


@pytest.mark.parametrize("role", [CHANNELS, GATEWAY, WORKER])
async def test_redis_users_may_move_what_they_find(
    tmp_path: Path, server: Server, role: str
) -> None:
    """The ACL file allows the scan and the writes to channels and gateways."""
    with guarded(tmp_path / "redis") as url:
        ledger = Ledger(Store.open(url_of(url, role), prefix=PREFIX, clock=server))
        root = Ledger(Store.open(url, prefix=PREFIX, clock=server))
        await root.commit(Change().send_raw("intake", "waits", {}))
        await root.take_lease("lease:smtp:1", "t", lease=10_000)
        await Slots(root.store).take([SlotRequest("a", (LIMIT,))])
        await beat(ledger, role, "host/1")
        server.at -= BACK
        back = (await beat(ledger, role, "host/1")).set_back
        assert back == (0 if role == WORKER else BACK.total_seconds())
        assert await claimed(root, "intake") == ([] if role == WORKER else ["waits"])
        await ledger.close()
        await root.close()
