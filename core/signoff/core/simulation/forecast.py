"""The result of a simulation: the levels that are asked, the steps at each, and the end."""

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
    """The outcome at the end of a timeline, in the words of `on_timeout`."""

    REJECT = "reject"
    """The call is rejected, by people, by the settings, or because nobody answered in time."""
    STAY = "stay"
    """It stays open until somebody answers."""
    APPROVE = "approve"
    """It is approved: by a grant, by the settings, by people, or under the ceiling of its policy
    because nobody answered in time."""


class Says(StrEnum):
    """What a person does in a simulation."""

    APPROVE = "approve"
    REJECT = "reject"
    CLAIM = "claim"
    """Claim the decision for the usual time."""
    ASK = "ask"
    """Ask the requester a question."""
    ANSWER = "answer"
    """Answer as the requester."""


class SimulatedAnswer(Value):
    """An answer that a person would give.

    Attributes:
        by: The id of the person.
        at: When (UTC).
        says: What they do.
    """

    by: str
    at: datetime
    says: Says = Says.APPROVE


class CardForecast(Value):
    """One card: for a person, or a common card for all approvers.

    Attributes:
        person: The id of the person, "" for a common card.
        channel: The channel.
        address: The recipient, in the format of the channel.
        held: Until when it waits for working hours (UTC), None if it is sent immediately.
        waits_for: The person for whose hours it waits, and when these begin, in words; "" if it
            does not wait.
    """

    person: str
    channel: str
    address: str
    held: datetime | None = None
    waits_for: str = ""


class Step(Value):
    """One step of a timeline.

    Attributes:
        at: When it happens (UTC).
        what: The kind of the event, as in the audit.
        level: The index of the level.
        round: The number of earlier rounds through the levels.
        name: The name of the level, "" if it has none.
        seats: The seats of the level, if people are asked.
        asked: The new cards, in the order in which people are asked.
        need: How many approvals the level needs.
        reminded: The ids of the people who are reminded.
        until: The deadline for the people who are asked (UTC), None if there is none.
        why: In words: who was left out and why, or what the end means.
        by: The id of the person who answers.
        informed: The ids of the people who are informed from now on and do not decide.
    """

    at: datetime
    what: What
    level: int = 0
    round: int = 0
    name: str = ""
    seats: tuple[Seat, ...] = ()
    asked: tuple[CardForecast, ...] = ()
    need: int = 1
    reminded: tuple[str, ...] = ()
    until: datetime | None = None
    why: str = ""
    by: str = ""
    informed: tuple[str, ...] = ()


class LevelForecast(Value):
    """One level that would be asked.

    Attributes:
        level: The index of the level.
        round: The number of earlier rounds through the levels.
        name: The name of the level, "" if it has none.
        at: When it begins (UTC).
        until: When it ends (UTC), None if it does not end.
        need: How many approvals it needs.
        seats: The seats of the approvers.
        asked: The cards.
    """

    level: int
    round: int
    name: str
    at: datetime
    until: datetime | None
    need: int
    seats: tuple[Seat, ...]
    asked: tuple[CardForecast, ...]

    @property
    def people(self) -> tuple[str, ...]:
        """The ids of the people who may decide, each once."""
        return tuple(dict.fromkeys(one.person for one in self.seats))


class Timeline(Value):
    """What happens to one call if nobody answers, or if the simulated people do.

    Attributes:
        facts: The call: app, agent, tool, args and user.
        start: When the call starts to wait (UTC).
        considered: The policies that were checked, each with its result.
        terms: The snapshot of the policy that applies.
        steps: The steps, in order.
        end: The outcome.
        end_at: When it ends (UTC), None if it never ends.
        allowed: How many such calls run without asking anybody, None if people are asked.
        above: The ids of the people who are asked first about any further call.
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
        """Return the title of the request, "" if its policy has no title."""
        args, hide, user = self.facts.get("args"), self.terms.hide, str(self.facts.get("user", ""))
        names = {name: str(self.facts.get(name, "")) for name in ("agent", "app", "tool")}
        names |= {"requester": directory.shown(user)}
        names["agent"] = names["agent"] or names["app"]
        given = args if isinstance(args, dict) else {}
        return title_of(self.terms.title, without_hidden(given, hide), names)

    @property
    def levels(self) -> tuple[LevelForecast, ...]:
        """The levels in the order in which they are asked, including a level without people."""
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
        """The name of `levels` in the last release; the next release removes it."""
        return self.levels

    @property
    def informed(self) -> tuple[str, ...]:
        """The ids of the people who are informed and do not decide."""
        return tuple(dict.fromkeys(one for step in self.steps for one in step.informed))

    @property
    def refused(self) -> tuple[str, ...]:
        """The ids of the people whose answers would not count, in the order of the answers."""
        return tuple(step.by for step in self.steps if step.what is What.REFUSED_ANSWER)

    @property
    def reminders(self) -> int:
        """How many reminders there are."""
        return sum(step.what is What.REMINDED for step in self.steps)


ASKING: Final = frozenset({What.ASKED, What.ESCALATED, What.PASSED, What.UNROUTABLE})
"""The kinds of events by which people are asked, or should have been."""
