"""``python -m benchmarks.peers.driver PEER FOLDER``: one peer, driven by lines of standard input.

It runs in the environment of the peer. `round COUNT` returns the seconds for this number of units,
`idle` the milliseconds from an answer until the work continued, and `pending COUNT` the bytes of
the store before and after this number of requests were opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.fleet import Fleet
from benchmarks.peers.port import Peer


def load(name: str) -> type[Peer]:
    """Return the peer that ``MODULE:CLASS`` names; the module is one of `benchmarks.peers`."""
    module, _, attribute = name.partition(":")
    found: type[Peer] = getattr(import_module(f"benchmarks.peers.{module}"), attribute)
    return found


async def round_of(peer: Peer, count: int) -> float:
    """Do this number of units, and return the seconds."""
    slots = asyncio.Semaphore(peer.at_once)

    async def one() -> None:
        async with slots:
            await peer.answer(await peer.open())

    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(count)))
    await peer.settle()
    return time.perf_counter() - started


async def idle(peer: Peer) -> float:
    """Return the milliseconds from one answer until its work continues, without other load."""
    request = await peer.open()
    await peer.settle()
    await asyncio.sleep(random.uniform(peer.pause / 2, peer.pause))
    called = time.monotonic_ns()
    moment = await peer.answer(request)
    await peer.settle()
    return (moment - called) / 1e6


async def pending(peer: Peer, count: int) -> tuple[int, int]:
    """Return the bytes of the store before and after opening this number of requests."""
    slots = asyncio.Semaphore(peer.at_once)

    async def one() -> None:
        async with slots:
            await peer.open()

    before = await peer.stored()
    await asyncio.gather(*(one() for _ in range(count)))
    await peer.settle()
    return before, await peer.stored()


async def drive(name: str, folder: Path) -> None:
    """Start a peer and execute the lines until they end or say to stop."""
    loop, whole = asyncio.get_running_loop(), asyncio.current_task()
    if whole is not None:
        # Its servers stop with it.
        loop.add_signal_handler(signal.SIGTERM, whole.cancel)
    lines = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with Fleet(folder) as fleet:
        peer = load(name)(folder, fleet)
        async with peer.ends:
            await peer.start()
            _say("ready")
            while words := (await lines.readline()).decode().split():
                match words:
                    case ["round", count]:
                        _say("took", await round_of(peer, int(count)))
                    case ["idle"]:
                        _say("idle", await idle(peer))
                    case ["pending", count]:
                        _say("bytes", *await pending(peer, int(count)))
                    case _:
                        raise ValueError(f"{words} is nothing that a driver does.")


def _say(*words: object) -> None:
    os.write(_OUTPUT, (" ".join(map(str, words)) + "\n").encode())


# Libraries may print to standard output.
_OUTPUT = os.dup(1)

if __name__ == "__main__":
    os.dup2(2, 1)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(drive(sys.argv[1], Path(sys.argv[2])))
