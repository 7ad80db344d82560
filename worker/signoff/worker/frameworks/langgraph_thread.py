"""Threads of LangGraph: their checkpoints as JSON, their messages and their interrupts."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import Interrupt
from pydantic import JsonValue

THREAD: Final = "thread"
_ROOT: Final = ""
TASK: Final = ":"
"""Stands before the id of a task in a namespace."""
_INTERRUPT: Final = "__interrupt__"
_UNENDED: Final = frozenset({_INTERRUPT, "__error__", "__resume__", "__scheduled__"})
"""The channels to which tasks that have not ended may have written."""
CONFIG: Final[RunnableConfig] = {"configurable": {"thread_id": THREAD, "checkpoint_ns": _ROOT}}
MESSAGES: Final = "messages"
_CHANGES: Final = DeltaChannel[Any](cast("Any", _messages_delta_reducer), list)
"""The channel of messages of graphs that store only its changes, such as those of Deep Agents."""


@dataclass(frozen=True, slots=True)
class MadeCalls:
    """The calls that a model has made, by their ids.

    Attributes:
        results: How many results there are for each id.
        waiting: The ids whose latest call has no result yet.
    """

    results: Counter[str]
    waiting: frozenset[str]

    @classmethod
    def of(cls, messages: Iterable[object]) -> Self:
        """Return the calls in the messages of one graph."""
        results, latest = Counter[str](), dict[str, bool]()
        for one in messages:
            if isinstance(one, AIMessage):
                latest.update((call["id"] or "", True) for call in one.tool_calls)
            elif isinstance(one, ToolMessage):
                results[one.tool_call_id] += 1
                latest[one.tool_call_id] = False
        return cls(results, frozenset(id_ for id_, waits in latest.items() if waits))

    def is_reused(self, call_id: str, now: MadeCalls) -> bool:
        """Return whether a call must be a later one with the id of a call that has a result."""
        before = self.results[call_id]
        least = before + 1 if call_id in self.waiting else max(before, 1)
        return now.results[call_id] >= least


def _latest(saver: InMemorySaver) -> CheckpointTuple | None:
    return saver.get_tuple(CONFIG)


def interrupts_of(saver: InMemorySaver) -> list[Interrupt[Any]]:
    """Return the unanswered interrupts."""
    latest = _latest(saver)
    return _interrupts_in(latest) if latest is not None else []


def _interrupts_in(checkpoint: CheckpointTuple) -> list[Interrupt[Any]]:
    """Return the interrupts of the tasks that have not ended; those of ended ones stay stored."""
    writes = checkpoint.pending_writes or []
    ended = {task for task, channel, _ in writes if channel not in _UNENDED}
    found = [
        one
        for task, channel, value in writes
        if channel == _INTERRUPT and task not in ended
        for one in value
    ]
    return list({one.id: one for one in found}.values())


def interrupted_tasks(saver: InMemorySaver, interrupts: Collection[str]) -> frozenset[str]:
    """Return the ids of the tasks that wait for these interrupts, themselves or in a subgraph."""
    return frozenset(
        task
        for latest in _latest_of_graphs(saver)
        for task, channel, value in latest.pending_writes or []
        if channel == _INTERRUPT and any(one.id in interrupts for one in value)
    )


def _latest_of_graphs(saver: InMemorySaver) -> Iterator[CheckpointTuple]:
    """Yield the latest checkpoint of the thread, and then those of its waiting subgraphs.

    That of a graph comes before those of its own subgraphs.
    """
    for namespace in sorted(saver.storage[THREAD]):
        config: RunnableConfig = {"configurable": {"thread_id": THREAD, "checkpoint_ns": namespace}}
        if (latest := saver.get_tuple(config)) is not None:
            yield latest


def _messages_at(saver: InMemorySaver, checkpoint: CheckpointTuple) -> list[BaseMessage]:
    """Return the messages in a checkpoint, which may have only what has changed since others."""
    values = checkpoint.checkpoint["channel_values"]
    if MESSAGES in values:
        found = _CHANGES.from_checkpoint(values[MESSAGES])
    else:
        past = saver.get_delta_channel_history(config=checkpoint.config, channels=[MESSAGES])
        found = _CHANGES.from_checkpoint(past[MESSAGES].get("seed", []))
        found.replay_writes(past[MESSAGES]["writes"])
    return found.get() or []


def _messages_by_graph(saver: InMemorySaver) -> Iterator[list[BaseMessage]]:
    """Yield the messages of the thread, and then those of each of its waiting subgraphs."""
    return (_messages_at(saver, one) for one in _latest_of_graphs(saver))


def messages_in(state: object) -> Iterable[object]:
    """Return the messages in a state of a graph, which may be a list, a mapping or a model."""
    if isinstance(state, Mapping):
        state = state.get(MESSAGES)
    found = state if isinstance(state, list) else getattr(state, "messages", None)
    return found if isinstance(found, list) else []


def made_calls(saver: InMemorySaver) -> MadeCalls:
    """Return the calls of a thread and its subgraphs, which may have copies of its messages."""
    results, waiting = Counter[str](), frozenset[str]()
    for messages in _messages_by_graph(saver):
        made = MadeCalls.of(messages)
        results, waiting = results | made.results, waiting | made.waiting
    return MadeCalls(results, waiting)


def calls_at_interrupts(saver: InMemorySaver) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the calls of the last message of the model at each interrupt, by its id.

    An interrupt is in the checkpoints of the graph that it has interrupted, and of all graphs
    around it. The innermost one with calls has made them: agents may work side by side.
    """
    found: dict[str, Sequence[Mapping[str, Any]]] = {}
    for one in _latest_of_graphs(saver):
        spoken = [said for said in _messages_at(saver, one) if isinstance(said, AIMessage)]
        calls = next((said.tool_calls for said in reversed(spoken) if said.tool_calls), None)
        if calls:
            found |= dict.fromkeys((stop.id for stop in _interrupts_in(one)), calls)
    return found


def last_word(saver: InMemorySaver) -> str:
    """Return the last message of the thread's model, or of a subgraph's if the thread has none."""
    spoken = (
        [one for one in said if isinstance(one, AIMessage)] for said in _messages_by_graph(saver)
    )
    last = next((said[-1] for said in spoken if said), None)
    return str(last.text) if last is not None else ""


def stored_thread(saver: InMemorySaver, namespaces: Iterable[str]) -> JsonValue:
    """Return the parts of a thread that these graphs need to go on, as JSON."""
    storage = saver.storage[THREAD]
    kept = {
        (namespace, checkpoint_id)
        for namespace in namespaces
        if storage[namespace]
        for checkpoint_id in _needed(saver, namespace, max(storage[namespace]))
    }
    named = {
        (namespace, channel, version)
        for namespace, checkpoint_id in kept
        for channel, version in _versions(saver, namespace, checkpoint_id)
    }
    return [
        [
            [namespace, id_, *encoded(one), *encoded(metadata), parent]
            for namespace, id_ in sorted(kept)
            for one, metadata, parent in [storage[namespace][id_]]
        ],
        [
            [namespace, id_, task, index, channel, *encoded(value), path]
            for (_, namespace, id_), writes in saver.writes.items()
            if (namespace, id_) in kept
            for (task, index), (_, channel, value, path) in writes.items()
        ],
        [
            [namespace, channel, version, *encoded(value)]
            for (_, namespace, channel, version), value in saver.blobs.items()
            if (namespace, channel, version) in named
        ],
    ]


def _needed(saver: InMemorySaver, namespace: str, checkpoint_id: str) -> Iterator[str]:
    """Yield a checkpoint, and the earlier ones from which its channels are computed.

    A `DeltaChannel` stores only its changes, and now and then its whole value.
    """
    lacking: set[str] | None = None
    current: str | None = checkpoint_id
    while current is not None and (lacking is None or lacking):
        yield current
        _, packed, parent = saver.storage[THREAD][namespace][current]
        if lacking is None:
            metadata = saver.serde.loads_typed(packed)
            lacking = set(metadata.get("counters_since_delta_snapshot") or ())
        else:
            versions = dict(_versions(saver, namespace, current))
            blobs = {
                one: saver.blobs.get((THREAD, namespace, one, versions.get(one, "")))
                for one in lacking
            }
            lacking -= {
                one for one, blob in blobs.items() if blob is not None and blob[0] != "empty"
            }
        current = parent


def _versions(
    saver: InMemorySaver, namespace: str, checkpoint_id: str
) -> Iterator[tuple[str, str | int | float]]:
    checkpoint = saver.serde.loads_typed(saver.storage[THREAD][namespace][checkpoint_id][0])
    yield from checkpoint["channel_versions"].items()


def restored_thread(state: JsonValue) -> InMemorySaver:
    """Return a checkpointer with the stored thread; an empty one for None."""
    saver = InMemorySaver()
    checkpoints, writes, blobs = cast("list[list[Any]]", state or [[], [], []])
    for namespace, id_, *packed, parent in checkpoints:
        one, metadata = decoded(*packed[:2]), decoded(*packed[2:])
        saver.storage[THREAD][namespace][id_] = (one, metadata, parent)
    for namespace, id_, task, index, channel, kind, data, path in writes:
        value = (task, channel, decoded(kind, data), path)
        saver.writes[THREAD, namespace, id_][task, index] = value
    for namespace, channel, version, kind, data in blobs:
        saver.blobs[THREAD, namespace, channel, version] = decoded(kind, data)
    return saver


def encoded(value: tuple[str, bytes]) -> list[str]:
    """Return serialised data as JSON: its kind, and its bytes as Base64."""
    return [value[0], base64.b64encode(value[1]).decode()]


def decoded(kind: str, data: str) -> tuple[str, bytes]:
    """Return the data that `encoded` has encoded."""
    return kind, base64.b64decode(data)
