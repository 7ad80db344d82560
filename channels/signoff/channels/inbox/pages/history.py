"""The history of an approval and its next steps, as its page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import Final

from signoff.channels.words.messages import moment, sentence
from signoff.channels.words.next_steps import NextStep, next_steps
from signoff.core.approvals.approval import Approval, Asked, Handoff, Shown, State
from signoff.core.approvals.events import INSIDE, Event, What
from signoff.core.approvals.masking import hidden_texts, masked
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.hiding import without_secrets
from signoff.core.base.shown_text import shortened
from signoff.core.cards.card import one_line, shown
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Rotations
from signoff.core.policies.levels import Verdict
from signoff.core.routing.quiet_hours import card_waits_for

_MOST_EVENTS: Final = 200
_LONGEST: Final = 4_000


@dataclass(frozen=True, slots=True)
class Moment:
    """One event in the past or future: when, what, why, and its style."""

    at: datetime
    what: str
    why: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Voice:
    """A person who has answered or is asked: the name, the state, and its style."""

    who: str
    what: str
    at: datetime | None = None
    why: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Sent:
    """One card: to whom, by which channel, and whether it was delivered."""

    who: str
    channel: str
    state: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """What the agent did with the answer: a sentence, the tool's result, its last message."""

    what: str
    gave: str = ""
    said: str = ""


@dataclass(frozen=True, slots=True)
class History:
    """The whole history.

    Attributes:
        voices: Who has answered, and whose answer is awaited.
        ahead: What comes next if nobody answers.
        sent: The cards, if the reader may see them.
        informed: Who is told and does not decide.
        past: What happened, the oldest first.
        result: The result of the answer, None if there is none yet.
    """

    voices: tuple[Voice, ...] = ()
    ahead: tuple[NextStep, ...] = ()
    sent: tuple[Sent, ...] = ()
    informed: str = ""
    past: tuple[Moment, ...] = ()
    result: AgentResult | None = None


def history_of(
    approval: Approval,
    run: Run,
    events: Sequence[Event],
    person: Person,
    directory: Directory,
    *,
    now: datetime,
    rotations: Rotations,
) -> History:
    """Return the history that a person may see of an approval.

    The cards are for people who are asked, operators and auditors. The agent's last message is for
    people who see all approvals, the requester, and the people who decided.
    """
    names = _Names(directory, directory.zone_of(person.id))
    mine = approval.is_requester(person, directory)
    inside = approval.is_inside(person, directory)
    told = [one for one in events if inside or one.what not in INSIDE]
    to_the_end = person.sees_all or mine or person.id in approval.decided_by
    return History(
        voices=tuple(_voices(approval, names)),
        ahead=next_steps(approval, directory, now=now, rotations=rotations),
        sent=tuple(
            _sent(one, names, card_waits_for(approval, one, directory, now))
            for one in approval.asked
            if inside
        ),
        informed=names.all(approval.informed) if approval.informed else "",
        past=tuple(_past(one, names) for one in told[-_MOST_EVENTS:]),
        result=_result(approval, run, whole=to_the_end),
    )


class _Names:
    """Writes names and times for a reader; an unknown id stays as it is."""

    def __init__(self, directory: Directory, zone: tzinfo) -> None:
        self._directory, self.zone = directory, zone

    def __call__(self, identity: object) -> str:
        return one_line(self._directory.shown(str(identity or "")))

    def all(self, people: object) -> str:
        """Return the names of several people."""
        listed = people if isinstance(people, Iterable) and not isinstance(people, str) else ()
        named = dict.fromkeys(self(str(one).removeprefix("#")) for one in listed)
        return ", ".join(named) or "nobody"

    def moment(self, text: object) -> str:
        """Return a time of the audit, in the time zone of the reader."""
        try:
            return moment(datetime.fromisoformat(str(text)), self.zone)
        except ValueError:
            return one_line(str(text))

    @property
    def functions(self) -> Mapping[str, Callable[[object], str]]:
        """The functions by which the sentences of the history write names and times."""
        return {"name": self, "all": self.all, "moment": self.moment, "line": _line}


def _line(value: object) -> str:
    return one_line(str(value))


_sentence: Final = partial(sentence, "history.toml")


def _past(event: Event, names: _Names) -> Moment:
    why = event.why if event.what is not What.ASKED else ""
    return Moment(event.at, _words(event, names), shortened(shown(why), _LONGEST), _looks(event))


_KINDS: Final = {
    **dict.fromkeys((What.APPROVED, What.FINISHED, What.RESUMED, What.GRANTED), "yes"),
    **dict.fromkeys((What.REJECTED, What.UNDELIVERED, What.REFUSED_ANSWER, What.VOIDED), "no"),
    **dict.fromkeys((What.TIMED_OUT, What.OVERDUE, What.ESCALATED, What.EXPIRED), "late"),
}


def _looks(event: Event) -> str:
    """Return the style of an entry: ``yes``, ``no``, ``late`` or ""."""
    if event.what is What.VOTED:
        return "yes" if event.more.get("verdict") == "approve" else "no"
    return _KINDS.get(event.what, "")


def _words(event: Event, names: _Names) -> str:
    kind = event.what.value
    known = _sentence("past", kind) or (_sentence("by", kind) if event.by else None)
    if known is None:
        return kind[:1].upper() + kind[1:].replace("_", " ")
    return known.render(
        **names.functions,
        more=event.more,
        by=names(event.by) or "somebody",
        channel=one_line(event.by),
        to=names(str(event.more.get("to", "")).removeprefix("#")),
    )


def _voices(approval: Approval, names: _Names) -> Iterable[Voice]:
    """Yield who has answered at this level, and whose answer is awaited or comes later."""
    ballot = approval.ballot
    for vote in (*approval.given, *ballot.votes):
        yes = vote.verdict is Verdict.APPROVE
        instead = vote.stands_for not in {"", vote.by}
        for_whom = f" for {names(vote.stands_for)}" if instead else ""
        said = f"{'approved' if yes else 'rejected'}{for_whom} by {vote.decision.channel}"
        reason = shown(vote.decision.reason)
        yield Voice(names(vote.by), said, vote.decision.at, reason, "yes" if yes else "no")
    if approval.state is not State.PENDING:
        yield from _decider(approval, names)
        return
    stands = {one.person: one.instead_of for one in approval.seats if one.instead_of}
    for one in ballot.awaited:
        instead_of = f", for {names(stands[one])}" if one in stands else ""
        yield Voice(names(one), f"has not answered yet{instead_of}")
    said_already = {vote.by for vote in ballot.votes}
    for one in ballot.own:
        if one not in said_already and one not in ballot.awaited:
            yield Voice(names(one), "is asked next")
    terms = approval.terms
    following = next(terms.behind(approval.level, approval.round), None) if terms else None
    if terms is not None and following is not None:
        yield Voice(one_line(terms.called(following[0])), "is asked after this phase")


def _decider(approval: Approval, names: _Names) -> Iterable[Voice]:
    """Yield the person whose answer decided the approval."""
    decision = approval.decision
    if decision is None or not decision.by or approval.state not in _ANSWERED:
        return
    said = "proposed other values" if decision.proposal is not None else _ANSWERED[approval.state]
    yield Voice(
        names(decision.by),
        f"{said} by {decision.channel}",
        decision.at,
        shown(decision.reason),
        "yes" if approval.state is State.APPROVED else "no",
    )


_ANSWERED: Final = {State.APPROVED: "approved", State.REJECTED: "rejected"}


def _sent(asked: Asked, names: _Names, waits_for: str) -> Sent:
    """Return the delivery of a card, or whose working hours it waits for."""
    who = names(asked.person) if asked.person else f"all approvers, in {one_line(asked.address)}"
    known = _sentence("copy", asked.copy_state)
    state = known.render() if known else "delivered" if asked.receipt else "being sent"
    if waits_for:
        state = f"waits for {waits_for}"
    if asked.bundle:
        state = f"{state} in a list of several"
    if asked.problem:
        state = "refused"
    cut = "does not show the whole call" if asked.shown is Shown.CUT else ""
    away = f"out of office: {shown(asked.away)}" if asked.away else ""
    return Sent(
        who, asked.channel, state, "; ".join(filter(None, (shown(asked.problem), cut, away)))
    )


def _result(approval: Approval, run: Run, *, whole: bool) -> AgentResult | None:
    what = _sentence("handoff", approval.handoff.value)
    if what is None or approval.state is State.SUPERSEDED:
        return None
    if approval.program is not None and approval.state is not State.APPROVED:
        return None  # the program starts nothing, and reports nothing
    secrets = hidden_texts(approval)
    done = run.state is RunState.COMPLETED and approval.handoff is Handoff.RESUMED
    return AgentResult(
        what.render(),
        gave=shortened(shown(masked(approval).result), _LONGEST) if whole else "",
        said=shortened(shown(without_secrets(run.text, secrets)), _LONGEST)
        if whole and done
        else "",
    )
