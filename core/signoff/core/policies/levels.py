"""The levels of a policy: the approvers, in order, and how many of them must approve."""

from collections.abc import Collection
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Final, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from signoff.core.base.durations import LONGEST, Span, SpanText, parse_span
from signoff.core.base.model import BY_NAME_OR_ALIAS, Value

MANAGERS: Final = "requester.managers"
"""In `ask`: all managers above the requester, one after another; each must approve."""

Share = Annotated[str, Field(pattern=r"^([1-9][0-9]?|100)%$")]
"""A share of the approvers: ``"60%"``."""

Quorum = Annotated[int, Field(ge=1, le=1000)] | Literal["all", "majority"] | Share
"""How many approvals are needed: a number, all, more than half, or a share."""


class Order(StrEnum):
    """The order in which approvers are asked."""

    ANY = "any"
    """All are asked at the same time, and answer in any order."""
    SEQUENCE = "sequence"
    """One is asked after another, in the order of `ask`."""


class Earlier(StrEnum):
    """Whether approvers of earlier levels can still answer."""

    LEAVE = "leave"
    """They can no longer answer."""
    STAY = "stay"
    """They may still answer, and their earlier answers still count."""


class Verdict(StrEnum):
    """The answer of a person."""

    APPROVE = "approve"
    REJECT = "reject"


MOST_REMINDERS: Final = 20
_EVERY: Final = "every "


def _reminders(value: object) -> object:
    """Expand ``"every 4h"`` into durations; those after the end of the level are ignored."""
    if not isinstance(value, str):
        return value
    if not value.startswith(_EVERY):
        raise ValueError(f'{value!r} is not a list of durations; write ["1h", "3h"] or "every 4h"')
    return repeated(parse_span(value.removeprefix(_EVERY).strip()))


def repeated(every: Span) -> tuple[Span, ...]:
    """Return the reminders of ``"every 4h"``, given the four hours."""
    found = []
    for times in range(1, MOST_REMINDERS + 1):
        span = Span(every.length * times, every.business, every.days * times)
        if span.by_the_clock > LONGEST:
            break
        found.append(span)
    return tuple(found)


Reminders = Annotated[
    tuple[SpanText, ...],
    BeforeValidator(
        _reminders,
        json_schema_input_type=list[SpanText]
        | Annotated[str, Field(pattern=f"^{_EVERY}", examples=["every 4h"])],
    ),
    Field(max_length=MOST_REMINDERS),
]
"""When people are reminded, from the start of the level."""


def _informable(value: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse references that mean different people at each level."""
    for one in value:
        if one == MANAGERS or one.startswith("asked."):
            raise ValueError(
                f"{one} means other people at each level: inform people by their ids, "
                "requester.manager, a queue, a schedule or a Slack group"
            )
    return value


Informed = Annotated[tuple[str, ...], AfterValidator(_informable), Field(max_length=50)]
"""People who are informed and do not decide: references as in `ask`."""


class Asking(Value):
    """How people are asked, and how their answers are counted.

    Attributes:
        within: The time from the start of a level to its end: ``"30m"``, ``"4h"``, ``"2d"``. ``"4h
            business"`` counts only the approvers' working time, and ``"2d business"`` counts
            working days.
        remind: When to remind approvers who have not answered, from the start of the level:
            ``["1h", "3h"]``, or ``"every 4h"``, at most 20 times.
        quorum: How many approvals are needed: a number, ``"all"``, ``"majority"`` or a share such
            as ``"60%"`` of the approvers. A number is not lowered if fewer people can be asked.
        order: Whether all are asked at the same time, or one after another.
        veto: Whether one rejection ends the request. Otherwise it is rejected when the quorum can
            no longer be reached.
        reasons: The decisions that need a reason.
        channels: The channels in which each person is asked: ``email``, ``slack`` or your own
            channels. If it is empty, people with a Slack id are asked in Slack, if it is set up,
            and everybody else by mail.
        slack_channel: The id of a Slack channel, ``C012AB3CD``, for one common card instead of one
            to each approver.
        slack_group: The id of a Slack user group, ``S012AB3CD``, that this card mentions.
        until: A CEL expression over app, agent, tool, args, user and `limit`, the limits of
            the approver: ``"limit.expenses >= args.amount"``. The managers above the person in
            `ask` are asked one after another, until it is true for one who has approved.
        urgent: Whether cards and reminders are sent immediately: also outside of working hours, and
            never in a bundle.
    """

    within: SpanText = Span(timedelta(hours=24))
    remind: Reminders = ()
    quorum: Quorum = 1
    order: Order = Order.ANY
    veto: bool = True
    reasons: tuple[Verdict, ...] = ()
    channels: tuple[str, ...] = ()
    slack_channel: str = Field(default="", pattern=r"^([CG][A-Z0-9]{2,32})?$")
    slack_group: str = Field(default="", pattern=r"^(S[A-Z0-9]{2,32})?$")
    until: str = ""
    urgent: bool = False


class Group(Value):
    """One of several groups that are asked at the same time and must all approve.

    Attributes:
        ask: The approvers; see the `ask` of a level.
        quorum: How many of them must approve.
    """

    ask: tuple[str, ...] = Field(min_length=1)
    quorum: Quorum = 1


Groups = Annotated[tuple[Group, ...], Field(max_length=20)]


def form_fault(asking: Asking, ask: tuple[str, ...], groups: tuple[Group, ...]) -> str:
    """Return why the settings of a level contradict each other, "" if they do not."""
    if groups:
        return _groups_fault(asking, ask, groups)
    return _chain_fault(asking, ask) if asking.until or MANAGERS in ask else ""


def _groups_fault(asking: Asking, ask: tuple[str, ...], groups: tuple[Group, ...]) -> str:
    if ask:
        return "all_of cannot be set beside ask: ask for these people in a separate group"
    if asking.order is Order.SEQUENCE:
        return 'all_of asks everybody at the same time: take order = "sequence" out'
    if asking.quorum != 1:
        return "with all_of each group has its own quorum: set it there"
    if asking.until:
        return "with until one person is asked at a time: take all_of out"
    if any(MANAGERS in group.ask for group in groups):
        return f"{MANAGERS} are asked one after another: take it out of all_of"
    return ""


def _chain_fault(asking: Asking, ask: tuple[str, ...]) -> str:
    key = "until" if asking.until else MANAGERS
    if len(ask) != 1 or ":" in ask[0] or ask[0].startswith("asked."):
        return (
            f"{key} goes up the managers above one person: ask for requester.manager alone, or for "
            "the id of one person"
        )
    return f"with {key} one person is asked at a time: take quorum out" * (asking.quorum != 1)


PhaseName = Annotated[
    str,
    Field(
        max_length=64,
        validation_alias=AliasChoices("phase", "stage"),
        serialization_alias="stage",
    ),
]
"""In records and older settings it is `stage`, which the last release uses."""


class Level(Asking):
    """One level. Unset keys are inherited from the policy.

    Attributes:
        name: Shown on the card. The default is its number: "level 2".
        ask: The approvers: ids of people, ``requester.manager``, ``requester.manager.manager``,
            ``requester.managers`` (all up to the top, as phases), ``asked.manager`` (of the people
            asked at the level before), ``queue:NAME``, ``schedule:NAME``,
            ``slack-group:S012AB3CD``. They are resolved when the level starts.
        all_of: Groups that are asked at the same time, instead of `ask`; each must approve. People
            in several groups count in each.
        earlier: Whether approvers of earlier levels may still answer.
        phase: The phase of this level, such as ``"manager"`` or ``"board"``. Levels of a phase are
            adjacent. Each phase must approve before the next one is asked.
        inform: Further people who are notified from the start of this level on.
    """

    model_config = BY_NAME_OR_ALIAS

    name: str = Field(default="", max_length=64)
    all_of: Groups = ()
    ask: tuple[str, ...] = Field(default=(), validate_default=True)
    earlier: Earlier = Earlier.LEAVE
    phase: PhaseName = ""
    inform: Informed = ()

    @field_validator("ask", mode="after")
    @classmethod
    def _somebody(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if not value and not info.data.get("all_of"):
            raise PydanticCustomError("missing", "nobody is asked")
        return value

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if why := form_fault(self, self.ask, self.all_of):
            raise ValueError(why)
        return self

    @property
    def references(self) -> tuple[str, ...]:
        """All references in `ask`, including those of groups."""
        return (*self.ask, *(one for group in self.all_of for one in group.ask))

    @property
    def is_chain(self) -> bool:
        """Whether it stands for several phases, one for each manager."""
        return bool(self.until) or MANAGERS in self.ask

    @property
    def fewest(self) -> int:
        """The least number of approvals, as far as quorums are numbers."""
        quorums = [group.quorum for group in self.all_of] or [self.quorum]
        # A person in several groups counts in each of them.
        return max(one if isinstance(one, int) else 1 for one in quorums)

    def over(self, base: Asking) -> Self:
        """Return the level with unset keys inherited from its policy."""
        unset = Asking.model_fields.keys() - self.model_fields_set
        return self.model_copy(update={name: getattr(base, name) for name in unset})


LevelKey = Annotated[str, Field(alias="turn")]
"""See `level_key_of`. In records it is `turn`, which the last release uses."""


class Seat(Value):
    """A seat: one approver of a level.

    Attributes:
        level: The index of the level.
        round: The round in which the level started.
        person: The id of the person who acts.
        instead_of: The id of the person whom a delegate represents; "" for one's own seat.
        via: The reference in `ask` that led here: ``queue:finance``.
        groups: The indexes of the groups of `all_of` in which the answer counts.
        covers: Whether their limits fulfil the `until` of the level. For a stand-in, the limits of
            both people must fulfil it.
        through: The ids of further previous holders: intermediate delegates, and people who handed
            the seat over. Entered values are checked against their limits too.
    """

    level: int = 0
    round: int = 0
    person: str
    instead_of: str = ""
    via: str = ""
    groups: tuple[int, ...] = ()
    covers: bool = True
    through: tuple[str, ...] = ()

    @property
    def stands_for(self) -> str:
        """The id of the person whose seat it is."""
        return self.instead_of or self.person

    @property
    def holders(self) -> tuple[str, ...]:
        """The ids of all people whose limits apply to the seat."""
        return tuple(dict.fromkeys((self.person, self.stands_for, *self.through)))


STAYS: Final = -1
"""The level of approvers who could not be reached: they may still answer at any later level."""

OVER: Final = -2
"""The level of approvers who were asked under other terms, whose levels have other numbers."""


class Start(NamedTuple):
    """The beginning of a level.

    Attributes:
        level: The index of the level.
        round: How often the levels have been gone through before.
        seats: The seats of the approvers.
        deadline: When it ends (UTC).
        reminders: When approvers who have not answered are reminded (UTC).
        informed: The ids of the people to inform, who do not decide.
        short: Why the level cannot approve, because fewer people can be asked than must approve; ""
            if it can.
    """

    level: int
    round: int
    seats: tuple[Seat, ...]
    deadline: datetime
    reminders: tuple[datetime, ...] = ()
    informed: tuple[str, ...] = ()
    short: str = ""

    @property
    def level_key(self) -> str:
        """See `level_key_of`."""
        return level_key_of(self.level, self.round)

    def without(self, people: Collection[str]) -> Self:
        """Return the same level without the seats of some people."""
        return self._replace(seats=tuple(one for one in self.seats if one.person not in people))

    def in_round(self, round_: int) -> Self:
        """Return the same level in another round."""
        seats = tuple(one.model_copy(update={"round": round_}) for one in self.seats)
        return self._replace(round=round_, seats=seats)


def level_key_of(level: int, round_: int) -> str:
    """Return the key of a level in a round: "" for the first level in the first round."""
    return f"{round_}.{level}" if (level, round_) != (0, 0) else ""


def level_of(level_key: str) -> int:
    """Return the index of the level in a key from `level_key_of`."""
    return int(level_key.partition(".")[2] or 0)
