"""Defines and records the metrics.

The exposition, the table in the documentation and the tests of the dashboard and the alert rules
all read `METRICS`. Without a recorder, recording costs one comparison, and prometheus-client is not
imported.

A label has at most `MOST` values, because some come from outside; further ones count as ``other``.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import Run

MOST: Final = 100
"""The most values of a label, besides `OTHER`."""
OTHER: Final = "other"

_TURN_SECONDS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_DECISION_SECONDS: Final = (
    *(10, 30, _MINUTE, 5 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE, _HOUR, 2 * _HOUR, 4 * _HOUR),
    *(8 * _HOUR, _DAY, 2 * _DAY, 4 * _DAY, 7 * _DAY),
)


class MetricKind(StrEnum):
    """The types of Prometheus metrics in use."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """A metric.

    Attributes:
        name: The name in Prometheus, which ends with the unit, or with ``_total`` for a counter.
        kind: The type.
        text: What it counts or measures.
        labels: The names of the labels.
        buckets: The upper bounds of a histogram's buckets.
        of: The kind of processes that export it, ``all``, or ``ledger`` if a gateway reads it from
            Redis when it is scraped, ``checks`` if it reads it from its own checks then.
    """

    name: str
    kind: MetricKind
    text: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    of: str = "all"


METRICS: Final[dict[str, Metric]] = {}
"""All metrics by name."""


def _define(
    kind: MetricKind,
    name: str,
    text: str,
    *labels: str,
    buckets: tuple[float, ...] = (),
    of: str = "all",
) -> Metric:
    metric = Metric(f"signoff_{name}", kind, text, labels, buckets, of)
    METRICS[metric.name] = metric
    return metric


_C, _G, _H = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.HISTOGRAM
LEDGER: Final = "ledger"
CHECKS: Final = "checks"


def _measured(name: str, text: str, *labels: str) -> Metric:
    return _define(_G, name, text, *labels, of=LEDGER)


INFO = _define(_G, "info", "1; the labels name the version and the process.", "version", "kind")

# -- counted by each process -------------------------------------------------------------------

RUNS_SUBMITTED = _define(_C, "runs_submitted_total", "Runs that were submitted.", "app")
RUNS_ENDED = _define(
    _C, "runs_ended_total", "Runs that completed, failed or are in doubt.", "app", "state"
)
OPENED = _define(_C, "approvals_opened_total", "Approvals that were opened.", "app")
ENDED = _define(
    _C,
    "approvals_ended_total",
    "Approvals that ended: how, under which policy, and through which channel.",
    "state",
    "policy",
    "channel",
)
DECISION_SECONDS = _define(
    _H,
    "decision_seconds",
    "Time from the opening of an approval to its approval or rejection by a person.",
    "policy",
    buckets=_DECISION_SECONDS,
)
EVENTS = _define(_C, "events_total", "Entries of the audit log, by kind.", "event")
ANSWERS = _define(
    _C,
    "answers_total",
    "Answers of people: taken, refused, unclear (asked back), ignored or quarantined.",
    "channel",
    "result",
)
REFUSALS = _define(
    _C, "refusals_total", "Refused answers, by the error that says why.", "channel", "reason"
)
RESUMES = _define(
    _C,
    "resumes_total",
    "Answers handed to agents: resumed, failed, unverified (no valid receipt, or its key is "
    "unknown), or expired before the call started.",
    "result",
)
IN_DOUBT = _define(
    _C, "in_doubt_total", "Calls that were started and not seen to finish; a person has to look."
)
DELIVERIES = _define(
    _C,
    "deliveries_total",
    "Attempts to deliver a message: delivered, retry (failed, tried again), waits (rate limits) or "
    "refused (never tried again).",
    "channel",
    "result",
    of="channels",
)
DEAD_LETTERS = _define(
    _C, "dead_letters_total", "Work that was given up and kept for a person to look at.", "stage"
)
COMMITS = _define(
    _C,
    "commits_total",
    "Commits to the ledger: ok, conflict (tried again), late or lease_lost.",
    "result",
)
LEASES_LOST = _define(
    _C, "leases_lost_total", "Leases that ran out while their holder still worked."
)
ARCHIVE_ATTEMPTS = _define(
    _C,
    "archive_attempts_total",
    "Attempts to archive what is old enough, one an hour: ok or failed.",
    "result",
    of="channels",
)
DOORBELLS = _define(_C, "doorbells_total", "Doorbells sent to Celery: rung or failed.", "result")
TURN_SECONDS = _define(
    _H,
    "agent_turn_seconds",
    "Time of an agent's turn; phase is start or resume, result is paused, completed or failed.",
    "app",
    "phase",
    "result",
    buckets=_TURN_SECONDS,
    of="worker",
)
TURNS = _define(_G, "agent_turns_running", "Turns that run in this process now.", of="worker")

# -- read when a gateway is scraped ------------------------------------------------------------

GATEWAY_OK = _define(
    _G,
    "gateway_ok",
    "Whether a check of `/readyz` is ok: a way in for answers (`email.imap`, `email.inbound`, "
    "`slack`), or `settings`.",
    "check",
    of=CHECKS,
)
LEDGER_UP = _measured("ledger_up", "Whether Redis answered this scrape and takes writes.")
PENDING = _measured(
    "approvals_pending", "Pending approvals; policy is empty until routed.", "policy"
)
OLDEST = _measured("approvals_oldest_seconds", "Age of the oldest pending approval.", "policy")
QUEUED = _measured("queue_approvals_pending", "Pending approvals of a queue of people.", "queue")
DEPTH = _measured(
    "stage_items", "Work items of a stage, leased and postponed ones included.", "stage"
)
READY = _measured("stage_ready_items", "Work items of a stage that could be claimed now.", "stage")
AGE = _measured(
    "stage_age_seconds",
    "How long the oldest work item of a stage could have been claimed already.",
    "stage",
)
LAG = _measured("timers_lag_seconds", "How late the oldest reminder, escalation or deadline is.")
PROCESSES = _measured("processes", "Processes with a heartbeat in the last 15 seconds.", "kind")
RECORDS = _measured(
    "ledger_records", "Records in the ledger: runs, approvals, audit entries.", "kind"
)
MEMORY = _measured("redis_memory_bytes", "Memory that Redis uses.")
MEMORY_LIMIT = _measured("redis_memory_limit_bytes", "Its maxmemory; 0 means no limit.")
REDIS_WRITES = _measured(
    "redis_persistence_ok",
    "Whether the last writes of Redis to its append-only file and snapshot succeeded.",
)


# -- recording ---------------------------------------------------------------------------------

Sample = tuple[Metric, tuple[str, ...], float]
"""A metric, the values of its labels, and the increase or the measured value."""


class Recorder(Protocol):
    """Records samples."""

    def __call__(self, sample: Sample, /) -> None:
        """Record a sample."""


class _Now:
    recorder: Recorder | None = None


def record_to(recorder: Recorder | None) -> None:
    """Send the samples of this process to a recorder from now on; None drops them."""
    _Now.recorder = recorder


def enabled() -> bool:
    """Return whether samples are recorded."""
    return _Now.recorder is not None


def record(metric: Metric, *labels: str, value: float = 1) -> None:
    """Record a sample: increase a counter or a gauge, or add an observation to a histogram."""
    if _Now.recorder is not None:
        _Now.recorder((metric, labels, value))


def record_all(samples: list[Sample]) -> None:
    """Record several samples."""
    if _Now.recorder is not None:
        for sample in samples:
            _Now.recorder(sample)


_ANSWERED: Final = {
    What.NOT_UNDERSTOOD: "unclear",
    What.REFUSED_ANSWER: "refused",
    What.IGNORED_MAIL: "ignored",
    What.QUARANTINED: "quarantined",
}
_HANDED: Final = {
    What.RESUMED: "resumed",
    What.NOT_RESUMED: "failed",
    What.EXPIRED: "expired",
}
_MAIL: Final = frozenset({What.IGNORED_MAIL, What.QUARANTINED})


def of_event(event: Event) -> Iterator[Sample]:
    """Yield the samples for an entry of the audit."""
    yield EVENTS, (event.what.value,), 1
    if event.what in _ANSWERED:
        channel = "email" if event.what in _MAIL else str(event.more.get("channel", ""))
        yield ANSWERS, (channel, _ANSWERED[event.what]), 1
    elif event.what in _HANDED:
        yield RESUMES, (_HANDED[event.what],), 1
    elif event.what is What.IN_DOUBT:
        yield IN_DOUBT, (), 1


def of_write(new: object, was: object) -> Iterator[Sample]:
    """Yield the samples for a written record.

    Args:
        new: The record.
        was: The record before, None if it is new.
    """
    match new, was:
        case Run(outside=True), _:
            pass
        case Run(), None:
            yield RUNS_SUBMITTED, (new.app,), 1
        case Run(ended=True), Run(ended=False):
            yield RUNS_ENDED, (new.app, new.state.value), 1
        case Approval(), None:
            yield OPENED, (new.origin.app,), 1
        case Approval(), Approval(state=State.PENDING) if new.state is not State.PENDING:
            policy = new.terms.policy if new.terms is not None else ""
            channel = new.decision.channel if new.decision is not None else ""
            yield ENDED, (new.state.value, policy, channel), 1
            if new.decision is not None and new.decision.by and not new.decision.grant:
                took = new.decision.at - new.opened_at
                yield DECISION_SECONDS, (policy,), max(took.total_seconds(), 0)
        case _:
            pass
