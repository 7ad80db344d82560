"""``python -m benchmarks.inbox``: the pages of the inbox with very many pending approvals.

One process with its own Redis fetches each page repeatedly from the gateway by ASGI, without a
network, and also the list of an empty ledger for comparison. The bytes are those of the page
itself; files that a browser fetches once are counted at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import httpx
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from benchmarks.machine import describe
from benchmarks.office import DIRECTORY, MARA
from benchmarks.pending import Pile
from benchmarks.process import quieten
from benchmarks.report import percentile
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.search_index import SearchIndex
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.inbox.templating import ASSETS
from signoff.core.directory.people import Directory, Person, Role

MANY, FEW = 10_000, 300
AIM_MS, AIM_BYTES = 200.0, 100_000

_SETTINGS = InboxSettings(url="https://approvals.example", secret_key=SecretStr("k" * 32))
BOSS = Person(id="boss", name="Bo Sand", email="boss@example.com", roles=(Role.OPERATOR,))
_PAGES = (
    (MARA, "/", "for me"),
    (MARA, "/?sort=due", "for me, by what is due"),
    (MARA, "/?q=nothing", "for me, a search that finds nothing"),
    (MARA, "/away", "the absence"),
    (BOSS, "/all", "all"),
    (BOSS, "/all?sort=oldest", "all, the oldest first"),
    (BOSS, "/charts", "figures"),
)


class Visitors:
    """Readers of the pages.

    Args:
        pile: The ledger.
    """

    def __init__(self, pile: Pile) -> None:
        self._ledger = pile.ledger
        decisions = Decisions(pile.ledger, Directory([*DIRECTORY, BOSS]))
        self._app = make_gateway(pile.ledger)
        self._app.include_router(make_inbox_router(decisions, _SETTINGS))

    async def fetch(self, person: Person, path: str, times: int) -> tuple[list[float], int]:
        """Return the milliseconds of each fetch of a page, and the page's bytes.

        Raises:
            RuntimeError: The page does not exist.
        """
        sessions = Sessions(self._ledger, _SETTINGS)
        name = await sessions.begin(person.id, how=How.LOCAL, also=Change())
        took, size = list[float](), 0
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app),
            base_url=_SETTINGS.url,
            headers={"Cookie": f"__Host-signoff={name}"},
        ) as http:
            for _ in range(times):
                started = time.perf_counter()
                answer = await http.get(f"/inbox{path}")
                took.append((time.perf_counter() - started) * 1_000)
                if answer.status_code != httpx.codes.OK:
                    raise RuntimeError(f"{path} was answered with {answer.status_code}.")
                size = len(answer.content)
        return took, size

    async def beside(self) -> int:
        """Return the uncompressed bytes of the files that a browser fetches once."""
        return sum([(await self.fetch(MARA, f"/{name}", 1))[1] for name in ASSETS])


async def measure(many: int, times: int, *, fsync: str, folder: Path, console: Console) -> None:
    """Measure everything and print it."""
    with EmbeddedRedis(folder / "redis", fsync=fsync) as server:
        pile = Pile(server.url)
        for name, text in await describe(pile.ledger, fsync):
            console.print(f"{name:>12}  {text}", highlight=False)
        visitors = Visitors(pile)
        empty = [await visitors.fetch(person, path, times) for person, path, _ in _PAGES]
        await pile.grow_by_the_stages(1)
        await pile.grow(many)
        await SearchIndex(pile.ledger, margin=timedelta()).extend()
        full = [await visitors.fetch(person, path, times) for person, path, _ in _PAGES]
        beside = await visitors.beside()
        await pile.close()
    table = Table(title=f"{many:,} approvals wait", title_justify="left")
    for column in ("page", "ms, p50", "p99", "of an empty list", "bytes"):
        table.add_column(column, justify="left" if column == "page" else "right")
    for (_, _, name), (none, _), (some, size) in zip(_PAGES, empty, full, strict=True):
        ratio = statistics.median(some) / statistics.median(none)
        table.add_row(
            name,
            f"{statistics.median(some):,.1f}",
            f"{percentile(some, 99):,.1f}",
            f"{ratio:.1f}",
            f"{size:,}",
        )
    console.print(table)
    first, size = full[0]
    took, whole = statistics.median(first), size + beside
    met = {True: "met", False: "missed"}
    console.print("Ratios:")
    console.print(
        f"  the first page: {took:,.1f} ms, aim {AIM_MS:,.0f}: {met[took < AIM_MS]}; {whole:,} "
        f"bytes with all beside it, aim {AIM_BYTES:,}: {met[whole < AIM_BYTES]}",
        highlight=False,
    )


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inbox", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="always")
    given = parser.parse_args()
    quieten()
    many, times = (FEW, 3) if given.quick else (MANY, 50)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        where, console = Path(folder), Console()
        asyncio.run(measure(many, times, fsync=given.fsync, folder=where, console=console))


if __name__ == "__main__":
    main()
