"""A change: everything that one atomic commit does."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, Self, TypeVar, cast

from signoff.broker.ledger.store import to_ms_after, to_us
from signoff.broker.monitoring import metrics, tracing
from signoff.broker.work import Work, body_of, read_work
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event
from signoff.core.approvals.lists.similar import answers, likeness
from signoff.core.approvals.parts import Origin
from signoff.core.approvals.run import Run
from signoff.core.base.model import stored_json
from signoff.core.directory.people import identity_key
from signoff.core.grants.grant import Grant
from signoff.core.payloads.digest import digest
from signoff.core.policies.levels import Verdict

FAR = 32_503_680_000_000
"""The score of what has no deadline: the year 3000, in milliseconds."""

DEAD = "dead"
"""The index of what was given up, and how the names of those records begin."""

DEAD_LETTERS_KEPT = timedelta(days=90)
"""How long work that was given up can be looked at."""

Entry = tuple[str, str, int]
"""An index, a member of it, and its score."""

Record = Approval | Run | Grant
R = TypeVar("R", Approval, Run)

_KINDS = {Approval: "approval", Run: "run", Grant: "grant"}


@dataclass(frozen=True)
class Item:
    """Work of a stage, leased to the worker that claimed it.

    Attributes:
        stage: The stage.
        id: A function of the cause, so that the same cause puts the same work in once.
        body: What to do, as it is kept.
        attempts: How many times it has been claimed, this time included.
        token: The lease.
    """

    stage: str
    id: str
    body: Mapping[str, Any]
    attempts: int
    token: str

    @cached_property
    def work(self) -> Work:
        """What to do.

        Raises:
            RecordUnreadable: The body does not hold what this version can read.
        """
        return read_work(self.stage, self.id, self.body)


def key_of(record: Record) -> str:
    """Return the key of a record, without the prefix."""
    return f"{_KINDS[type(record)]}:{record.id}"


def entries(record: Record | None) -> set[Entry]:
    """Return where a record stands in the indexes.

    The indexes follow from the records alone, so they can be rebuilt at any time.
    """
    match record:
        case None:
            return set()
        case Run():
            where = f"{record.app}\0{record.user}\0{record.session}\0{record.id}"
            return {("runs", record.id, to_us(record.submitted_at)), ("sessions", where, 0)}
        case Grant():
            given = ("grants", record.id, to_us(record.at))
            if record.revoked_at is not None or not record.left:
                return {given}
            # By its end: what has expired is passed over without being read.
            covers = scope_key(record.scope.app, record.scope.tool, record.scope.user)
            return {given, (covers, record.id, to_ms_after(record.expires_at))}
        case Approval():
            at = to_us(record.opened_at)
            asked = (requests_key(record.origin.user), record.id, at)
            return {("approvals", record.id, at), asked, *_standing(record)}


def _standing(record: Approval) -> set[Entry]:
    """Return where an approval stands by its state."""
    if record.state is not State.PENDING:
        ended = record.decision.at if record.decision else record.opened_at
        found = {("decided", record.id, to_us(ended)), *_proposals(record), *_answered(record)}
        if record.decision and record.decision.grant:
            found.add((f"uses:{record.decision.grant}", record.id, to_us(ended)))
        return found
    # Rounded up: whatever comes out of the index is really late.
    due = FAR if record.next_due is None else to_ms_after(record.next_due)
    inboxes = {
        (f"inbox:{person}", record.id, to_us(record.opened_at)) for person in record.approvers
    }
    queues = {(name, record.id, to_us(record.opened_at)) for name in record.queues}
    return {("waiting", record.id, due), *inboxes, *queues}


def scope_key(app: str, tool: str, user: str) -> str:
    """Return the index of the grants that calls of a tool for a requester may be covered by."""
    text = f"{app}\0{tool}\0{user}".encode("utf-8", "backslashreplace")
    return f"scope:{hashlib.sha256(text).hexdigest()[:32]}"


@lru_cache(maxsize=4096)
def requests_key(identity: str) -> str:
    """Return the index of what somebody has asked for under one of their identities."""
    text = identity_key(identity).encode("utf-8", "backslashreplace")
    return f"requests:{hashlib.sha256(text).hexdigest()[:32]}"


def similar_key(person: str, approval: Approval, *, rejected: bool = False) -> str:
    """Return the index of what somebody has decided that is like an approval.

    Args:
        person: Their id.
        approval: The approval.
        rejected: Whether only those that they have rejected.
    """
    text = "\0".join((person, *likeness(approval))).encode("utf-8", "backslashreplace")
    return f"similar:{hashlib.sha256(text).hexdigest()[:32]}" + (":no" if rejected else "")


def proposal_key(origin: Origin, digest: str) -> str:
    """Return how the index of proposals finds the rejections that proposed a call of a session."""
    return f"{origin.app}\0{origin.user}\0{origin.session}\0{digest}\0"


def _answered(approval: Approval) -> set[Entry]:
    """Return where an ended approval stands among what people have decided of its like."""
    found: set[Entry] = set()
    for person, verdict in answers(approval).items():
        at = to_us(approval.decision.at if approval.decision else approval.opened_at)
        found.add((similar_key(person, approval), approval.id, at))
        if verdict is Verdict.REJECT:
            found.add((similar_key(person, approval, rejected=True), approval.id, at))
    return found


def _proposals(approval: Approval) -> set[Entry]:
    if approval.decision is None or approval.decision.proposal is None or approval.superseded_by:
        return set()
    proposed = digest(approval.call.name, approval.decision.proposal)
    return {("proposals", proposal_key(approval.origin, proposed) + approval.id, 0)}


@dataclass(slots=True)
class Change:
    """What one commit does: all of it, or nothing if somebody else was first.

    A change has a mark of its own, which the records it writes carry: sent a second time, because
    the answer to the first was lost, it is recognised and not taken for somebody else's.
    """

    writes: list[dict[str, object]] = field(default_factory=list)
    items: list[dict[str, object]] = field(default_factory=list)
    acks: list[dict[str, object]] = field(default_factory=list)
    audit: list[dict[str, object]] = field(default_factory=list)
    fences: list[dict[str, object]] = field(default_factory=list)
    starts: list[dict[str, object]] = field(default_factory=list)
    until: int = 0
    mark: str = field(default_factory=lambda: secrets.token_hex(6))
    samples: list[metrics.Sample] = field(default_factory=list, repr=False)
    _latest: dict[str, Record] = field(default_factory=dict, repr=False)
    _kept: dict[str, Record] = field(default_factory=dict, repr=False)

    def copy(self) -> Change:
        """Return a change that can be added to without touching this one."""
        return Change(
            list(self.writes),
            list(self.items),
            list(self.acks),
            list(self.audit),
            list(self.fences),
            list(self.starts),
            self.until,
            samples=list(self.samples),
            _latest=dict(self._latest),
            _kept=dict(self._kept),
        )

    def put(self, new: Record, *, was: Record | None) -> Self:
        """Write a record, on the condition that it is still at the version of `was`.

        Raises:
            ValueError: The change writes this record already, and `was` is not what it writes:
                one of the two would be lost.
        """
        key = key_of(new)
        if key in self._latest and self._latest[key] is not was:
            raise ValueError(f"{key} is written twice in one change; build on the first write.")
        self._latest[key] = new
        if metrics.enabled():
            self.samples += metrics.of_write(new, was)
        kept = self._kept[key] = tracing.stamped(new, was)
        before, after = entries(was), entries(new)
        places = {entry[:2] for entry in after}
        return self.put_raw(
            key,
            stored_json(kept, exclude="version"),
            was=0 if was is None else was.version,
            add=after - before,
            drop=[entry for entry in before if entry[:2] not in places],
        )

    def leaves(self, record: R) -> R:
        """Return a record as it stands when this change is done, its version included.

        Args:
            record: As it was before the change, which may or may not write it.
        """
        new = self._kept.get(key_of(record))
        if not isinstance(new, type(record)):
            return record
        return new.model_copy(update={"version": record.version + 1})

    def upon(self, earlier: Change, record: Record) -> Self:
        """Write a record only as an earlier change, which is sent just before, has left it.

        The version alone does not say so: somebody else may have been faster than the earlier
        change, and have written the same version.
        """
        for write in self.writes:
            if write["key"] == key_of(record):
                write["by"] = earlier.mark
        return self

    def put_raw(
        self,
        key: str,
        data: str,
        *,
        was: int = 0,
        ttl: timedelta | None = None,
        add: Iterable[Entry] = (),
        drop: Iterable[Entry] = (),
    ) -> Self:
        """Write a record of another kind; empty data deletes it, `was` 0 wants it to be new."""
        self.writes.append(
            {
                "key": key,
                "was": was,
                "data": _utf8(data),
                "ttl": 0 if ttl is None else max(ttl // timedelta(milliseconds=1), 1),
                "add": [list(entry) for entry in add],
                "drop": [list(entry) for entry in drop],
            }
        )
        return self

    def put_dead(self, stage: str, name: str, letter: Mapping[str, Any]) -> Self:
        """Keep work of a stage that was given up, or a note of it, for `DEAD_LETTERS_KEPT`."""
        self.count(metrics.DEAD_LETTERS, stage)
        key, text, name = f"{DEAD}:{stage}:{name}", json.dumps(letter), f"{stage}:{name}"
        return self.put_raw(key, text, ttl=DEAD_LETTERS_KEPT, add=[(DEAD, name, 0)])

    @property
    def new_records(self) -> list[str]:
        """The keys of the records that must not be there before it is committed."""
        return [str(one["key"]) for one in self.writes if one["was"] == 0]

    def index(self, key: str, member: str, score: int) -> Self:
        """Put an entry into an index beside the record that this change writes.

        Raises:
            ValueError: The change writes no record: it would not be done at all.
        """
        if not self.writes:
            raise ValueError(f"{key}: an index entry goes with a record; write that first.")
        added = self.writes[-1]["add"]
        self.writes[-1] = {
            **self.writes[-1],
            "add": [*cast("list[Any]", added), [key, member, score]],
        }
        return self

    def send(self, work: Work, *, after: float = 0) -> Self:
        """Put work into the outbox of its stage, available after so many seconds.

        An item with its id that is still there stays as it is.
        """
        return self._send(work.stage, work.id, body_of(work), after)

    def send_raw(
        self, stage: str, item_id: str, body: Mapping[str, Any], *, after: float = 0
    ) -> Self:
        """Put a body into the outbox of a stage as it is; see `send`."""
        return self._send(stage, item_id, json.dumps(body), after)

    def ack(self, item: Item) -> Self:
        """Take claimed work out of its outbox, if its lease is still ours."""
        return self._ack(item, -1)

    def retry(
        self,
        item: Item,
        *,
        after: float,
        counted: bool = True,
        body: Mapping[str, Any] | None = None,
    ) -> Self:
        """Put claimed work back, for so many seconds from now.

        Args:
            item: The work.
            after: Seconds.
            counted: Whether this was one of its attempts.
            body: What to do from now on; None leaves it as it is.
        """
        self._ack(item, max(int(after * 1000), 0))
        self.acks[-1] |= {"free": not counted}
        if body is not None:
            self.acks[-1]["body"] = json.dumps(body)
        return self

    def note(self, events: Iterable[Event]) -> Self:
        """Append to the audit."""
        for event in events:
            if metrics.enabled():
                self.samples += metrics.of_event(event)
            text = _text_of(event)
            self.audit.append({"text": text, "hash": entry_hash(event), "run": event.run})
        return self

    def count(self, metric: metrics.Metric, *labels: str) -> Self:
        """Count something once this is committed."""
        self.samples.append((metric, labels, 1))
        return self

    def fence(self, key: str, token: str, *, give_back: bool = False) -> Self:
        """Commit only while this lease is held under this token, and maybe give it back then."""
        self.fences.append({"key": key, "token": token, "free": give_back})
        return self

    def starting(self, app: str, tools: Iterable[str], *, despite: Iterable[str] = ()) -> Self:
        """Commit only while none of these tools of an app is frozen.

        Args:
            app: The app.
            tools: Their names.
            despite: The ids of freezes that do not count.
        """
        self.starts += [{"app": app, "tool": tool, "despite": list(despite)} for tool in tools]
        return self

    def before(self, moment: datetime | None) -> Self:
        """Commit only while the ledger's clock is before this moment; None sets no limit."""
        if moment is not None:
            limit = to_ms_after(moment)
            self.until = min(self.until, limit) if self.until else limit
        return self

    def to_json(self) -> str:
        """Return the change as the commit script reads it."""
        return json.dumps(
            {
                "writes": self.writes,
                "items": self.items,
                "acks": self.acks,
                "audit": self.audit,
                "fences": self.fences,
                "starts": self.starts,
                "until": self.until,
                "mark": self.mark,
            },
            ensure_ascii=False,
        )

    def _send(self, stage: str, item_id: str, body: str, after: float) -> Self:
        self.items.append(
            {"stage": stage, "id": item_id, "body": body, "after": max(int(after * 1000), 0)}
        )
        return self

    def _ack(self, item: Item, after_ms: int) -> Self:
        self.acks.append(
            {"stage": item.stage, "id": item.id, "token": item.token, "after": after_ms}
        )
        return self


def groups(changes: Iterable[Change], *, most: int = 16) -> Iterator[list[Change]]:
    """Yield neighbours that can be one commit: `joined` says how.

    They write different records, and depend on nothing but the versions of these and on the leases
    of their items.
    """
    group: list[Change] = []
    written: set[object] = set()
    for one in changes:
        own = {write["key"] for write in one.writes}
        alone = bool(one.until or one.fences or one.starts)
        if group and (alone or written & own or len(group) == most):
            yield group
            group, written = [], set()
        group.append(one)
        written |= own
        if alone:
            yield group
            group, written = [], set()
    if group:
        yield group


def joined(group: Sequence[Change]) -> Change:
    """Return one change that does what several do, all of it or nothing; see `groups`."""
    if len(group) == 1:
        return group[0]
    return Change(
        writes=[one for change in group for one in change.writes],
        items=[one for change in group for one in change.items],
        acks=[one for change in group for one in change.acks],
        audit=[one for change in group for one in change.audit],
        samples=[one for change in group for one in change.samples],
    )


def entry_hash(event: Event) -> str:
    """Return the SHA-256 of an event's entry in the audit, of which the entry's link is made."""
    return hashlib.sha256(_text_of(event).encode()).hexdigest()


def _text_of(event: Event) -> str:
    return event.model_dump_json(exclude_defaults=True)


def _utf8(text: str) -> str:
    """Write lone surrogates as JSON escapes them; UTF-8 has no bytes for them."""
    return text.encode("utf-8", "backslashreplace").decode()
