"""What is simulated of a call: the levels that are asked, what happens at each, and the end."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from signoff.core.approvals.events import What
from signoff.core.base.hiding import without_hidden
from signoff.core.base.model import Value
from signoff.core.directory.people import Directory
from signoff.core.policies.allowance import RateText
from signoff.core.policies.levels import Seat
from signoff.core.policies.matching import Considered
from signoff.core.policies.policy import Terms
from signoff.core.policies.titles import title_of


class End(StrEnum):
    """What the end of a timeline means; the words are those of `on_timeout`."""

    REJECT = "reject"
    """The call is rejected, and the agent is told that nobody answered in time."""
    STAY = "stay"
    """It stays open until somebody answers."""
    APPROVE = "approve"
    """It is approved: by a grant, by those who answer, or because the ceiling of its policy allows
    that."""


class Says(StrEnum):
    """What somebody does about a request."""

    APPROVE = "approve"
    REJECT = "reject"
    CLAIM = "claim"
    """Reserves the decision, for as long as is usual."""
    ASK = "ask"
    """Asks the requester something."""
    ANSWER = "answer"
    """Answers as the requester."""


class SimulatedAnswer(Value):
    """An answer that somebody would give.

    Attributes:
        by: The id of the person.
        at: When (UTC).
        says: What they do.
    """

    by: str
    at: datetime
    says: Says = Says.APPROVE


class Delivery(Value):
    """One card: to a person, or to a place where all who are asked see it.

    Attributes:
        person: The id; "" for a place.
        channel: By which channel.
        address: Where to, in its terms.
        held: Until when it waits for working hours (UTC); None where it goes out at once.
        waits_for: Whose hours, and when they begin, in words; "" where it does not wait.
    """

    person: str
    channel: str
    address: str
    held: datetime | None = None
    waits_for: str = ""


class Step(Value):
    """One thing that happens.

    Attributes:
        at: When (UTC).
        what: What kind of event it is in the audit.
        level: The index of the level at which it happens.
        round: How often the levels have been gone through before.
        name: What the level is called, "" where it has no name.
        seats: Who may decide from now on and could not before.
        asked: Who gets a card, in the order in which they are asked.
        need: How many yeses it takes then.
        reminded: The ids of those who are reminded.
        until: The moment up to which those who are asked may answer (UTC); None where there is
            none.
        why: In words: who was left out and why, or what the end means.
        by: The id of the person who answers.
        informed: The ids of those who are told from now on and do not decide.
    """

    at: datetime
    what: What
    level: int = 0
    round: int = 0
    name: str = ""
    seats: tuple[Seat, ...] = ()
    asked: tuple[Delivery, ...] = ()
    need: int = 1
    reminded: tuple[str, ...] = ()
    until: datetime | None = None
    why: str = ""
    by: str = ""
    informed: tuple[str, ...] = ()


class LevelForecast(Value):
    """One level as it would be asked.

    Attributes:
        level: Its index.
        round: How often the levels have been gone through before.
        name: What it is called, "" where it has no name.
        at: When it begins (UTC).
        until: When it ends (UTC); None where it does not.
        need: How many yeses it takes.
        seats: Who may decide.
        asked: The cards.
    """

    level: int
    round: int
    name: str
    at: datetime
    until: datetime | None
    need: int
    seats: tuple[Seat, ...]
    asked: tuple[Delivery, ...]

    @property
    def people(self) -> tuple[str, ...]:
        """The ids of those who may decide, each once."""
        return tuple(dict.fromkeys(one.person for one in self.seats))


class Timeline(Value):
    """What happens to one call if nobody answers.

    Attributes:
        facts: The call: app, agent, tool, args and user.
        start: When it waits for the first time (UTC).
        considered: The policies that were checked, each with its result.
        terms: The snapshot that would rule it.
        steps: What happens, in order.
        end: What the end means.
        end_at: When that is (UTC); None if it never ends.
        allowed: How many such calls run without asking anybody; None where people are asked.
        above: The ids of those who are asked first about any further call.
        holds: Whether calls of the same turn that need no approval wait for it.
    """

    facts: dict[str, JsonValue]
    start: datetime
    considered: tuple[Considered, ...]
    terms: Terms
    steps: tuple[Step, ...]
    end: End
    end_at: datetime | None
    allowed: RateText | None = None
    above: tuple[str, ...] = ()
    holds: bool = False

    def title(self, directory: Directory) -> str:
        """Return what the request would be called, "" where its policy has no title."""
        args, hide, user = self.facts.get("args"), self.terms.hide, str(self.facts.get("user", ""))
        names = {name: str(self.facts.get(name, "")) for name in ("agent", "app", "tool")}
        names |= {"requester": directory.shown(user)}
        names["agent"] = names["agent"] or names["app"]
        given = args if isinstance(args, dict) else {}
        return title_of(self.terms.title, without_hidden(given, hide), names)

    @property
    def levels(self) -> tuple[LevelForecast, ...]:
        """The levels that are asked, in the order in which they are; also one without anybody."""
        found: dict[tuple[int, int], LevelForecast] = {}
        for step in self.steps:
            if step.what not in ASKING:
                continue
            key = (step.round, step.level)
            before = found.get(key)
            seats, asked = (before.seats, before.asked) if before else ((), ())
            found[key] = LevelForecast(
                level=step.level,
                round=step.round,
                name=step.name,
                at=before.at if before else step.at,
                until=step.until,
                need=step.need,
                seats=tuple(dict.fromkeys((*seats, *step.seats))),
                asked=(*asked, *step.asked),
            )
        return tuple(found.values())

    @property
    def rungs(self) -> tuple[LevelForecast, ...]:
        """The name of `levels` in the last release; the next one does without it."""
        return self.levels

    @property
    def informed(self) -> tuple[str, ...]:
        """The ids of those who are told and do not decide."""
        return tuple(dict.fromkeys(one for step in self.steps for one in step.informed))

    @property
    def refused(self) -> tuple[str, ...]:
        """The ids of those whose answer would not count, in the order in which they give it."""
        return tuple(step.by for step in self.steps if step.what is What.REFUSED_ANSWER)

    @property
    def reminders(self) -> int:
        """How often people are reminded."""
        return sum(step.what is What.REMINDED for step in self.steps)


ASKING: Final = frozenset({What.ASKED, What.ESCALATED, What.PASSED, What.UNROUTABLE})
"""What stands in the audit where people are asked, or should have been."""
