"""A description of the machine, because results without it mean nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil

from signoff.broker.ledger.ledger import Ledger


async def describe(ledger: Ledger, fsync: str) -> list[tuple[str, str]]:
    """Return names and values for the head of the report."""
    info = await ledger.store.client.info("server")
    return [
        *hardware(),
        ("Redis", f"{info['redis_version']}, embedded, appendonly yes, appendfsync {fsync}"),
        (
            "packages",
            ", ".join(f"{name} {version(name)}" for name in ("celery", "redis", "google-adk")),
        ),
    ]


def hardware() -> list[tuple[str, str]]:
    """Return those values that do not depend on a server."""
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return [
        ("CPU", f"{_cpu()}, {psutil.cpu_count()} cores"),
        ("memory", f"{psutil.virtual_memory().total / 2**30:.0f} GiB"),
        ("load before", load),
        ("system", f"{platform.system()} {platform.release()}"),
        ("Python", platform.python_version()),
    ]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
