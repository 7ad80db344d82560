"""Reads approvals, runs, grants and other records of the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar, cast

import structlog
from pydantic import TypeAdapter, ValidationError

from signoff.broker.ledger.store import mark_of
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event
from signoff.core.approvals.run import Run
from signoff.core.base.errors import RecordUnreadable
from signoff.core.base.model import read_stored
from signoff.core.grants.grant import Grant

T = TypeVar("T")
R = TypeVar("R", Approval, Run)
V = TypeVar("V", Approval, Run, Grant)

log = structlog.get_logger(__name__)

_APPROVAL, _RUN, _GRANT = TypeAdapter(Approval), TypeAdapter(Run), TypeAdapter(Grant)
_EVENT = TypeAdapter(Event)

_MOST_RECENT = 400


def read_approval(version: int, data: str) -> Approval:
    """Return the approval that a record holds."""
    return _versioned(read_stored(_APPROVAL, data), version)


def read_run(version: int, data: str) -> Run:
    """Return the run that a record holds."""
    return _versioned(read_stored(_RUN, data), version)


def _versioned(record: V, version: int) -> V:
    """Return a record that was just read, with its version, which is not part of the data."""
    # Nobody else has the record yet, and a copy takes half as long as reading it.
    vars(record)["version"] = version
    return record


def legible_approval(approval_id: str, record: tuple[int, str]) -> Approval:
    """Return the approval that a record holds.

    Raises:
        RecordUnreadable: This version cannot read it.
    """
    return _legible(read_approval, f"approval:{approval_id}", record)


def legible_run(run_id: str, record: tuple[int, str]) -> Run:
    """Return the run that a record holds; see `legible_approval`."""
    return _legible(read_run, f"run:{run_id}", record)


class Recent:
    """A cache of parsed records: a record that has not changed is not parsed again."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, str, Approval | Run]] = {}

    def approval(self, approval_id: str, record: tuple[int, str]) -> Approval:
        """Return the approval that a record holds; see `legible_approval`."""
        return self._read(f"approval:{approval_id}", record, read_approval)

    def run(self, run_id: str, record: tuple[int, str]) -> Run:
        """Return the run that a record holds; see `legible_approval`."""
        return self._read(f"run:{run_id}", record, read_run)

    def _read(self, key: str, record: tuple[int, str], read: Callable[[int, str], R]) -> R:
        version, data, value = self._known.get(key, (0, "", None))
        if (version, data) != record:
            return self._keep(key, record, _legible(read, key, record))
        if mark_of(version) == mark_of(record[0]):
            return cast("R", value)
        # A process does not know the mark of each record that it has written.
        known = cast("R", value).model_copy(update={"version": record[0]})
        return self._keep(key, record, known)

    def keep(self, written: Iterable[tuple[int, str, Approval]]) -> None:
        """Keep approvals that this process has just written; see `Change.approvals`."""
        for version, data, approval in written:
            self._keep(f"approval:{approval.id}", (version, data), approval)

    def _keep(self, key: str, record: tuple[int, str], value: R) -> R:
        self._known.pop(key, None)
        if len(self._known) >= _MOST_RECENT:
            del self._known[next(iter(self._known))]
        self._known[key] = (*record, value)
        return value


def read_grant(version: int, data: str) -> Grant:
    """Return the grant that a record holds."""
    return _versioned(read_stored(_GRANT, data), version)


def legible_grant(grant_id: str, record: tuple[int, str]) -> Grant:
    """Return the grant that a record holds; see `legible_approval`."""
    return _legible(read_grant, f"grant:{grant_id}", record)


def legible(kind: TypeAdapter[T], key: str, record: tuple[int, str] | None, empty: T) -> T:
    """Return the value of any other record.

    Args:
        kind: The type of the value.
        key: The key of the record.
        record: The record, None if there is none.
        empty: The value to return if there is no record.

    Raises:
        RecordUnreadable: This version cannot read it.
    """
    if record is None:
        return empty
    return _legible(lambda _, data: read_stored(kind, data), key, record)


def read_event(text: str) -> Event | None:
    """Return an entry of the audit, None for a kind of event that only a later version knows."""
    try:
        return read_stored(_EVENT, text)
    except ValidationError as error:
        log.warning("audit.unreadable", error=str(error))
        return None


def _legible(read: Callable[[int, str], T], key: str, record: tuple[int, str]) -> T:
    try:
        return read(*record)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordUnreadable(key, f"{where}: {first['msg']}") from error
