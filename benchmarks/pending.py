"""The cost of a pending approval: bytes of Redis, and the time to decide one among many."""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks.copies import Template
from benchmarks.office import DEFAULT, DIRECTORY, MARA, POLICIES, Opened, open_pause
from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.packer import Packer
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.outbox import drain
from signoff.channels.pipeline.reply_tokens import Holder, issue_token
from signoff.channels.pipeline.route import Router
from signoff.core.approvals import deliveries
from signoff.core.approvals.moves import Actor, Approve
from signoff.core.approvals.parts import Asked
from signoff.core.routing.selection import choose
from signoff.core.routing.targets import EMAIL
from signoff.testing import FakeChannel

PARTS = ("approval", "run", "token", "audit", "trails", "index", "outbox", "other")

_OWN = ("approval", "run", "token")
"""The parts of which each approval has keys of its own."""

_SAMPLE = 200
"""Of how many of these keys the memory is measured; asking for all would take minutes."""


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of Redis for one pending approval.

    Attributes:
        whole: The growth of INFO memory, divided by the number of approvals.
        payload: Arguments, hint and message.
        parts: MEMORY USAGE for one approval by kind of key; the rest of `whole` is dictionaries.
    """

    whole: float
    payload: int
    parts: dict[str, float]

    @property
    def beyond(self) -> float:
        """The bytes in addition to the payload."""
        return self.whole - self.payload


@dataclass(slots=True)
class Pile:
    """A ledger with many pending approvals.

    Attributes:
        url: A Redis that is used for nothing else.
    """

    url: str
    ledger: Ledger = field(init=False)
    decisions: Decisions = field(init=False)
    ids: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Ledger(Store.open(self.url))
        self.decisions = Decisions(self.ledger, DIRECTORY)

    async def grow(self, count: int) -> None:
        """Add copies of one routed and delivered approval until this number is pending."""
        original = open_pause(await self.ledger.now(), route=False)
        change = _delivered(original)
        template = Template.of(
            change,
            opened_at=original.approval.opened_at,
            run=original.run.id.partition("_")[2],
            approval=original.approval.id.partition("_")[2],
            session=original.run.session.partition("_")[2],
            token=next(
                str(one["key"]).partition(":")[2]
                for one in change.writes
                if str(one["key"]).startswith("token:")
            ),
        )
        made = await template.put(self.ledger, count - len(self.ids))
        self.ids += [f"ap_{one['approval']}" for one in made]

    async def grow_ended(self, count: int) -> None:
        """Add copies of one rejected approval with its run."""
        original = open_pause(await self.ledger.now(), route=False)
        at, approval = original.approval.opened_at, original.approval
        asked = Asked(person=MARA.id, channel=EMAIL, address=MARA.email)
        choice = choose(POLICIES, DEFAULT, DIRECTORY, approval.facts, now=at)
        approval, routed = approval.ask(choice.terms, (asked,), now=at, start=choice.start)
        ended, rejected = approval.reject(MARA, DIRECTORY, channel=EMAIL, now=at)
        change = Change(writes=original.change.writes[:1], audit=list(original.change.audit))
        change.note((*routed, *rejected)).put(ended, was=None)
        template = Template.of(
            change,
            opened_at=at,
            run=original.run.id.partition("_")[2],
            approval=approval.id.partition("_")[2],
            session=original.run.session.partition("_")[2],
        )
        await template.put(self.ledger, count)

    async def grow_by_the_stages(self, count: int) -> None:
        """Open this number, and let the stages route and deliver them."""
        now = await self.ledger.now()
        opened = [open_pause(now) for _ in range(count)]
        await self.ledger.commit_all([one.change for one in opened])
        await Router(self.ledger, policies=POLICIES, fallback=DEFAULT, directory=DIRECTORY).drain()
        delivery = Delivery(self.ledger, FakeChannel(), directory=DIRECTORY)
        await drain(self.ledger, stages.deliver(EMAIL), delivery.work)
        self.ids += [one.approval.id for one in opened]

    async def pack(self) -> None:
        """Pack all of them, as if they had waited longer than `[redis] pack_after`."""
        packer = Packer(self.ledger, timedelta())
        while await packer.once():
            pass

    async def used(self) -> int:
        """Return the bytes that Redis has allocated, without its log and its clients."""
        await self._ask("MEMORY", "PURGE")
        info = await self.ledger.store.client.info("memory")
        aside = ("mem_clients_normal", "mem_aof_buffer", "mem_replication_backlog")
        return int(info["used_memory"]) - sum(int(info[name]) for name in aside)

    async def decide(self) -> float:
        """Approve one and return the milliseconds; a new approval replaces it."""
        place = random.randrange(len(self.ids))
        chosen = self.ids[place]
        self.ids[place] = self.ids[-1]
        self.ids.pop()
        started = time.perf_counter()
        await self.decisions.take(chosen, Approve(), Actor(MARA, EMAIL))
        took = (time.perf_counter() - started) * 1000
        await self.grow(len(self.ids) + 1)
        return took

    async def parts(self) -> dict[str, float]:
        """Return MEMORY USAGE by kind of key, for one approval."""
        keys: dict[str, list[str]] = {name: [] for name in PARTS}
        names = {"inbox": "index", "waiting": "index", "runs": "index", "sessions": "index"}
        names |= {"items": "outbox", "queue": "index", "requests": "index", "approvals": "index"}
        for key in await self.ledger.store.keys(""):
            kind = key.partition(":")[0]
            kind = names.get(kind, kind)
            keys[kind if kind in keys else "other"].append(key)
        return {name: await self._usage(name, found) for name, found in keys.items()}

    async def _usage(self, part: str, keys: list[str]) -> float:
        sample = random.sample(keys, min(len(keys), _SAMPLE)) if part in _OWN else keys
        prefix, used = self.ledger.store.prefix, 0
        for key in sample:
            used += int(await self._ask("MEMORY", "USAGE", prefix + key, "SAMPLES", "0"))
        return used * len(keys) / max(len(sample), 1) / len(self.ids)

    async def _ask(self, *command: str) -> Any:  # noqa: ANN401 -- the type of Redis's replies
        client: Any = self.ledger.store.client
        return await client.execute_command(*command)

    async def close(self) -> None:
        """Close the connections."""
        await self.ledger.close()


def payload_bytes() -> int:
    """Return the bytes of the arguments, hint and message."""
    one = open_pause(datetime.now(UTC), route=False)
    texts = (json.dumps(one.approval.call.args), one.approval.hint, one.run.message)
    return sum(len(text.encode()) for text in texts)


def _delivered(opened: Opened) -> Change:
    """Return one commit with the result of opening, routing and delivering."""
    now = opened.approval.opened_at
    change = Change(writes=opened.change.writes[:1], audit=list(opened.change.audit))
    choice = choose(POLICIES, DEFAULT, DIRECTORY, opened.approval.facts, now=now)
    asked = tuple(Asked(person=one.id, channel=EMAIL, address=one.email) for one in choice.people)
    approval, routed = opened.approval.ask(
        choice.terms, asked, now=now, notes=choice.notes, start=choice.start
    )
    change.note(routed)
    for person in choice.people:
        issue_token(
            change, Holder(approval.id, person.id, EMAIL), within=choice.terms.within.length
        )
        receipt = f"fake:card:{approval.id}:{person.id}"
        approval, events = deliveries.delivered(approval, person.id, EMAIL, receipt, now=now)
        change.note(events)
    return change.put(approval, was=None)
