"""``python -m benchmarks.slack``: a click in Slack until its decision is stored, among many.

In one process, on a separate Redis, with many pending approvals; each side in turn:

- commit: ``SET`` with the bytes of an approval, one after the other: the limit of the disk;
- decide: `Decisions.take` without Slack;
- click: the signed HTTP request of a click until its response, after the decision is stored;
- hands: as many clicks on one card within a second; one decides, the others get a message;
- burst: many cards into one channel; see `benchmarks.slack_burst`.

A click needs no call of the Web API if the person is configured by id.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import httpx
from rich.console import Console
from slack_sdk.signature import SignatureVerifier

from benchmarks.office import DIRECTORY, MARA, open_pause
from benchmarks.process import quieten
from benchmarks.report import percentile
from benchmarks.slack_burst import burst
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.channels.gateway import make_gateway
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.http import PATH, make_slack_router
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.references import APPROVE, Reference
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SlackWeb
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.moves import Actor, Approve
from signoff.core.approvals.parts import Asked
from signoff.core.directory.people import Directory
from signoff.core.payloads.digest import short_digest
from signoff.core.policies.policy import Fallback

TEAM = "T0BENCH"
USER = "U0MARA"
SECRET = secrets.token_hex(16)
SIDES = ("commit", "decide", "click")
HANDS = 200
AIM_MS = 50.0

_PEOPLE = Directory(
    [
        one.model_copy(update={"slack": f"{TEAM}/{USER}"}) if one == MARA else one
        for one in DIRECTORY
    ]
)
_SETTINGS = SlackSettings.model_validate({"bot_token": "xoxb-bench", "signing_secret": SECRET})


@dataclass(slots=True)
class Office:
    """Opens approvals and decides them in the three ways."""

    ledger: Ledger
    http: httpx.AsyncClient
    decisions: Decisions = field(init=False)
    waiting: list[Approval] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.decisions = Decisions(self.ledger, _PEOPLE)

    async def open(self, count: int) -> None:
        """Open this number of approvals, as if asked in Slack."""
        for _ in range(count):
            now = await self.ledger.now()
            opened = open_pause(now, route=False)
            asked = Asked(person=MARA.id, channel="slack", address=USER, receipt="D0MARA/1.0")
            terms = Fallback(ask=(MARA.id,)).terms({})
            approval, events = opened.approval.ask(terms, (asked,), now=now)
            change = Change(writes=opened.change.writes[:1], audit=list(opened.change.audit))
            await self.ledger.commit(change.put(approval, was=None).note(events))
            self.waiting.append(approval)

    async def commit(self) -> None:
        """Store the bytes of an approval and nothing else."""
        async with self.ledger.store.translated_client() as client:
            await client.set(f"{self.ledger.store.prefix}bench", "x" * 1_000)

    async def decide(self) -> None:
        """Approve one without Slack."""
        await self.decisions.take(self.waiting.pop().id, Approve(), Actor(MARA, "cli"))

    async def click(self) -> None:
        """Press a button of one approval's card."""
        await self.press(self.waiting.pop())

    async def press(self, approval: Approval) -> None:
        """Press the button of an approval's card.

        Raises:
            RuntimeError: The press was not acknowledged.
        """
        body = urlencode({"payload": json.dumps(_payload(approval))})
        timestamp = str(int(time.time()))
        signature = SignatureVerifier(SECRET).generate_signature(timestamp=timestamp, body=body)
        headers = {
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": signature or "",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer = await self.http.post(PATH, content=body, headers=headers)
        if answer.status_code != httpx.codes.OK:
            raise RuntimeError(f"A click was answered with {answer.status_code}.")


def _payload(approval: Approval) -> dict[str, object]:
    value = Reference(approval=approval.id, digest=short_digest(approval.digest), to=MARA.id).text()
    at = f"{time.time_ns()}"
    return {
        "type": "block_actions",
        "user": {"id": USER, "team_id": TEAM},
        "team": {"id": TEAM},
        "trigger_id": "1.2.x",
        "channel": {"id": "D0MARA"},
        "message": {"ts": "1.0"},
        "actions": [{"action_id": APPROVE, "value": value, "action_ts": at}],
    }


async def _timed(one: Callable[[], Awaitable[None]]) -> float:
    """Return the milliseconds that it took."""
    started = time.perf_counter()
    await one()
    return (time.perf_counter() - started) * 1_000


async def measure(
    pending: int, clicks: int, hands: int, *, fsync: str, folder: Path, console: Console
) -> None:
    """Measure everything and print it."""
    with EmbeddedRedis(folder / "redis", fsync=fsync) as server:
        ledger, web = Ledger(Store.open(server.url)), SlackWeb(_SETTINGS)
        handler = SlackHandler(Decisions(ledger, _PEOPLE), web, Identities(web, _PEOPLE))
        app = make_gateway(ledger)
        app.include_router(make_slack_router(_SETTINGS, handler))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
            office = Office(ledger, http)
            console.print(f"Opening {pending + 2 * clicks:,} approvals.", highlight=False)
            await office.open(pending + 2 * clicks + 20)
            took: dict[str, list[float]] = {side: [] for side in SIDES}
            for _ in range(clicks):
                for side in SIDES:
                    took[side].append(await _timed(getattr(office, side)))
            await _show(console, office, took, hands)
        await ledger.close()
        await web.close()


async def _show(console: Console, office: Office, took: dict[str, list[float]], hands: int) -> None:
    console.print(f"Load: {', '.join(f'{one:.1f}' for one in os.getloadavg())}", highlight=False)
    for side in SIDES:
        half, most = (percentile(took[side], share) for share in (0.5, 0.99))
        console.print(f"{side:>7}: p50 {half:.2f} ms, p99 {most:.2f} ms", highlight=False)
    ratio = percentile(took["click"], 0.5) / percentile(took["commit"], 0.5)
    console.print(f"click / commit, p50: {ratio:.2f}", highlight=False)
    most = percentile(took["click"], 0.99)
    word = "met" if most <= AIM_MS else "missed"
    console.print(f"click, p99: {most:.2f} ms, aim ≤ {AIM_MS:g} ms: {word}", highlight=False)
    one, before = office.waiting.pop(), await _on_their_way(office)
    started = time.perf_counter()
    await asyncio.gather(*(office.press(one) for _ in range(hands)))
    seconds = time.perf_counter() - started
    told = await _on_their_way(office) - before
    console.print(
        f"hands: {hands} clicks on one card in {seconds:.2f} s: a decision, of which a card is "
        f"told, and {told - 1} answers to those who came too late",
        highlight=False,
    )


async def _on_their_way(office: Office) -> int:
    return (await office.ledger.backlog()).get("deliver.slack", 0)


def main() -> None:
    """Read the arguments, measure in a temporary folder, and remove it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.slack", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="always")
    given = parser.parse_args()
    quieten()
    pending, clicks, hands, cards = (20, 5, 10, 6) if given.quick else (1_000, 500, HANDS, 300)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        console = Console()
        asyncio.run(
            measure(pending, clicks, hands, fsync=given.fsync, folder=Path(folder), console=console)
        )
        console.print(asyncio.run(burst(cards, Path(folder))), highlight=False)


if __name__ == "__main__":
    main()
