"""The checks of `signoff doctor` for the ledger: Redis, its processes, and the work in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from signoff.broker.archive.anchor import read_anchor
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.directory.absences import People
from signoff.broker.freezes import Freezes
from signoff.broker.heartbeat import alive, states
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import DEAD
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_ms
from signoff.broker.monitoring.gauges import KnownNames, Stage, measure
from signoff.broker.server.health import redis_doubts, redis_problems
from signoff.broker.timers.lag import Lag, lag
from signoff.broker.timers.poison import poisoned
from signoff.channels.email.inbound.quarantine import KEPT, in_quarantine
from signoff.cli import log as logs
from signoff.cli.composition.kinds import KINDS, host_of
from signoff.cli.composition.receipts import open_receipts, private_file
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.finding import Finding
from signoff.cli.doctor.inbox import about_inbox
from signoff.core.base.durations import format_duration
from signoff.core.base.errors import ArchiveBroken, ConfigError, LedgerUnavailable
from signoff.core.routing.vacancies import vacancies

_SEVERAL = 2
_MOST_SEATS = 10
_CLOCK_STEP = timedelta(minutes=1)
_WAITS = timedelta(minutes=5)


async def about_ledger(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Check Redis, the processes that use it, and their work."""
    return [finding async for finding in _ledger(ledger, settings)]


async def _ledger(ledger: Ledger, settings: Settings) -> AsyncIterator[Finding]:
    url = logs.hide_passwords(settings.redis_url)
    try:
        problems = await redis_problems(ledger)
        for problem in problems:
            yield Finding("redis", "broken", problem)
        doubts = await redis_doubts(ledger)
        for doubt in doubts:
            yield Finding("redis", "warning", doubt)
        if not problems and not doubts:
            yield Finding("redis", "good", f"{url} keeps what it acknowledges")
        async for finding in clock(ledger, datetime.now(UTC)):
            yield finding
        living = await alive(ledger)
        for finding in [*_processes(living), *_code(settings, living.get("worker", []))]:
            yield finding
        for one in await Freezes(ledger).all():
            text = f"{one.by} has frozen {one.stops}: {one.why}. `signoff thaw` ends this"
            yield Finding("freezes", "warning", text)
        said = await states(ledger)
        for finding in [*_rules(settings, said), *_keys(settings, said)]:
            yield finding
        yield backlog((await measure(ledger, KnownNames())).stages)
        yield _timers(await lag(ledger))
        for finding in [*await _archive(ledger, settings), *await unfinished_work(ledger)]:
            yield finding
        if settings.aap.enabled:
            yield await _instances(ledger)
        yield await _seats(ledger, settings)
        for finding in await about_inbox(ledger, settings):
            yield finding
    except LedgerUnavailable as error:
        why = str(error).removesuffix(" `signoff doctor` checks it.")
        own = "" if "url" in settings.redis.model_fields_set else " (`signoff up` starts its own.)"
        yield Finding("redis", "broken", f"{url}: {why}{own}")


async def clock(ledger: Ledger, here: datetime) -> AsyncIterator[Finding]:
    """Compare the clock of Redis, by which deadlines and leases are judged, with this one (UTC)."""
    now = await ledger.now()
    async with ledger.store.translated_client() as client:
        rows = await client.xrevrange(f"{ledger.store.prefix}audit", count=1)
    last = audit.order(rows[0][0])[0] if rows else 0
    behind = timedelta(milliseconds=last) - timedelta(milliseconds=to_ms(now))
    if behind > _CLOCK_STEP:
        text = (
            f"its clock was set back by {_shown(behind)}: the last entry of the audit is from "
            "later. Deadlines come as much later. Set the clocks of all Redis servers by NTP"
        )
        yield Finding("redis", "warning", text)
    if abs(now - here) > _CLOCK_STEP:
        than = "behind" if now < here else "ahead of"
        text = (
            f"its clock is {_shown(abs(now - here))} {than} the clock of this machine. Deadlines "
            "are judged by the clock of Redis. Set both by NTP"
        )
        yield Finding("redis", "warning", text)


def _shown(duration: timedelta) -> str:
    return format_duration(timedelta(seconds=round(duration.total_seconds())))


async def _instances(ledger: Ledger) -> Finding:
    """Check whether any agent can use the Agent Approval Protocol."""
    from signoff.channels.aap.instances import everyone  # noqa: PLC0415 -- few set-ups use it

    found = await everyone(ledger)
    if not found:
        text = "no agent can ask by it yet; `signoff aap instance add NAME` adds one"
        return Finding("aap", "warning", text)
    return Finding("aap", "good", f"{len(found)} may ask: {', '.join(one.name for one in found)}")


async def _seats(ledger: Ledger, settings: Settings) -> Finding:
    """Find approver seats of the policies that nobody can fill, now or within a week."""
    directory = await People(ledger, settings.everybody).directory()
    found = vacancies(
        settings.policies,
        settings.default,
        directory,
        now=await ledger.now(),
        ahead=timedelta(days=7),
    )
    if not found:
        return Finding("seats", "good", "everybody whom the policies ask can be asked")
    text = ". ".join(str(one) for one in found[:_MOST_SEATS])
    more = f". And {len(found) - _MOST_SEATS:,} more" if len(found) > _MOST_SEATS else ""
    return Finding("seats", "warning", f"nobody can be asked for {text}{more}")


def _processes(living: dict[str, list[str]]) -> list[Finding]:
    findings = []
    for kind in KINDS:
        names = living.get(kind, [])
        if names:
            findings.append(
                Finding(kind, "good", f"{len(names)} alive: {', '.join(sorted(names))}")
            )
        else:
            text = f"none is alive; start one with `signoff {kind}`"
            findings.append(Finding(kind, "warning", text))
    return findings


def _rules(settings: Settings, found: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Check whether all processes use the people and policies that are read here."""
    for process, state in found.items():
        if problem := state.get("problem"):
            yield Finding("settings", "broken", f"{process}: {problem}")
        elif state.get("rules", settings.rules_digest) != settings.rules_digest:
            text = (
                f"{process} follows other people or policies than these. Give it the same file, "
                "and let it read the file: kill -HUP"
            )
            yield Finding("settings", "warning", text)


def _keys(settings: Settings, found: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    """Check whether the workers have the keys by which others sign decisions."""
    signers = dict(found)
    # Without a key, the first decision of a command creates one. The doctor does not.
    if settings.receipts.private_key.get_secret_value() or private_file(settings).exists():
        try:
            signers["the command line here"] = open_receipts(settings).key_ids
        except ConfigError as error:
            yield Finding("receipts", "broken", str(error))
    for worker, state in found.items():
        # A process of the last release does not say which keys it has.
        if not worker.startswith("worker ") or "trusts" not in state:
            continue
        trusted = state["trusts"].split()
        for signer, other in signers.items():
            if (kid := other.get("signs")) and kid not in trusted:
                text = (
                    f"{worker} does not have the key {kid}, which {signer} signs decisions with, "
                    "so the calls that it approves wait. Give all processes of one [redis] prefix "
                    "the same keys (`signoff receipt keys` prints those of a machine), and another "
                    "installation another prefix"
                )
                yield Finding("receipts", "broken", text)


def _code(settings: Settings, workers: list[str]) -> list[Finding]:
    """Check whether every running worker can resume suspended code."""
    machines = sorted({host_of(name) for name in workers})
    if len(machines) < _SEVERAL or settings.ces.key.get_secret_value():
        return []
    text = (
        f"workers are alive on {', '.join(machines)}, and [ces] key is not set: code of CX Agent "
        "Studio that stops on one of them cannot continue on another. Set SIGNOFF_CES__KEY to "
        "the same value everywhere. If no agent runs such code, nothing needs to be done"
    )
    return [Finding("code", "warning", text)]


def backlog(stages: Sequence[Stage]) -> Finding:
    """Count the work of the stages, and check that processes take it."""
    text = ", ".join(f"{one.name} {one.items:,}" for one in stages if one.items)
    ages = {one.name: timedelta(seconds=one.age) for one in stages}
    if late := [f"{name} for {_shown(age)}" for name, age in ages.items() if age > _WAITS]:
        text = (
            f"{text}. No process has taken the oldest work of {', '.join(late)}. Start more "
            "processes of this stage; a worker only takes the runs of agents in its folder"
        )
        return Finding("backlog", "warning", text)
    return Finding("backlog", "good", text or "no stage has work waiting")


def _timers(found: Lag) -> Finding:
    text = f"nothing is overdue by more than {found.late.total_seconds():.1f} s"
    return Finding("timers", "warning" if found.problem else "good", found.problem or text)


async def _archive(ledger: Ledger, settings: Settings) -> list[Finding]:
    """Check whether the archive on this machine is the one that the ledger knows."""
    anchor = await read_anchor(ledger)
    if not anchor.sequence:
        return []
    files = ArchiveFiles(settings.archive_folder)
    try:
        await asyncio.to_thread(files.require, anchor.sequence, anchor.sha256)
    except ArchiveBroken as error:
        return [Finding("archive", "warning", str(error))]
    text = f"{files.path(anchor.sequence)} is the last file and is unchanged"
    return [Finding("archive", "good", text)]


async def unfinished_work(ledger: Ledger) -> list[Finding]:
    """Find work that no process continues: a person has to act."""
    findings = []
    if dead := await ledger.store.members(DEAD):
        text = f"{len(dead):,} given up after many attempts; {DEAD}:{dead[0]} … have the causes"
        findings.append(Finding("dead letters", "warning", text))
    if mails := await in_quarantine(ledger):
        text = (
            f"{len(mails):,} could not be read and decide nothing; they are kept for {KEPT.days} "
            "days. `signoff mail quarantine list` shows them"
        )
        findings.append(Finding("quarantined mails", "warning", text))
    if held := await poisoned(ledger):
        text = (
            f"the timers of {len(held):,} fail, such as {held[0].approval}: {held[0].problem}. "
            "Correct that; `signoff approvals show` has the time of the first failure"
        )
        findings.append(Finding("approvals", "broken", text))
    if lost := await ledger.unreachable():
        text = (
            f"nobody can be asked about {len(lost):,}, such as {lost[0].id}: name somebody in "
            "[default] ask; `signoff approvals show` has the reason"
        )
        findings.append(Finding("approvals", "warning", text))
    return findings
