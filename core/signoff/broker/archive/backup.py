"""A backup of the ledger: everything in Redis as it stood at one moment, in one file.

The file is gzip over JSON Lines: what it is, a line for each key, and the SHA-256 of the lines
before. It holds contents and not Redis' own encoding, so a backup of one version of Redis or Valkey
can be restored into another.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from signoff.broker.archive.anchor import read_anchor
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store, to_ms
from signoff.broker.server.address import open_pool
from signoff.broker.server.redis_py import redis
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import BackupRefused

_FORMAT: Final = 1
_PATIENCE: Final = 600
_BATCH: Final = 500
_MARK: Final = "restoring"
_LEFT_OUT: Final = ("lease:", "alive:", "done:", "probe:", "search:", _MARK)
"""Keys of processes that are not there any more when a backup is restored, and of an index that is
made anew."""

_ADDS: Final = {"hash": ("HSET", 2), "zset": ("ZADD", 2), "set": ("SADD", 1), "list": ("RPUSH", 1)}


class Key(NamedTuple):
    """One key.

    Attributes:
        name: Without the prefix.
        kind: ``string``, ``hash``, ``list``, ``set``, ``zset`` or ``stream``.
        expires: When it expires, in milliseconds since the epoch; None if it does not.
        value: The text, the list, a sorted list of members or pairs, or of a stream the last id
            and rows.
    """

    name: str
    kind: str
    expires: int | None
    value: Any

    @property
    def digest(self) -> str:
        """What shows whether two are the same; the expiry apart."""
        return hashlib.sha256(json.dumps([self.kind, self.value]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored.

    Attributes:
        keys: How many keys.
        at: When the backup was made, in milliseconds since the epoch.
        entries: How many entries the audit has, those in the archive included.
        running: Runs that were in the middle of something: what they did since is not known.
    """

    keys: int
    at: int
    entries: int
    running: Sequence[str]


def patient_store(url: str, prefix: str) -> Store:
    """Return a store that waits for long replies."""
    pool = open_pool(
        url, max_connections=4, timeout=20, decode_responses=True, socket_timeout=_PATIENCE
    )
    return Store(redis.asyncio.Redis(connection_pool=pool), prefix=prefix)


async def backup(store: Store, file: Path) -> int:
    """Write everything that is in the ledger into a file, and return how many keys that is.

    Redis reads all of it in one script, so that it belongs together; others wait meanwhile.

    Args:
        store: A patient one; it may be on a replica.
        file: Must not exist.

    Raises:
        BackupRefused: The file is there already, or cannot be written.
        LedgerUnavailable: Redis cannot be reached, or has no room for the reply.
    """
    if file.exists():  # noqa: ASYNC240 -- there is nobody else in this process
        raise BackupRefused(f"{file} is there already. Name another file, or move it away.")
    at, keys = await _read(store)
    part = file.with_name(f"{file.name}.part")
    try:
        # What is there already is an earlier try's, or somebody else's who would read it.
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed:
                for line in _lines(at, keys):
                    packed.write(line)
            raw.flush()
            os.fsync(raw.fileno())
        part.replace(file)
        number = os.open(file.parent, os.O_RDONLY)
        os.fsync(number)
        os.close(number)
    except OSError as error:
        raise BackupRefused(f"{file} cannot be written: {error.strerror}.") from error
    return len(keys)


async def restore(ledger: Ledger, file: Path) -> Restored:
    """Write a backup into an empty Redis, read all of it again, and verify the audit.

    Args:
        ledger: On a patient store.
        file: The backup.

    Raises:
        BackupRefused: The file is damaged, or Redis has something in it; nothing was changed. Or
            what is there afterwards is not what the file has.
        AuditBroken: The audit in the backup does not verify.
        LedgerUnavailable: Redis cannot be reached. Empty it before the next try.
    """
    store = ledger.store
    at, keys = check(file)
    async with store.translated_client() as client:
        if there := await client.dbsize():
            raise BackupRefused(
                f"This Redis is not empty: it has {there:,} keys. A backup is restored into an "
                "empty one. Stop all processes, and take another Redis or `FLUSHDB`."
            )
        await client.set(store.prefix + _MARK, file.name)
    now = to_ms(await store.now())
    lasting = [one for one in keys if one.expires is None or one.expires > now]
    for start in range(0, len(lasting), _BATCH):
        await _write(store, lasting[start : start + _BATCH])
    _, found = await _read(store)
    wanted = {one.name: one for one in lasting if one.expires is None}
    same = {
        one.name for one in found if one.name in wanted and wanted[one.name].digest == one.digest
    }
    if missing := sorted({*wanted} - same):
        raise BackupRefused(
            f"{missing[0]} is not in Redis as it is in the file. Does somebody else write to it? "
            "Empty it and try again."
        )
    chain, anchor = audit.Chain(), await read_anchor(ledger)
    chain.count, chain.link = anchor.count, anchor.link
    count, _ = await audit.verify(store, chain=chain, after=anchor.entry)
    async with store.translated_client() as client:
        await client.delete(store.prefix + _MARK)
    running = [
        one.id
        for one in await ledger.recent_runs()
        if one.state in {RunState.QUEUED, RunState.ANSWERED}
    ]
    return Restored(len(lasting), at, count, running)


def check(file: Path) -> tuple[int, list[Key]]:
    """Return when a backup was made, and the keys in it; check that it is whole.

    Raises:
        BackupRefused: It is damaged, or none.
    """
    whole, rows = hashlib.sha256(), list[dict[str, Any]]()
    try:
        with gzip.open(file, "rb") as lines:
            for line in lines:
                row = json.loads(line)
                if "sha256" in row:
                    break
                whole.update(line)
                rows.append(row)
            else:
                row = {}
            rest = lines.read(1)
    except (OSError, EOFError, ValueError) as error:
        raise BackupRefused(f"{file} is not a whole backup: {error}") from error
    if row.get("sha256") != whole.hexdigest() or rest or not rows:
        raise BackupRefused(f"{file} is not a whole backup: its checksum does not fit.")
    head, *keys = rows
    if head.get("backup") != _FORMAT:
        raise BackupRefused(f"{file} was written by another version of Signoff, or is no backup.")
    return head["at"], [Key(**one) for one in keys]


async def _read(store: Store) -> tuple[int, list[Key]]:
    # Most of the ledger is its audit, which only grows: so read before, page by page, unless
    # somebody archives at this moment.
    anchor = await read_anchor(Ledger(store))
    before = [] if anchor.pruning or anchor.swaps else [row async for row in _rows(store)]
    at, keys = await _dump(store, before)
    if before and (await read_anchor(Ledger(store))).version != anchor.version:
        at, keys = await _dump(store, [])
    return at, keys


async def _rows(store: Store) -> AsyncIterator[list[Any]]:
    async for entry_id, text, link in audit.entries(store):
        yield [entry_id, ["e", text, "h", link]]


async def _dump(store: Store, before: Sequence[list[Any]]) -> tuple[int, list[Key]]:
    """Return everything at one moment.

    Args:
        store: Where.
        before: The first entries of the audit.
    """
    pattern = re.sub(r"([\\*?\[\]])", r"\\\1", store.prefix) + "*"
    at, *rows = await store.script("dump", pattern, before[-1][0] if before else "0-0")
    found = []
    for key, kind, ttl, value in rows:
        name = key.removeprefix(store.prefix)
        if not name.startswith(_LEFT_OUT):
            expires = None if ttl < 0 else at + ttl
            whole = [value[0], [*before, *value[1]]] if name == "audit" else _ordered(kind, value)
            found.append(Key(name, kind, expires, whole))
    return at, sorted(found)


def _ordered(kind: str, value: Any) -> Any:  # noqa: ANN401 -- as Redis replies
    """Return contents in an order that does not depend on how Redis keeps them."""
    match kind:
        case "hash" | "zset":
            return sorted([one, more] for one, more in zip(value[::2], value[1::2], strict=True))
        case "set":
            return sorted(value)
    return value


def _lines(at: int, keys: Iterable[Key]) -> Iterator[bytes]:
    whole = hashlib.sha256()
    rows = ({"backup": _FORMAT, "at": at}, *(one._asdict() for one in keys))
    for row in rows:
        line = json.dumps(row).encode() + b"\n"
        whole.update(line)
        yield line
    yield json.dumps({"sha256": whole.hexdigest()}).encode() + b"\n"


async def _write(store: Store, keys: Iterable[Key]) -> None:
    async with store.translated_client() as client, client.pipeline(transaction=False) as pipe:
        for key in keys:
            name = store.prefix + key.name
            for command in _commands(name, key):
                pipe.execute_command(*command)
            if key.expires is not None:
                pipe.execute_command("PEXPIREAT", name, key.expires)
        await pipe.execute()


def _commands(name: str, key: Key) -> Iterator[tuple[str | int, ...]]:
    if key.kind == "string":
        yield "SET", name, key.value
        return
    if key.kind == "stream":
        last, rows = key.value
        for entry_id, fields in rows:
            yield "XADD", name, entry_id, *fields
        if not rows:
            # A stream without entries remembers the last id: those that follow are later.
            yield "XADD", name, last, "e", ""
            yield "XDEL", name, last
        yield "XSETID", name, last
        return
    command, width = _ADDS[key.kind]
    for start in range(0, len(key.value), _BATCH):
        page = key.value[start : start + _BATCH]
        flat = [str(one) for row in page for one in (row if width == 2 else [row])]
        # The score stands before the member.
        if key.kind == "zset":
            flat = [str(one) for member, score in page for one in (score, member)]
        yield command, name, *flat
