"""Agents that run other agents: when their turn is over, and what ADK leaves undone in them.

An event that ADK calls final (`Event.is_final_response`) does not always end a turn: it may be a
checkpoint without text, or the last message of an inner agent. It depends on the kind of agent:

- A `SequentialAgent`, `LoopAgent` or `ParallelAgent` of a resumable app writes checkpoints, and the
  last one has ``end_of_agent``. ADK resumes such a root where it was.
- In an app that is not resumable it writes none, and ADK cannot resume it. After a confirmation
  ADK runs the agent that asked, and nothing after it (google.adk.agents._agent_router).
- A custom `BaseAgent` starts from its beginning, unless it writes checkpoints itself.
- Between an LLM agent and the agents it transfers to, the turn is over when one of them has spoken.
- A workflow can always be run again, and does the remaining work.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeGuard

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent, LoopAgentState
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.workflow import BaseNode

if TYPE_CHECKING:
    from google.adk.workflow import Workflow

_ADKS_OWN: Final = (SequentialAgent, LoopAgent, ParallelAgent)


class Remainder(Enum):
    """The remainder of a turn that a worker did not finish."""

    NOTHING = auto()
    """The turn is over: it has paused, or its root has ended."""
    RESUMABLE = auto()
    """ADK does the remaining work when the agent is run again."""
    LOST = auto()
    """There may be remaining work, and ADK cannot do it."""


def is_workflow(node: object) -> TypeGuard[Workflow]:
    """Return whether a node is a workflow of ADK.

    The module of workflows is slow to import, because it imports web frameworks. If it is not
    imported yet, no node can be a workflow.
    """
    module = sys.modules.get("google.adk.workflow._workflow")
    return module is not None and isinstance(node, module.Workflow)


def is_composite(root: BaseNode) -> bool:
    """Return whether this is an agent of ADK that runs other agents in an order of its own."""
    return isinstance(root, _ADKS_OWN)


def has_order(root: BaseNode) -> bool:
    """Return whether this is a workflow, or an agent in this tree has an order of its own."""
    return not isinstance(root, BaseAgent) or any(
        not isinstance(one, LlmAgent) for one in _tree(root)
    )


def remainder(
    root: BaseNode, events: Sequence[Event], *, paused: bool, resumable: bool
) -> Remainder:
    """Return the remainder of a turn.

    Args:
        root: The root agent.
        events: The events of the invocation.
        paused: Whether the turn waits for somebody.
        resumable: Whether the app is resumable.
    """
    if not any(event.author != "user" for event in events):
        return Remainder.RESUMABLE
    at_work = _at_work(root, events)
    if not isinstance(root, BaseAgent) and not all(has_ended(one, events) for one in at_work):
        # A workflow considers such a node done as soon as it has said anything.
        return Remainder.LOST
    if not isinstance(root, BaseAgent) or not at_work:
        spoken = isinstance(root, LlmAgent) and ends_with_word(events)
        return Remainder.NOTHING if paused or spoken else Remainder.RESUMABLE
    top = at_work[-1]
    checkpoints = any(event.author == top.name and is_checkpoint(event) for event in events)
    goes_on = resumable and top is root and (is_composite(top) or checkpoints)
    pause = paused and (goes_on or not _runs_side_by_side(top))
    if pause or has_ended(top, events):
        return Remainder.NOTHING
    return Remainder.RESUMABLE if goes_on else Remainder.LOST


def reopened(root: BaseNode, events: Sequence[Event]) -> list[Event]:
    """Return the checkpoints without which a loop would skip agents in its next round.

    In each round ADK forgets which agents have ended, but does not record that. If a later round is
    resumed, a `ParallelAgent` finds that its agents have ended, and does not run them.

    Args:
        root: The root agent of a resumable app.
        events: The events of the invocation.
    """
    found = []
    for side in (one for top in _agents(root) for one in _tree(top)):
        if not isinstance(side, ParallelAgent):
            continue
        loops = {one.name for one in ancestors(side) if isinstance(one, LoopAgent)}
        for agent in side.sub_agents:
            place = _last_end(agent, events)
            if place is not None and _is_round_over(loops, events, place):
                end = events[place]
                actions = EventActions(agent_state=_beginning(agent))
                found.append(
                    Event(
                        author=agent.name,
                        invocation_id=end.invocation_id,
                        branch=end.branch,
                        actions=actions,
                    )
                )
    return found


def has_spoken(events: Sequence[Event], agent: str, branch: str | None) -> bool:
    """Return whether the last thing that an agent did, at its place in the turn, was to speak."""
    own = [one for one in events if one.author == agent and one.branch == branch and one.content]
    return bool(own) and own[-1].is_final_response() and not calls_others(own[-1])


def ends_with_word(events: Sequence[Event]) -> bool:
    """Return whether the last thing in a turn is the last word of the agent that holds it.

    Agents that are called like tools, and tasks, work in branches and scopes of their own.
    """
    said = [event for event in events if event.content]
    last = said[-1] if said else None
    return (
        last is not None
        and last.author != "user"
        and not last.branch
        and not last.isolation_scope
        and last.is_final_response()
        and not calls_others(last)
        and not has_code_to_run(last)
    )


def has_code_to_run(event: Event) -> bool:
    """Return whether an event ends with code of the model, whose result is another event."""
    parts = (event.content.parts if event.content else None) or []
    return bool(parts) and parts[-1].executable_code is not None


def is_in_transfer(events: Sequence[Event]) -> bool:
    """Return whether the last thing in a turn was to transfer it to another agent."""
    said = [event for event in events if event.content]
    return bool(said) and said[-1].actions.transfer_to_agent is not None


def is_checkpoint(event: Event) -> bool:
    """Return whether an event is a checkpoint of a resumable app's agent, or says it has ended."""
    return event.actions.agent_state is not None or bool(event.actions.end_of_agent)


def calls_others(event: Event) -> bool:
    """Return whether an event calls tools that are not long-running: no turn ends with it.

    ADK calls an event with a long-running call final, even if the model has made other calls too.
    """
    long_running = event.long_running_tool_ids or ()
    return any(call.id not in long_running for call in event.get_function_calls())


def cut_off(root: BaseNode, events: Sequence[Event]) -> list[str]:
    """Return the agents of a workflow whose last step is a tool call that has no result.

    In a resumable app ADK considers such a node done and continues after it.
    """
    if isinstance(root, BaseAgent):
        return []
    given = {one.id for event in events for one in event.get_function_responses()}
    inner = {place for event in events for place in (event.branch, event.isolation_scope) if place}
    last = {(one.author, one.branch): one for one in events if one.content}
    found = {}
    for event in last.values():
        for call in event.get_function_calls():
            own = call.id not in (event.long_running_tool_ids or ()) and call.id not in given
            # An agent that is called like a tool works in a branch, or a scope, of the call's id.
            if own and not any(str(call.id) in place for place in inner):
                found[event.author or ""] = event
    return list(found)


def only_begun(root: BaseNode, events: Sequence[Event]) -> list[str]:
    """Return the agents of a workflow of which only a callback has run, which wrote the state.

    ADK considers such a node done, and never calls its model.
    """
    if isinstance(root, BaseAgent):
        return []
    found = []
    for agent in llm_agents(root):
        own = [event for event in events if event.author == agent.name]
        if own and not has_ended(agent, own) and not any(event.content for event in own):
            found.append(agent.name)
    return found


def has_raised(root: BaseNode, events: Sequence[Event]) -> bool:
    """Return whether the last step of an LLM agent is a tool call that raised.

    ADK stores the error as an event of the agent. A resumable app considers that its last word: if
    the turn is retried, for example because Redis was away, the agent would do nothing more.
    """
    if not isinstance(root, LlmAgent) or len(events) < 2:
        return False
    if not events[-1].error_code or events[-1].author == "user":
        return False
    given = {one.id for event in events for one in event.get_function_responses()}
    return any(one.id not in given for one in events[-2].get_function_calls())


def llm_agents(root: BaseNode) -> Iterator[LlmAgent]:
    """Yield the LLM agents among the root, its nodes and their sub-agents."""
    for top in _agents(root):
        for one in _tree(top):
            if isinstance(one, LlmAgent):
                yield one


def unheard_because(root: BaseNode, agent: str) -> str:
    """Return why an agent never receives the answer to its question; "" if it does."""
    path = _path(root, agent)
    outer = next((one for one in path if not isinstance(one, LlmAgent)), None)
    if outer is not None and not isinstance(root, BaseAgent):
        return f"{outer.name!r} is a node of a workflow, and ADK takes the answer for its output"
    side = next((one for one in path if isinstance(one, ParallelAgent)), None)
    if side is not None and isinstance(root, LlmAgent):
        return f"ADK looks for the answer outside of {side.name!r}, to which the turn was handed"
    return ""


def undone(root: BaseNode, asked: Iterable[str], *, resumable: bool) -> str:
    """Return what ADK no longer runs once agents have got their answers; "" if it runs everything.

    Args:
        root: The root agent.
        asked: The names of the agents that have asked.
        resumable: Whether the app is resumable.
    """
    if resumable and is_composite(root):
        return ""
    lost: dict[str, None] = {}
    for name in asked:
        for outside, inside in pairwise(_path(root, name)):
            lost.update(dict.fromkeys(_behind(outside, inside)))
    return ", ".join(lost)


def _behind(outside: BaseAgent, inside: BaseAgent) -> list[str]:
    """Return what an agent would do after one of its sub-agents."""
    names = [one.name for one in outside.sub_agents]
    later = names[names.index(inside.name) + 1 :]
    match outside:
        case LlmAgent() | ParallelAgent():
            return []
        case SequentialAgent():
            return [f"{name!r} in {outside.name!r}" for name in later]
        case LoopAgent():
            rounds = [] if outside.max_iterations == 1 else [f"further rounds of {outside.name!r}"]
            return [*(f"{name!r} in {outside.name!r}" for name in later), *rounds]
    return [f"what {outside.name!r} does after {inside.name!r}"]


def _agents(root: BaseNode) -> list[BaseAgent]:
    """Return the agents that are not sub-agents: the root, or the nodes of a workflow."""
    if isinstance(root, BaseAgent):
        return [root]
    nodes = [getattr(root, "_node", None)]
    if is_workflow(root) and root.graph is not None:
        nodes += root.graph.nodes
    return [one for node in nodes if isinstance(node, BaseNode) for one in _agents(node)]


def _tree(agent: BaseAgent) -> Iterator[BaseAgent]:
    yield agent
    for one in agent.sub_agents:
        yield from _tree(one)


def ancestors(agent: BaseAgent) -> Iterator[BaseAgent]:
    """Yield the agents around an agent, the nearest first."""
    outer = agent.parent_agent
    while outer is not None:
        yield outer
        outer = outer.parent_agent


def _path(root: BaseNode, name: str) -> list[BaseAgent]:
    """Return the agents from the outermost to the one with this name; empty if it is missing."""
    agent = next((one for top in _agents(root) if (one := top.find_agent(name))), None)
    return [*reversed(list(ancestors(agent))), agent] if agent is not None else []


def _at_work(root: BaseNode, events: Sequence[Event]) -> list[BaseAgent]:
    """Return the outermost active agents other than LLM agents; the latest one comes last."""
    found: dict[str, BaseAgent] = {}
    for event in events:
        path = _path(root, event.author or "")
        outer = next((one for one in path if not isinstance(one, LlmAgent)), None)
        if outer is not None:
            found.pop(outer.name, None)
            found[outer.name] = outer
    return list(found.values())


def has_ended(agent: BaseAgent, events: Sequence[Event]) -> bool:
    """Return whether the last checkpoint of an agent says so."""
    own = [event for event in events if event.author == agent.name and is_checkpoint(event)]
    return bool(own) and bool(own[-1].actions.end_of_agent)


def _last_end(agent: BaseAgent, events: Sequence[Event]) -> int | None:
    """Return where an agent has ended; None if it has acted since, or has not ended."""
    # A callback after the agent may write another event without content, with the state.
    own = [
        place
        for place, event in enumerate(events)
        if event.author == agent.name and (event.content or is_checkpoint(event))
    ]
    return own[-1] if own and events[own[-1]].actions.end_of_agent else None


def _is_round_over(loops: Collection[str], events: Sequence[Event], place: int) -> bool:
    """Return whether one of these loops has begun another round since."""
    rounds: dict[str, int] = {}
    for at, event in enumerate(events):
        state = event.actions.agent_state
        if event.author in loops and state is not None:
            count = LoopAgentState.model_validate(state).times_looped
            if at > place and count > rounds.get(event.author, count):
                return True
            if at < place:
                rounds[event.author] = count
    return False


def _beginning(agent: BaseAgent) -> dict[str, str]:
    """Return the state of an agent that begins; the empty state of a sequence means its end."""
    if isinstance(agent, SequentialAgent) and agent.sub_agents:
        return {"current_sub_agent": agent.sub_agents[0].name}
    return {}


def _runs_side_by_side(agent: BaseAgent) -> bool:
    """Return whether agents in this tree may still have been active when another one asked."""
    return not isinstance(agent, LlmAgent | SequentialAgent | LoopAgent) or any(
        map(_runs_side_by_side, agent.sub_agents)
    )
