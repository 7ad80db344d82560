"""A naive model of one approval, written from the documentation and not from the code.

It has no caches, no events and no records, and counts working time minute by minute. Tests compare
the router, the ledger and the timers with it. It knows levels, phases, groups, quorums, sequences,
vetoes, rounds, delegates, managers, queues, a rotation, working hours, claims and handovers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from signoff.core.directory.people import Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, OnTimeout, Policy

MINUTE = timedelta(minutes=1)
FIRST_TURN = datetime(2026, 1, 5, 9)  # noqa: DTZ001 -- in the time zone of the schedule
FREE: dict[str, tuple[frozenset[int], int, int]] = {
    "Mon-Fri 09:00-17:00": (frozenset(range(5)), 540, 1020),
    "Sat,Sun 00:30-04:00": (frozenset({5, 6}), 30, 240),
    "Fri 22:00-06:00": (frozenset({4}), 1320, 360),
    "Mon-Sun 13:00-13:45": (frozenset(range(7)), 780, 825),
}
"""The working hours that the model can read: days, and two minutes of a day."""


@lru_cache(maxsize=4096)
def worked(zone: str, hours: tuple[str, ...], utc_day: date) -> tuple[date | None, ...]:
    """Return for each minute of a UTC day the local day whose working hours it belongs to."""
    found: list[date | None] = []
    place, midnight = ZoneInfo(zone), datetime(utc_day.year, utc_day.month, utc_day.day, tzinfo=UTC)
    for nth in range(1440):
        local = (midnight + nth * MINUTE).astimezone(place)
        today, minute, day = local.date(), local.hour * 60 + local.minute, None
        yesterday = today - timedelta(days=1)
        for days, start, end in (FREE[one] for one in hours):
            if start < end and today.weekday() in days and start <= minute < end:
                day = today
            if start > end and today.weekday() in days and minute >= start:
                day = today
            if start > end and yesterday.weekday() in days and minute < end:
                day = yesterday
        found.append(day)
    return tuple(found)


@dataclass(frozen=True)
class Place:
    """A place at a level: who acts, for whom, and in which groups it counts.

    `level` is None for people who may answer at every later level, because nobody of theirs could
    be reached.
    """

    person: str
    owner: str
    via: str = ""
    groups: frozenset[int] = frozenset()
    level: tuple[int, int] | None = (0, 0)


@dataclass(frozen=True)
class Rules:
    """The levels that apply: those of the policy, or those of the default."""

    levels: Sequence[Level]
    repeat: int = 0
    on_timeout: OnTimeout = OnTimeout.REJECT
    silence: bool = False
    at_least: int = 1
    ask_twice: bool = False
    name: str = "policy"

    def phase(self, level: int) -> list[int]:
        """Return the levels of the phase of a level."""
        return [at for at, one in enumerate(self.levels) if one.phase == self.levels[level].phase]

    def fewest(self, start: int) -> int:
        """Return the least number of approvals from the phase of a level on."""
        phases = list(dict.fromkeys(one.phase for one in self.levels))
        left = phases[phases.index(self.levels[start].phase) :]
        wanted = sum(
            min(numbers(one) for one in self.levels if one.phase == phase) for phase in left
        )
        return max(wanted, self.at_least, 1)


def numbers(level: Level) -> int:
    """Return the quorum of a level as far as it is a number."""
    asked = [one.quorum for one in level.all_of] or [level.quorum]
    return max(one if isinstance(one, int) else 1 for one in asked)


def needs(quorum: int | str, places: int) -> int:
    """Return how many approvals a quorum of so many places is."""
    if isinstance(quorum, int):
        return quorum
    if quorum == "all":
        return max(places, 1)
    if quorum == "majority":
        return places // 2 + 1
    share = int(quorum.rstrip("%"))
    return max(1, next(one for one in range(places + 1) if one * 100 >= places * share))


@dataclass
class Naive:
    """The model of one approval."""

    people: dict[str, Person]
    policy: Policy
    default: Fallback
    queue: tuple[str, ...]
    rota: tuple[str, ...]
    user: str
    owner: str
    amount: int
    state: str = "new"
    rules: Rules = field(default_factory=lambda: Rules(()))
    here: tuple[int, int] = (0, 0)
    places: list[Place] = field(default_factory=list)
    votes: list[tuple[tuple[int, int] | None, str, bool]] = field(default_factory=list)
    deadline: datetime | None = None
    claimed: tuple[str, datetime, datetime] | None = None
    absent: tuple[str, ...] = ()
    decided_by: str = ""
    alarms: int = 0

    # People.

    def record(self, identity: str) -> Person | None:
        """Return the person with an id or an address, active or not."""
        wanted = identity.strip().lower()
        for one in self.people.values():
            if wanted in {name.lower() for name in (one.id, one.email, *one.aliases)}:
                return one
        return None

    def active(self, identity: str) -> Person | None:
        """Return the active person with an id or an address."""
        one = self.record(identity)
        return one if one is not None and one.active else None

    def one(self, first: str, second: str) -> bool:
        """Say whether two ids are one person: they share an account."""
        if first == second:
            return True
        a, b = self.people.get(first), self.people.get(second)
        return a is not None and b is not None and bool(a.slack) and a.slack == b.slack

    def never(self, person: Person) -> bool:
        """Say whether a person is the requester or the agent's owner."""
        for identity in filter(None, (self.user, self.owner)):
            known = self.record(identity)
            if known is not None and self.one(known.id, person.id):
                return True
        return False

    def away(self, person: Person, now: datetime) -> str | None:
        """Return the delegate of a person who is away ("" for none), None if they are here."""
        today = now.astimezone(ZoneInfo(person.time_zone)).date()
        return next(
            (one.delegate for one in reversed(person.away) if one.start <= today <= one.end), None
        )

    def gone(self, person: str, now: datetime) -> bool:
        """Say whether a person is away or not in the directory."""
        one = self.people.get(person)
        return one is None or not one.active or self.away(one, now) is not None

    def leaves(self, now: datetime) -> datetime | None:
        """Return when the next of those who are awaited goes away."""
        own = {one.person for one in self.own}
        starts = []
        for name in self.awaited:
            person = self.people.get(name)
            if name not in own or person is None or not person.active:
                continue
            for one in person.away:
                place = ZoneInfo(person.time_zone)
                starts.append(
                    datetime(one.start.year, one.start.month, one.start.day, tzinfo=place)
                )
        return min((one.astimezone(UTC) for one in starts if one > now), default=None)

    # Who is asked.

    def manager(self, below: str, nth: int) -> Person | None:
        """Return the nth manager above somebody, without those who left or never decide."""
        person, seen = self.record(below), set[str]()
        while person is not None:
            seen.add(person.id)
            person = self.record(person.manager) if person.manager else None
            if person is None or person.id in seen:
                return None
            if person.active and not self.never(person):
                nth -= 1
                if nth == 0:
                    return person
        return None

    def meant(self, reference: str, now: datetime, before: Iterable[str]) -> list[Person]:
        """Return the people whom a reference means."""
        found: list[Person | None]
        if reference.startswith("requester."):
            found = [self.manager(self.user, reference.count("."))]
        elif reference.startswith("asked."):
            found = [self.manager(one, reference.count(".")) for one in before]
        elif reference == "queue:q":
            found = [self.active(one) for one in self.queue]
        elif reference == "schedule:rota":
            wall = now.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
            turn = (wall - FIRST_TURN) // timedelta(hours=12)
            found = [self.active(self.rota[turn % len(self.rota)])]
        else:
            found = [self.active(reference)]
        return [one for one in found if one is not None]

    def acting(self, person: Person, now: datetime) -> Person | None:
        """Return who acts for a person, None for nobody."""
        way = [person.id]
        while not self.never(person):
            delegate = self.away(person, now)
            if delegate is None:
                return person
            following = self.active(delegate) if delegate else None
            if following is None or following.id in way:
                return None
            way.append(following.id)
            person = following
        return None

    def found(
        self, level: Level, now: datetime, before: Iterable[str]
    ) -> tuple[list[Place], list[str]]:
        """Return the places of a level, and the people whom it means."""
        places: list[Place] = []
        meant: list[str] = []
        groups = [(None, level.ask), *((at, one.ask) for at, one in enumerate(level.all_of))]
        before = list(before)
        for group, references in groups:
            for reference in references:
                people = self.meant(reference, now, before)
                meant += [one.id for one in people]
                acting = [(one, self.acting(one, now)) for one in people]
                for owner, person in acting:
                    if person is None:
                        continue
                    known = [one for place in places for one in (place.person, place.owner)]
                    who = next((one for one in known if self.one(one, person.id)), person.id)
                    known.append(who)
                    whose = next((one for one in known if self.one(one, owner.id)), owner.id)
                    mine = frozenset(() if group is None else (group,))
                    same = [
                        at
                        for at, one in enumerate(places)
                        if (one.person, one.owner) == (who, whose)
                    ]
                    if same:
                        old = places[same[0]]
                        places[same[0]] = replace(old, groups=old.groups | mine)
                    else:
                        places.append(Place(who, whose, reference, mine))
        return places, list(dict.fromkeys(meant))

    def too_few(self, level: Level, places: Sequence[Place]) -> bool:
        """Say whether fewer people can be asked than have to approve."""

        def answers(places: Sequence[Place]) -> int:
            shared = self.shared(places)
            people = dict.fromkeys(one.person for one in places)
            return len({min(next((p for p in shared if one in p), {one})) for one in people})

        if self.rules.at_least > answers(places):
            return True
        if not level.all_of:
            return isinstance(level.quorum, int) and level.quorum > answers(places)
        for at, group in enumerate(level.all_of):
            able = answers([one for one in places if at in one.groups])
            if not able or (isinstance(group.quorum, int) and group.quorum > able):
                return True
        return False

    def start(
        self, among: Iterable[tuple[int, int]], now: datetime, *, begun: bool
    ) -> tuple[tuple[int, int], list[Place], bool] | None:
        """Return the first of some levels that can approve, or else the first that asks anybody."""
        before, short = [one.owner for one in self.own] if begun else [], None
        for index, nth in among:
            level = self.rules.levels[index]
            places, meant = self.found(level, now, before)
            before = meant or before
            if not places:
                continue
            few = self.too_few(level, places)
            helped = begun and (nth > 0 or (index > 0 and index - 1 in self.rules.phase(index)))
            if not few or (level.earlier == "stay" and helped):
                return (index, nth), places, few
            short = short or ((index, nth), places, few)
        return short

    def begin(
        self,
        started: tuple[tuple[int, int], list[Place], bool],
        kept: Iterable[Place],
        now: datetime,
    ) -> None:
        """Begin a level."""
        self.here, places, _ = started
        fresh = [replace(one, level=self.here) for one in places]
        taken = {(one.person, one.owner) for one in fresh}
        self.places = [one for one in kept if (one.person, one.owner) not in taken] + fresh
        level = self.rules.levels[self.here[0]]
        self.claimed, self.absent = None, ()
        self.deadline = self.until(level, now)

    def until(self, level: Level, now: datetime) -> datetime:
        """Return when a level ends; working time is counted minute by minute."""
        length = level.within.length
        people = [self.people[one.person] for one in self.own]
        workers = [one for one in people if one.hours] if level.within.business else []
        if not workers:
            return now + length
        left, at = length, now
        while left > timedelta():
            minute = at.replace(second=0, microsecond=0)
            step = min(minute + MINUTE - at, left)
            nth = at.hour * 60 + at.minute
            for one in workers:
                day = worked(one.time_zone, one.hours, at.date())[nth]
                if day is not None and not any(away.start <= day <= away.end for away in one.away):
                    left -= step
                    break
            at += step
        return at

    # The vote.

    @property
    def own(self) -> list[Place]:
        """The places of the present level."""
        return [one for one in self.places if one.level == self.here]

    @property
    def still(self) -> list[Place]:
        """The places of earlier levels whose people may still answer."""
        level = self.rules.levels[self.here[0]]
        phase = self.rules.phase(self.here[0])
        return [
            one
            for one in self.places
            if one.level is None
            or (one.level != self.here and level.earlier == "stay" and one.level[0] in phase)
        ]

    @property
    def counted(self) -> dict[str, bool]:
        """The votes that count here."""
        level, able = (
            self.rules.levels[self.here[0]],
            {one.person for one in (*self.own, *self.still)},
        )
        phase = self.rules.phase(self.here[0])
        return {
            who: yes
            for at, who, yes in self.votes
            if at is not None
            and who in able
            and (at == self.here or (level.earlier == "stay" and at[0] in phase))
        }

    def shared(self, places: Sequence[Place], *, without: Iterable[str] = ()) -> list[set[str]]:
        """Return the groups of people who share one place."""
        found: dict[object, set[str]] = {}
        for one in places:
            found.setdefault((one.level, one.owner), set()).add(one.person)
        return [
            left for one in found.values() if len(left := one - {*without}) > 1 and len(one) > 1
        ]

    @property
    def joined(self) -> list[set[str]]:
        """All groups of people who share one place, here or at an earlier level."""
        mine = [one.person for one in self.own]
        others = [one for one in self.places if one.level != self.here]
        return self.shared(self.own) + self.shared(others, without=mine)

    def seats_of(self, people: Iterable[str]) -> int:
        """Return how many places some people fill."""
        found: list[set[str]] = []
        for one in people:
            mine = next((place for place in self.joined if one in place), {one})
            if mine not in found:
                found.append(mine)
        return len(found)

    def enough(self, able: Iterable[str]) -> bool:
        """Say whether it would be approved if exactly these people approved."""
        able = {*able}
        level = self.rules.levels[self.here[0]]
        own = list(dict.fromkeys(one.person for one in self.own))
        if not level.all_of:
            wanted = needs(level.quorum, self.seats_of(own))
            return self.seats_of(able) >= max(wanted, self.rules.at_least)
        for at, group in enumerate(level.all_of):
            members = [one for one in self.own if at in one.groups]
            people = {one.person for one in members}
            spare = sum(len(one) - 1 for one in self.shared(members))
            if self.seats_of(able & people) < needs(group.quorum, len(people) - spare):
                return False
        return self.seats_of(able) >= self.rules.at_least

    @property
    def yes(self) -> list[str]:
        """The people who have approved here."""
        return [who for who, yes in self.counted.items() if yes]

    @property
    def no(self) -> list[str]:
        """The people who have rejected here."""
        return [who for who, yes in self.counted.items() if not yes]

    @property
    def filled(self) -> set[str]:
        """The people whose place somebody else has filled."""
        said = {*self.counted}
        return {one for place in self.joined if place & said for one in place - said}

    @property
    def answering(self) -> list[str]:
        """The people who may answer now, if it is not claimed."""
        own = list(dict.fromkeys(one.person for one in self.own))
        if self.rules.levels[self.here[0]].order == "sequence":
            done = {*self.counted} | self.filled
            upto = next((at for at, one in enumerate(own) if one not in done), len(own))
            turn = own[upto : upto + 1]
            beside: set[str] = next((one for one in self.joined if {*turn} & one), set())
            own = [one for at, one in enumerate(own) if at <= upto or one in beside]
        people = dict.fromkeys([*own, *(one.person for one in self.still)])
        return [one for one in people if one not in self.filled]

    @property
    def awaited(self) -> list[str]:
        """The people whose answer is awaited."""
        return [one for one in self.answering if one not in self.counted]

    def claim_at(self, now: datetime) -> str:
        """Return who has claimed it, "" for nobody."""
        if self.claimed is None or now >= self.claimed[1] or self.claimed[0] not in self.awaited:
            return ""
        return self.claimed[0]

    def may(self, name: str, now: datetime) -> bool:
        """Say whether a person may decide at this moment, after what is due was done."""
        person = self.people.get(name)
        if self.state != "pending" or person is None or not person.active or self.never(person):
            return False
        if any(who != name and self.one(who, name) for who in self.counted):
            return False
        return name in self.answering and self.claim_at(now) in {"", name}

    # What happens.

    def open(self, now: datetime) -> None:
        """Ask about the call."""
        policy = self.policy
        self.state = "pending"
        self.rules = Rules(
            policy.levels,
            policy.repeat,
            policy.on_timeout,
            silence=bool(policy.ceiling) and self.amount <= 500,
            ask_twice=policy.ask_twice,
        )
        started = self.start(self.after(-1, 0), now, begun=False)
        if started is not None:
            self.alarms += started[2]
            self.begin(started, (), now)
            return
        self.alarms += 1
        self.ask_default(now, self.rules.fewest(0), kept=(), without=(), nth=0)

    def ask_default(
        self,
        now: datetime,
        at_least: int,
        *,
        kept: Iterable[Place],
        without: Iterable[str],
        nth: int,
    ) -> bool:
        """Ask the default, and return whether it asks anybody."""
        was, begun = self.rules, self.here
        level = Level(ask=self.default.ask or ("nobody",))
        self.rules = Rules([level], at_least=at_least, name="default")
        places, _ = self.found(level, now, ())
        places = [one for one in places if one.person not in {*without}]
        if not places and without:
            self.rules, self.here = was, begun
            return False
        self.begin(((0, nth), places, False), kept, now)
        return True

    def after(self, level: int, nth: int) -> Iterator[tuple[int, int]]:
        """Yield the levels that follow a level that nobody has answered."""
        phase = self.rules.phase(max(level, 0))
        yield from ((one, nth) for one in phase if one > level)
        for again in range(nth + 1, self.rules.repeat + 1):
            yield from ((one, again) for one in phase)

    def late(self, now: datetime) -> None:
        """Do what is due."""
        if self.state != "pending" or self.deadline is None or now < self.deadline:
            return
        started = self.start(self.after(*self.here), now, begun=True)
        if started is not None:
            self.begin(started, self.places, now)
            self.alarms += started[2]
        elif self.rules.on_timeout is OnTimeout.STAY:
            self.deadline = None
        elif (
            self.rules.on_timeout is OnTimeout.APPROVE
            and self.rules.silence
            and all(yes for _, _, yes in self.votes)
        ):
            self.state = "approved"
        else:
            self.state = "timed_out"

    def answer(self, name: str, now: datetime, *, yes: bool) -> bool:
        """Answer, and return whether it counts."""
        before = self.copy()
        self.late(now)
        if not self.may(name, now):
            self.__dict__.update(before.__dict__)
            return False
        phase = self.rules.phase(self.here[0])
        self.votes = [
            one
            for one in self.votes
            if one[1] != name or (one[0] and one[0][0] not in phase and one[2])
        ]
        self.votes.append((self.here, name, yes))
        self.weigh(name, now, yes=yes)
        return self.follow(before, now)

    def copy(self) -> Naive:
        """Return a copy, to compare with or to go back to."""
        return replace(self, places=list(self.places), votes=list(self.votes))

    def follow(self, before: Naive, now: datetime) -> bool:
        """Ask others after a move, if too few can still answer or the next person has left."""
        if self.state != "pending":
            return True
        same = (before.here, before.rules) == (self.here, self.rules)
        if same and before.can_be_met(now) and not self.can_be_met(now):
            self.stand_in(now)
            self.go_past(now)
        elif not same or before.answering != self.answering:
            self.look(now)
        return True

    def weigh(self, name: str, now: datetime, *, yes: bool) -> None:
        """Count, and end it or go on to the next phase."""
        level = self.rules.levels[self.here[0]]
        if not yes:
            able = {one.person for one in (*self.own, *self.still)} - {*self.no}
            if level.veto or not self.enough(able):
                self.state, self.decided_by = "rejected", name
            return
        if not self.enough_yes():
            return
        phase = self.rules.phase(self.here[0])
        following = phase[-1] + 1
        if following >= len(self.rules.levels):
            self.state, self.decided_by = "approved", name
            return
        started = self.start(
            ((one, self.here[1]) for one in self.rules.phase(following)), now, begun=True
        )
        if started is None:
            votes = self.votes
            self.alarms += 1
            self.votes = [(None, who, said) for _, who, said in votes]
            if not self.ask_default(
                now, self.rules.fewest(following), kept=(), without={""}, nth=self.here[1] + 1
            ):
                self.votes = votes
            return
        self.begin(started, [one for one in self.places if one.level is not None], now)
        self.alarms += started[2]
        if self.rules.ask_twice:
            return
        for one in dict.fromkeys(place.person for place in self.own):
            given = [
                at
                for at, who, said in self.votes
                if who == one and said and at and at[0] < following
            ]
            if given:
                self.votes.append((self.here, one, True))
                name = one
        if self.enough_yes():
            self.weigh(name, now, yes=True)

    def enough_yes(self) -> bool:
        """Say whether the present level has approved."""
        level = self.rules.levels[self.here[0]]
        if level.all_of:
            return self.enough(self.yes)
        own = list(dict.fromkeys(one.person for one in self.own))
        return len(self.yes) >= max(needs(level.quorum, self.seats_of(own)), self.rules.at_least)

    def can_be_met(self, now: datetime) -> bool:
        """Say whether the people who can still answer are enough."""
        del now
        gone = {*self.no, *(one for one in self.awaited if one in self.absent)}
        return self.enough({one.person for one in (*self.own, *self.still)} - gone)

    def look(self, now: datetime) -> None:
        """Notice who has left, and ask others."""
        if self.state == "pending" and self.stand_in(now):
            self.go_past(now)

    def stand_in(self, now: datetime) -> bool:
        """Give the places of those who left to others as well; return whether anything changed."""
        own = {one.person for one in self.own}
        left = [one for one in self.awaited if one in own and self.gone(one, now)]
        changed = False
        for person in left:
            if person not in self.absent and self.claimed and self.claimed[0] == person:
                self.claimed = None
            other = self.other(person, now)
            if other is not None:
                changed = True
                at = max(
                    i
                    for i, one in enumerate(self.places)
                    if one.person == person and one.level == self.here
                )
                self.places.insert(at + 1, other)
        changed = changed or tuple(left) != self.absent
        self.absent = tuple(left)
        return changed

    def other(self, person: str, now: datetime) -> Place | None:
        """Return the place of somebody who stands in, None if nobody can."""
        taken = {one.person for one in (*self.own, *self.still)}
        here = [one for one in taken if one != person and one not in self.absent]
        for seat in [one for one in self.own if one.person == person]:
            via = [seat.via] if seat.via.startswith(("schedule:", "requester.")) else []
            for reference in dict.fromkeys([person, seat.owner, *via]):
                for found in self.found(Level(ask=(reference,)), now, ())[0]:
                    if any(self.one(found.person, one) for one in here):
                        return None
                    if found.person not in taken:
                        return replace(seat, person=found.person, owner=seat.owner)
        return None

    def go_past(self, now: datetime) -> None:
        """Ask others if too few of those who are asked can still answer."""
        reachable = any(one not in self.absent for one in self.awaited)
        if reachable and self.can_be_met(now):
            return
        self.alarms += 1
        able = {one.person for one in (*self.own, *self.still)}
        lasting = [replace(one, level=None) if one.person in able else one for one in self.places]
        started = self.start(self.after(*self.here), now, begun=True)
        if started is not None:
            self.begin(started, lasting, now)
            self.alarms += started[2]
            return
        before = {*self.answering}
        kept = [one for one in lasting if one.level is None]
        votes, self.votes = self.votes, [(None, who, yes) for _, who, yes in self.votes]
        if not self.ask_default(
            now,
            self.rules.fewest(self.here[0]),
            kept=kept,
            without=before or {""},
            nth=self.here[1] + 1,
        ):
            self.votes = votes

    # Other moves.

    def claim(self, name: str, now: datetime) -> bool:
        """Claim it for half an hour."""
        before = self.copy()
        self.late(now)
        if not self.may(name, now) or name not in self.awaited:
            self.__dict__.update(before.__dict__)
            return False
        first = self.claimed[2] if self.claim_at(now) == name and self.claimed else now
        until = min(now + timedelta(minutes=30), first + timedelta(hours=24))
        if self.deadline is not None and now < self.deadline:
            until = min(until, self.deadline)
        self.claimed = (name, until, first)
        return self.follow(before, now)

    def release(self, name: str, now: datetime) -> bool:
        """Release the claim."""
        before = self.copy()
        self.late(now)
        if self.state != "pending" or not name or self.claim_at(now) != name:
            self.__dict__.update(before.__dict__)
            return False
        self.claimed = None
        return self.follow(before, now)

    def reassign(self, name: str, to: str, now: datetime) -> bool:
        """Hand over one's own place."""
        before = self.copy()
        self.late(now)
        other = self.people.get(to)
        own = {one.person for one in self.own}
        able = own | {one.person for one in self.still}
        shares = any({name, to} <= place for place in self.joined)
        if (
            not self.may(name, now)
            or (self.deadline is None and self.rules.on_timeout is not OnTimeout.STAY)
            or name not in own
            or name in self.counted
            or other is None
            or self.one(name, to)
            or (not shares and (self.never(other) or any(self.one(to, one) for one in able)))
        ):
            self.__dict__.update(before.__dict__)
            return False
        if self.claimed and self.claimed[0] == name:
            self.claimed = None
        mine = [one for one in self.own if one.person != name]
        owners, held = {one.owner for one in mine}, {one.owner for one in mine if one.person == to}
        fresh = []
        for one in self.places:
            if one.person != name:
                fresh.append(one)
            elif one.level == self.here and one.owner not in held:
                still_shared = one.owner in owners and one.owner != to
                fresh.append(replace(one, person=to, owner=one.owner if still_shared else to))
        self.places = fresh
        return self.follow(before, now)

    def withdraw(self, name: str) -> bool:
        """Withdraw it."""
        person, known = self.people.get(name), self.record(self.user)
        if self.state != "pending" or person is None or not person.active or known is not person:
            return False
        self.state = "withdrawn"
        return True
