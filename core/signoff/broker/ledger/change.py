"""A change: everything that one atomic commit does."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from pydantic_core import PydanticSerializationError, to_json

from signoff.broker.ledger.store import mark_of, to_ms_after, to_us
from signoff.broker.monitoring import metrics, tracing
from signoff.core.approvals import deliveries
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

if TYPE_CHECKING:
    # Most commands only read the ledger, and do not need the models of work.
    from signoff.broker.work import AnnounceMilestone, Work

FAR = 32_503_680_000_000
"""The score of an approval without a deadline: the year 3000, in milliseconds."""

UNREACHABLE = "unreachable"
"""The index of pending approvals for which nobody can be asked."""

DEAD = "dead"
"""The index of dead letters, and the prefix of their keys."""

DEAD_LETTERS_KEPT = timedelta(days=90)
"""How long dead letters are kept."""

Entry = tuple[str, str, int]
"""An index, a member, and its score."""

Record = Approval | Run | Grant

NOT_INDEXED: Final[Mapping[type[Record], set[str]]] = {
    Approval: {"handoff", "reported", "result", "starts", "version"},
    Run: {
        "state",
        "pause",
        "approvals",
        "waiting",
        "text",
        "problem",
        "watched",
        "held",
        "version",
    },
    Grant: {"version"},
}
"""The fields on which no index entry of a record depends."""

R = TypeVar("R", Approval, Run)

Address = Callable[["Change", "AnnounceMilestone", Approval], bool]
"""Adds the messages about a milestone to a change; returns False if it cannot address them."""

_MOST_JOINED = 16
"""How many changes are joined into one commit."""

_KINDS = {Approval: "approval", Run: "run", Grant: "grant"}


@dataclass(frozen=True)
class Item:
    """Work of a stage, leased to the worker that claimed it.

    Attributes:
        stage: The stage.
        id: Derived from the cause, so that one cause adds its work only once.
        body: What to do, as it is stored.
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
        return _reader()(self.stage, self.id, self.body)

    @classmethod
    def leased(cls, work: Work, body: Mapping[str, Any], token: str) -> Self:
        """Return work that its sender does at once, on the first attempt.

        Args:
            work: What to do.
            body: The work as it is stored.
            token: The lease.
        """
        item = cls(work.stage, work.id, body, 1, token)
        vars(item)["work"] = work
        return item


@cache
def _reader() -> Callable[[str, str, Mapping[str, Any]], Work]:
    from signoff.broker.work import read_work  # noqa: PLC0415 -- most commands do not need it

    return read_work


def key_of(record: Record) -> str:
    """Return the key of a record, without the prefix."""
    return f"{_KINDS[type(record)]}:{record.id}"


def changed_entries(new: Record, was: Record | None) -> tuple[set[Entry], list[Entry]]:
    """Return the index entries that a record gains or whose score changes, and those it loses.

    Args:
        new: The record after the change.
        was: The record before the change; None if it did not exist.
    """
    if was is not None:
        # Most entries cost a hash or a text, and a record changes more often than its entries.
        before, after = vars(was), vars(new)
        if all(after[name] is before[name] for name in _indexed(type(new))):
            return set(), []
    old, entered = entries(was), entries(new)
    places = {entry[:2] for entry in entered}
    return entered - old, [entry for entry in old if entry[:2] not in places]


@cache
def _indexed(kind: type[Record]) -> tuple[str, ...]:
    """Return the fields on which the index entries of a kind of record may depend."""
    return tuple(name for name in kind.model_fields if name not in NOT_INDEXED[kind])


def entries(record: Record | None) -> set[Entry]:
    """Return the index entries of a record.

    They depend on the record alone, so the indexes can be rebuilt at any time.
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
            # The score is the expiry, so that expired grants are skipped without reading them.
            covers = scope_key(record.scope.app, record.scope.tool, record.scope.user)
            return {given, (covers, record.id, to_ms_after(record.expires_at))}
        case Approval():
            at = to_us(record.opened_at)
            asked = (requests_key(record.origin.user), record.id, at)
            return {("approvals", record.id, at), asked, *_standing(record, at)}


def _standing(record: Approval, at: int) -> set[Entry]:
    """Return the index entries of an approval that depend on its state.

    Args:
        record: The approval.
        at: The score of its opening.
    """
    if record.state is not State.PENDING:
        ended = to_us(record.decision.at) if record.decision else at
        found = {("decided", record.id, ended), *_proposals(record), *_answered(record, ended)}
        if record.decision and record.decision.grant:
            found.add((f"uses:{record.decision.grant}", record.id, ended))
        return found
    # Rounded up, so that an approval is due when the index says so.
    due = FAR if record.next_due is None else to_ms_after(record.next_due)
    inboxes = {(f"inbox:{person}", record.id, at) for person in record.approvers}
    queues = {(name, record.id, at) for name in record.queues}
    found = {("waiting", record.id, due), *inboxes, *queues}
    if deliveries.is_stranded(record):
        found.add((UNREACHABLE, record.id, at))
    return found


def scope_key(app: str, tool: str, user: str) -> str:
    """Return the index of the grants that may cover a requester's calls of a tool."""
    text = f"{app}\0{tool}\0{user}".encode("utf-8", "backslashreplace")
    return f"scope:{hashlib.sha256(text).hexdigest()[:32]}"


@lru_cache(maxsize=4096)
def requests_key(identity: str) -> str:
    """Return the index of the approvals that a requester has asked for under one identity."""
    text = identity_key(identity).encode("utf-8", "backslashreplace")
    return f"requests:{hashlib.sha256(text).hexdigest()[:32]}"


def similar_key(person: str, approval: Approval, *, rejected: bool = False) -> str:
    """Return the index of the approvals like this one that a person has decided.

    Args:
        person: The id of the person.
        approval: The approval.
        rejected: Whether to return the index of those that they rejected.
    """
    text = "\0".join((person, *likeness(approval))).encode("utf-8", "backslashreplace")
    return f"similar:{hashlib.sha256(text).hexdigest()[:32]}" + (":no" if rejected else "")


def proposal_key(origin: Origin, digest: str) -> str:
    """Return the prefix in the index of proposals for rejections that proposed this call."""
    return f"{origin.app}\0{origin.user}\0{origin.session}\0{digest}\0"


def _answered(approval: Approval, at: int) -> set[Entry]:
    """Return the entries of an ended approval in the indexes of similar approvals.

    Args:
        approval: The approval.
        at: The score of its end.
    """
    found: set[Entry] = set()
    for person, verdict in answers(approval).items():
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
    """The content of one commit, which is carried out as a whole, or not at all after a conflict.

    Each change has its own mark, which is stored in the records that it writes. If the reply is
    lost and the change is sent again, the mark shows that it was carried out already.
    """

    writes: list[dict[str, object]] = field(default_factory=list)
    reads: list[dict[str, object]] = field(default_factory=list)
    items: list[dict[str, object]] = field(default_factory=list)
    acks: list[dict[str, object]] = field(default_factory=list)
    audit: list[dict[str, object]] = field(default_factory=list)
    fences: list[dict[str, object]] = field(default_factory=list)
    starts: list[dict[str, object]] = field(default_factory=list)
    until: int = 0
    samples: list[metrics.Sample] = field(default_factory=list, repr=False)
    _sent: dict[tuple[str, str], tuple[Work, Mapping[str, Any]]] = field(
        default_factory=dict, repr=False
    )
    _mark: str = field(default="", repr=False)
    _latest: dict[str, Record] = field(default_factory=dict, repr=False)
    _kept: dict[str, Record] = field(default_factory=dict, repr=False)
    _announced: list[tuple[AnnounceMilestone, Approval]] = field(default_factory=list, repr=False)

    @property
    def mark(self) -> str:
        """The mark that is stored in the records that this change writes."""
        if not self._mark:
            # Made when it is needed: most changes that are joined into one commit need none.
            self._mark = secrets.token_hex(6)
        return self._mark

    def copy(self) -> Change:
        """Return a copy to which more can be added without changing this one."""
        return Change(
            list(self.writes),
            list(self.reads),
            list(self.items),
            list(self.acks),
            list(self.audit),
            list(self.fences),
            list(self.starts),
            self.until,
            samples=list(self.samples),
            _sent=dict(self._sent),
            _latest=dict(self._latest),
            _kept=dict(self._kept),
            _announced=list(self._announced),
        )

    def put(self, new: Record, *, was: Record | None) -> Self:
        """Write a record if it still has the version of `was`.

        Raises:
            ValueError: The change writes this record already, and `was` is not the record that it
                writes, so one of the two writes would be lost.
        """
        key = key_of(new)
        if key in self._latest and self._latest[key] is not was:
            raise ValueError(f"{key} is written twice in one change; build on the first write.")
        self._latest[key] = new
        if metrics.enabled():
            self.samples += metrics.of_write(new, was)
        kept = self._kept[key] = tracing.stamped(new, was)
        add, drop = changed_entries(new, was)
        return self.put_raw(
            key,
            stored_json(kept, exclude="version"),
            was=0 if was is None else was.version,
            add=add,
            drop=drop,
        )

    def unless_changed(self, record: Record) -> Self:
        """Commit only if a record still has its version; a record that it writes is checked anyway.

        Acknowledging an item needs this if the record says that there is nothing to do: another
        process that changes the record meanwhile sends the same item again, which adds nothing
        while the item is in the outbox.
        """
        key = key_of(record)
        if key not in self._latest:
            self.reads.append({"key": key, "was": record.version})
        return self

    @property
    def approvals(self) -> Iterator[tuple[int, str, Approval]]:
        """The approvals that it writes, as records: the version, the data and the approval."""
        for write in self.writes:
            kept = self._kept.get(str(write["key"]))
            if isinstance(kept, Approval):
                version = cast("int", write["was"]) + 1
                yield version, str(write["data"]), kept.model_copy(update={"version": version})

    def leaves(self, record: R) -> R:
        """Return a record, with its version, as it is after this change.

        Args:
            record: The record before the change. The change need not write it.
        """
        new = self._kept.get(key_of(record))
        if not isinstance(new, type(record)):
            return record
        return new.model_copy(update={"version": record.version + 1})

    def upon(self, earlier: Change, record: Record) -> Self:
        """Write a record only if the last to write it was an earlier change, sent just before.

        The version alone does not show this: if another process was faster than the earlier
        change, it has written the same version.
        """
        key = key_of(record)
        for write in earlier.writes:
            if write["key"] == key:
                # The record gets this mark even if other changes are in the same commit.
                write["mark"] = earlier.mark
        for write in self.writes:
            if write["key"] == key:
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
        """Write any other record. Empty data deletes it; with `was` 0 it must not exist yet."""
        self.writes.append(
            {
                "key": key,
                "was": was,
                "data": _utf8(data),
                "ttl": 0 if ttl is None else max(ttl // timedelta(milliseconds=1), 1),
                "add": list(add),
                "drop": list(drop),
            }
        )
        return self

    def put_dead(self, stage: str, name: str, letter: Mapping[str, Any]) -> Self:
        """Keep a dead letter of a stage for `DEAD_LETTERS_KEPT`."""
        self.count(metrics.DEAD_LETTERS, stage)
        key, text, name = f"{DEAD}:{stage}:{name}", json.dumps(letter), f"{stage}:{name}"
        return self.put_raw(key, text, ttl=DEAD_LETTERS_KEPT, add=[(DEAD, name, 0)])

    @property
    def new_records(self) -> list[str]:
        """The keys of the records that must not exist before the commit."""
        return [str(one["key"]) for one in self.writes if one["was"] == 0]

    def writes_approval(self, approval_id: str) -> bool:
        """Say whether this change writes an approval."""
        return f"approval:{approval_id}" in self._latest

    def index(self, key: str, member: str, score: int) -> Self:
        """Add an index entry to the last record that this change writes.

        Raises:
            ValueError: The change writes no record yet, so the entry would not be written.
        """
        if not self.writes:
            raise ValueError(f"{key}: an index entry goes with a record; write that first.")
        added = cast("list[Entry]", self.writes[-1]["add"])
        # A copy of this change shares the row.
        self.writes[-1] = {**self.writes[-1], "add": [*added, (key, member, score)]}
        return self

    def send(self, work: Work, *, after: float = 0) -> Self:
        """Put work into the outbox of its stage, where it can be claimed after so many seconds.

        If an item with this id is still in the outbox, it stays as it is.
        """
        stage, name, body = work.stage, work.id, work.body
        self._sent.setdefault((stage, name), (work, body))
        return self.send_raw(stage, name, body, after=after)

    def announce(self, work: AnnounceMilestone, approval: Approval) -> Self:
        """Tell people who do not decide about a milestone.

        Args:
            work: The milestone.
            approval: The approval after this change.
        """
        self._announced.append((work, approval))
        return self

    def address(self, by: Address | None) -> None:
        """Add the messages about announced milestones, before the commit.

        Args:
            by: Addresses them. If it cannot, or is None, the stage `route` does.
        """
        announced, self._announced = self._announced, []
        for work, approval in announced:
            if by is None or not by(self, work, approval):
                self.send(work)

    def send_raw(
        self, stage: str, item_id: str, body: Mapping[str, Any], *, after: float = 0
    ) -> Self:
        """Put a body into the outbox of a stage unchanged; see `send`."""
        pause = max(int(after * 1000), 0)
        self.items.append({"stage": stage, "id": item_id, "body": _json(body), "after": pause})
        return self

    def ack(self, item: Item) -> Self:
        """Remove claimed work from its outbox, if its lease is still ours."""
        return self._ack(item, -1)

    def retry(
        self,
        item: Item,
        *,
        after: float,
        counted: bool = True,
        body: Mapping[str, Any] | None = None,
    ) -> Self:
        """Put claimed work back into its outbox.

        Args:
            item: The work.
            after: Seconds until it can be claimed again.
            counted: Whether this counts as one of its attempts.
            body: The new body; None keeps the old one.
        """
        self._ack(item, max(int(after * 1000), 0))
        self.acks[-1] |= {"free": not counted}
        if body is not None:
            self.acks[-1]["body"] = _json(body)
        return self

    def note(self, events: Iterable[Event]) -> Self:
        """Append events to the audit."""
        for event in events:
            if metrics.enabled():
                self.samples += metrics.of_event(event)
            text = _text_of(event)
            self.audit.append({"text": text, "hash": _hash_of(text), "run": event.run})
        return self

    def count(self, metric: metrics.Metric, *labels: str) -> Self:
        """Increment a metric after the commit."""
        self.samples.append((metric, labels, 1))
        return self

    def fence(self, key: str, token: str, *, give_back: bool = False) -> Self:
        """Commit only if a lease is held under this token, and optionally release it."""
        self.fences.append({"key": key, "token": token, "free": give_back})
        return self

    def starting(self, app: str, tools: Iterable[str], *, despite: Iterable[str] = ()) -> Self:
        """Commit only if none of these tools of an app is frozen.

        Args:
            app: The app.
            tools: The names of the tools.
            despite: The ids of freezes to ignore.
        """
        self.starts += [{"app": app, "tool": tool, "despite": list(despite)} for tool in tools]
        return self

    def before(self, moment: datetime | None) -> Self:
        """Commit only before a moment by the ledger's clock; None sets no limit."""
        if moment is not None:
            limit = to_ms_after(moment)
            self.until = min(self.until, limit) if self.until else limit
        return self

    def arguments(self, now: int) -> list[str | int]:
        """Return the arguments of the commit script.

        Long texts are separate arguments, because escaping and parsing them as JSON takes time. The
        script documents the form of the rest.

        Args:
            now: The present in milliseconds, or 0 for the server's clock.

        Raises:
            UnicodeError: The name of a record, index, stage or item has no UTF-8 form.
        """
        texts: list[str | int] = []

        def apart(text: object) -> int:
            texts.append(str(text))
            return len(texts)

        def write(one: Mapping[str, Any]) -> list[object]:
            key, was, data, own = one["key"], one["was"], one["data"], one.get("mark", "")
            place = apart(f"{was + 1} {own or self.mark} {data}") if data else 0
            by = one.get("by") or mark_of(was)
            return [key, was, place, one["ttl"], *((own, by) if own or by else ())]

        def item(one: Mapping[str, Any]) -> list[object]:
            lease = (one["token"], one["lease"]) if "token" in one else ()
            return [one["stage"], one["id"], apart(f"0 - {one['body']}"), one["after"], *lease]

        def ack(one: Mapping[str, Any]) -> list[object]:
            free = (one["free"],) if "free" in one else ()
            body = (apart(one["body"]),) if "body" in one else ()
            return [one["stage"], one["id"], one["token"], one["after"], *free, *body]

        change = [
            self.mark,
            self.until,
            [write(one) for one in self.writes],
            [[one["key"], one["was"], mark_of(one["was"])] for one in self.reads],
            [item(one) for one in self.items],
            [ack(one) for one in self.acks],
            [[apart(one["text"]), one["hash"], one["run"]] for one in self.audit],
            [[one["key"], one["token"], one["free"]] for one in self.fences],
            [[one["app"], one["tool"], one["despite"]] for one in self.starts],
            *self._index_rows(),
        ]
        try:
            return [to_json(change).decode(), now, *texts]
        except PydanticSerializationError as error:
            raise UnicodeError(f"A key, an index or an id has no UTF-8 form: {error}") from error

    def _index_rows(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return what each index loses and gains, as rows of the commit script.

        If a member of an index occurs several times, the last entry counts.
        """
        losses: dict[str, list[str]] = {}
        gains: dict[str, dict[str, str]] = {}
        for one in self.writes:
            for index, member, _ in cast("list[Entry]", one["drop"]):
                losses.setdefault(index, [index]).append(member)
                # An earlier write may have added it. All losses come before all gains.
                gains.get(index, {}).pop(member, None)
            for index, member, score in cast("list[Entry]", one["add"]):
                # As a text: Redis writes it into commands unchanged, and formats numbers slowly.
                gains.setdefault(index, {})[member] = str(score)
        rows = list[list[str]]()
        for index, scores in gains.items():
            row = [index]
            for name, text in scores.items():
                row += (text, name)
            rows.append(row)
        return list(losses.values()), rows

    def lease(self, stages: Collection[str], token: str, *, lease: float) -> None:
        """Ask for leases on the work for some stages: its sender does it after the commit.

        If much work of a stage is waiting, the new work is queued behind it without a lease.
        `leased` returns the work that was leased.

        Args:
            stages: The stages.
            token: The token of the leases.
            lease: How many seconds a lease lasts.
        """
        for item in self.items:
            known = (item["stage"], item["id"]) in self._sent
            if item["stage"] in stages and not item["after"] and known:
                item |= {"token": token, "lease": int(lease * 1000)}

    def refuse_leases(self, numbers: Iterable[int]) -> None:
        """Note the items, by their numbers from 1, that the ledger has not leased to the sender."""
        for number in numbers:
            self.items[number - 1].pop("token", None)

    @property
    def leased(self) -> Iterator[Item]:
        """The work that is leased to the sender, once this is committed."""
        for item in self.items:
            if token := item.get("token"):
                work, body = self._sent[str(item["stage"]), str(item["id"])]
                yield Item.leased(work, body, str(token))

    def _ack(self, item: Item, after_ms: int) -> Self:
        self.acks.append(
            {"stage": item.stage, "id": item.id, "token": item.token, "after": after_ms}
        )
        return self


def groups(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Yield groups of adjacent changes that `joined` can make one commit.

    The changes of a group write and check different records, and depend only on the versions of
    these records and on the leases of their items.
    """
    group: list[Change] = []
    taken: set[object] = set()
    for one in changes:
        own = {each["key"] for each in (*one.writes, *one.reads)}
        alone = bool(one.until or one.fences or one.starts)
        if group and (alone or taken & own or len(group) == _MOST_JOINED):
            yield group
            group, taken = [], set()
        group.append(one)
        taken |= own
        if alone:
            yield group
            group, taken = [], set()
    if group:
        yield group


def joined(group: Sequence[Change]) -> Change:
    """Return one change that does what all changes of a group do, or nothing; see `groups`."""
    if len(group) == 1:
        return group[0]
    return Change(
        writes=[one for change in group for one in change.writes],
        reads=[one for change in group for one in change.reads],
        items=[one for change in group for one in change.items],
        acks=[one for change in group for one in change.acks],
        audit=[one for change in group for one in change.audit],
        samples=[one for change in group for one in change.samples],
    )


def entry_hash(event: Event) -> str:
    """Return the SHA-256 of an event's audit entry, from which the entry's link is computed."""
    return _hash_of(_text_of(event))


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text_of(event: Event) -> str:
    return event.model_dump_json(exclude_defaults=True)


def _json(body: Mapping[str, Any]) -> str:
    try:
        return to_json(body).decode()
    except PydanticSerializationError:
        # json escapes lone surrogates.
        return json.dumps(body)


def _utf8(text: str) -> str:
    """Write lone surrogates as JSON escapes them; UTF-8 has no bytes for them."""
    return text.encode("utf-8", "backslashreplace").decode()
