"""Backups of the ledger: all its keys in Redis at one moment, in one file.

The file is gzipped JSON Lines: a header, a line for each key, and the SHA-256 of all lines before.
It holds values and not the encoding of Redis, so a backup of one version of Redis or Valkey can be
restored into another.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from signoff.broker.archive.anchor import read_anchor
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.packing import unpack
from signoff.broker.ledger.store import Store, to_ms
from signoff.broker.server.address import open_pool
from signoff.broker.server.redis_py import redis
from signoff.core.base.counts import counted
from signoff.core.base.errors import BackupRefused

_FORMAT: Final = 1
_PATIENCE: Final = 600
_BATCH: Final = 500
_MARK: Final = "restoring"
_LEFT_OUT: Final = (
    *("lease:", "alive:", "done:", "probe:", "search:", _MARK),
    *(audit.PACKED, audit.COUNT),
)
"""Prefixes of keys that are left out: those of running processes, and an index that is rebuilt.

Packed texts are in the backup in their plain form, so that any release can restore it.
"""

_ADDS: Final = {"hash": ("HSET", 2), "zset": ("ZADD", 2), "set": ("SADD", 1), "list": ("RPUSH", 1)}


class SavedKey(NamedTuple):
    """One key.

    Attributes:
        name: The name without the prefix.
        kind: ``string``, ``hash``, ``list``, ``set``, ``zset`` or ``stream``.
        expires: When it expires, in milliseconds since the epoch; None if it does not.
        value: The text, the list, a sorted list of members or pairs, or the last id and the rows of
            a stream.
    """

    name: str
    kind: str
    expires: int | None
    value: Any

    @property
    def digest(self) -> str:
        """A digest by which to compare keys, without their expiry."""
        return hashlib.sha256(json.dumps([self.kind, self.value]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore.

    Attributes:
        keys: How many keys were restored.
        at: When the backup was made, in milliseconds since the epoch.
        entries: How many entries the audit has, including those in the archive.
        running: Runs that were active at the backup; what they did afterwards is not known.
    """

    keys: int
    at: int
    entries: int
    running: Sequence[str]


def patient_store(url: str, prefix: str) -> Store:
    """Return a store with a long timeout for replies."""
    pool = open_pool(
        url,
        prefix=prefix,
        max_connections=4,
        timeout=20,
        decode_responses=True,
        # Values that are not UTF-8 are restored unchanged.
        encoding_errors="surrogateescape",
        socket_timeout=_PATIENCE,
    )
    return Store(redis.asyncio.Redis(connection_pool=pool), prefix=prefix)


async def backup(store: Store, file: Path) -> int:
    """Write the whole ledger into a file, and return the number of keys.

    Redis reads all keys in one script, so that they are consistent; other clients wait meanwhile.

    Args:
        store: A store from `patient_store`; it may be on a replica.
        file: The path of the backup, which must not exist.

    Raises:
        BackupRefused: The file exists, or cannot be written.
        LedgerUnavailable: Redis cannot be reached, or has no memory for the reply.
    """
    if file.exists():  # noqa: ASYNC240 -- nothing else runs in this process
        raise BackupRefused(f"{file} exists already. Choose another file, or move it away.")
    at, keys = await _read(store)
    part = file.with_name(f"{file.name}.part")
    try:
        # An existing file is left by an earlier attempt, or belongs to a user who could read it.
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
        with suppress(OSError):
            part.unlink(missing_ok=True)  # to free the space if the disk is full
        raise BackupRefused(f"{file} cannot be written: {error.strerror}.") from error
    return len(keys)


async def restore(ledger: Ledger, file: Path) -> Restored:
    """Write a backup into an empty Redis, compare the result with the file, and verify the audit.

    The ledger must be on a store from `patient_store`.

    Raises:
        BackupRefused: The file is damaged or Redis is not empty, and nothing was changed; or the
            result differs from the file.
        AuditBroken: The audit in the backup cannot be verified.
        LedgerUnavailable: Redis cannot be reached. Empty it before the next attempt.
    """
    store = ledger.store
    at, keys = check(file)
    if store.in_cluster and (there := len(await store.keys(""))):
        raise BackupRefused(
            f"The cluster is not empty: it has {counted(there, 'key')} with the prefix "
            f"{store.prefix}. Stop all processes, and choose another [redis] prefix or delete "
            "these keys."
        )
    async with store.translated_client() as client:
        if not store.in_cluster and (there := await client.dbsize()):
            raise BackupRefused(
                f"This Redis is not empty: it has {counted(there, 'key')}. A backup can only be "
                "restored into an empty one. Stop all processes, and use another Redis or run "
                "`FLUSHDB`."
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
            f"{missing[0]} in Redis differs from the file. Does another process write to this "
            "Redis? Empty it and try again."
        )
    chain, anchor = audit.Chain(), await read_anchor(ledger)
    chain.count, chain.link = anchor.count, anchor.link
    count, _ = await audit.verify(store, chain=chain, after=anchor.entry)
    async with store.translated_client() as client:
        await client.delete(store.prefix + _MARK)
    running = [one.id for one in await ledger.recent_runs() if one.under_way]
    return Restored(len(lasting), at, count, running)


def check(file: Path) -> tuple[int, list[SavedKey]]:
    """Check that a backup is complete; return when it was made, and its keys.

    Raises:
        BackupRefused: The file is damaged, or not a backup.
    """
    whole, rows = hashlib.sha256(), list[dict[str, Any]]()
    row: dict[str, Any] = {}
    try:
        with gzip.open(file, "rb") as lines:
            for line in lines:
                row = dict(json.loads(line))
                if "sha256" in row:
                    break
                whole.update(line)
                rows.append(row)
            rest = lines.read(1)
    except (OSError, EOFError, TypeError, ValueError, zlib.error) as error:
        raise BackupRefused(f"{file} is not a complete backup: {error}") from error
    if row.get("sha256") != whole.hexdigest() or rest or not rows:
        raise BackupRefused(f"{file} is not a complete backup: its checksum does not match.")
    head, *keys = rows
    if head.get("backup") != _FORMAT:
        raise BackupRefused(f"{file} is not a backup, or another version of Signoff wrote it.")
    try:
        return int(head["at"]), [SavedKey(**one) for one in keys]
    except (KeyError, TypeError, ValueError) as error:
        raise BackupRefused(f"{file} is not a backup of Signoff: {error}") from error


async def _read(store: Store) -> tuple[int, list[SavedKey]]:
    # Most of the ledger is its audit, which only grows. So the audit is read beforehand, in pages,
    # unless a process is archiving at the moment.
    anchor = await read_anchor(Ledger(store))
    before: list[list[Any]] = []
    if not (anchor.pruning or anchor.swaps):
        entries = audit.entries(store)
        before = [[name, ["e", text, "h", link]] async for name, text, link in entries]
    at, keys = await _dump(store, before)
    if before and (await read_anchor(Ledger(store))).version != anchor.version:
        at, keys = await _dump(store, [])
    return at, keys


async def _dump(store: Store, before: Sequence[list[Any]]) -> tuple[int, list[SavedKey]]:
    """Return when the ledger was read, and all its keys at that moment.

    The entries in `before`, the first of the audit, are not read again.
    """
    last = before[-1][0] if before else "0-0"
    at, *rows = await store.script("dump", store.pattern(), last)
    # In their order, because the score of a block is that of its last entry.
    blocks = [
        one for key, *_, value in rows if key == store.prefix + audit.PACKED for one in value[::2]
    ]
    packed = [
        [name, ["e", text, "h", link]]
        for block in blocks
        for name, text, link in audit.read_block(block)
        if audit.order(name) > audit.order(last)
    ]
    found = []
    for key, kind, ttl, value in rows:
        name = key.removeprefix(store.prefix)
        if not name.startswith(_LEFT_OUT):
            expires = None if ttl < 0 else at + ttl
            whole = _ordered(kind, value)
            if name == "audit":
                whole = [value[0], [*before, *packed, *value[1]]]
            elif kind == "string" and name.startswith(("approval:", "run:")):
                whole = _plain(value)
            found.append(SavedKey(name, kind, expires, whole))
    return at, sorted(found)


def _plain(record: str) -> str:
    """Return a stored record in its plain form."""
    *start, data = record.split(" ", 2)
    return " ".join((*start, unpack(data)))


def _ordered(kind: str, value: Any) -> Any:  # noqa: ANN401 -- as Redis replies
    """Return a value in an order that does not depend on the encoding of Redis."""
    match kind:
        case "hash" | "zset":
            return sorted([one, more] for one, more in zip(value[::2], value[1::2], strict=True))
        case "set":
            return sorted(value)
    return value


def _lines(at: int, keys: Iterable[SavedKey]) -> Iterator[bytes]:
    whole = hashlib.sha256()
    rows = ({"backup": _FORMAT, "at": at}, *(one._asdict() for one in keys))
    for row in rows:
        line = json.dumps(row).encode() + b"\n"
        whole.update(line)
        yield line
    yield json.dumps({"sha256": whole.hexdigest()}).encode() + b"\n"


async def _write(store: Store, keys: Iterable[SavedKey]) -> None:
    async with store.translated_client() as client, client.pipeline(transaction=False) as pipe:
        for key in keys:
            name = store.prefix + key.name
            for command in _commands(name, key):
                pipe.execute_command(*command)
            if key.expires is not None:
                pipe.execute_command("PEXPIREAT", name, key.expires)
        await pipe.execute()


def _commands(name: str, key: SavedKey) -> Iterator[tuple[str | int, ...]]:
    if key.kind == "string":
        yield "SET", name, key.value
        return
    if key.kind == "stream":
        last, rows = key.value
        for entry_id, fields in rows:
            yield "XADD", name, entry_id, *fields
        if not rows:
            # An empty stream must keep its last id, so that later entries get higher ids.
            yield "XADD", name, last, "e", ""
            yield "XDEL", name, last
        yield "XSETID", name, last
        return
    command, width = _ADDS[key.kind]
    for start in range(0, len(key.value), _BATCH):
        page = key.value[start : start + _BATCH]
        flat = [str(one) for row in page for one in (row if width == 2 else [row])]
        # ZADD takes the score before the member.
        if key.kind == "zset":
            flat = [str(one) for member, score in page for one in (score, member)]
        yield command, name, *flat
