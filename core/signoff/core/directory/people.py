"""The people of the organisation, and their identities in all channels."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime
from enum import StrEnum
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Final, Protocol, Self
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from signoff.core.base.freezes import Freeze
from signoff.core.base.model import Value
from signoff.core.directory.hours import Absence, Holidays, Hours, TimeZone, zone
from signoff.core.directory.identity import forms, known_as, mailbox
from signoff.core.directory.notifications import NotifyOn
from signoff.core.directory.queues import Limits, Queue
from signoff.core.directory.schedules import Schedule

_KELVIN: Final = "\N{KELVIN SIGN}"


@lru_cache(maxsize=8192)
def identity_key(identity: str) -> str:
    """Return an id or an email address in the form in which identities are compared.

    The domain is case-insensitive (RFC 5321, section 2.4); the local part is compared without
    regard to case too, as every large provider does. Non-ASCII letters are not folded onto ASCII
    ones: a look-alike domain stays different.
    """
    # The Kelvin sign is the only non-ASCII letter whose lower case is an ASCII letter.
    return _KELVIN.join(part.lower() for part in identity.strip().split(_KELVIN))


class Role(StrEnum):
    """The additional rights of a person. Approvers and requesters need no role."""

    OPERATOR = "operator"
    """Sees everything, and can hand over, withdraw, extend and remind. Operators decide only what
    they are asked."""
    AUDITOR = "auditor"
    """Sees everything, but cannot change it."""


class Person(Value):
    """A person who requests or approves.

    Attributes:
        id: The person's name in policies, unique in the directory.
        name: The displayed name.
        email: Where cards are sent.
        aliases: Further addresses of this person.
        slack: The Slack member id, ``U012AB3CD``. For somebody of another organisation in a shared
            channel, with the team: ``T012AB3CD/U…``.
        addresses: The person's addresses in your own channels, by channel name.
        manager: The manager's id or address, for ``requester.manager``.
        time_zone: The person's time zone, such as ``Europe/Berlin``.
        hours: Working hours: ``Mon-Fri 09:00-17:00``, ``Sat,Sun 10:00-14:00``, ``Fri 22:00-06:00``.
            Business time counts these hours, and ignores people without `hours`.
        holidays: The country or region whose public holidays apply, ``DE`` or ``DE-BY``, as in the
            library ``holidays``.
        away: When the person is away, in whole days, and the delegate who decides instead:
            ``[{ from = 2026-12-24, to = 2027-01-02, delegate = "tom" }]``.
        quiet_hours: Whether messages that are not urgent wait for the person's `hours`. The default
            is ``[delivery] quiet_hours``.
        limits: The largest amounts that the person may approve, by names that you choose, for the
            `until` of policies: ``{ expenses = 5000 }``; ``inf`` is any amount. A missing name is
            0.
        roles: ``["operator"]`` or ``["auditor"]`` for people who see all requests on the inbox
            page. Approvers need no role.
        active: Whether the person works here. Set it to ``false`` for people who have left: they
            are not asked, and cannot sign in or decide. Their name stays on their earlier
            decisions.
        notify_requester: The topics about which the person is notified as a requester, instead of
            those of the policy: any of ``waiting``, ``escalated``, ``decided`` and ``done``;
            ``[]`` for none.
        notify_by: The channels of notifications about requests that the person does not decide,
            instead of those of the policy: ``["email"]``, ``["slack"]``, both, or your own
            channels.
    """

    id: str = Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    name: str = ""
    email: str = Field(min_length=3, max_length=254, pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+$")
    aliases: tuple[str, ...] = ()
    slack: str = Field(default="", max_length=64, pattern=r"^((T[A-Z0-9]+/)?[UW][A-Z0-9]+)?$")
    addresses: dict[str, str] = Field(default_factory=dict)
    manager: str = ""
    time_zone: TimeZone = "UTC"
    hours: tuple[Hours, ...] = ()
    holidays: Holidays = ""
    away: tuple[Absence, ...] = ()
    quiet_hours: bool | None = None
    limits: Limits = Field(default_factory=dict)
    roles: tuple[Role, ...] = ()
    active: bool = True
    notify_requester: tuple[NotifyOn, ...] | None = None
    notify_by: tuple[str, ...] = ()

    @field_validator("email", "aliases", mode="after")
    @classmethod
    def _printable(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for address in [value] if isinstance(value, str) else value:
            if not address.strip() or not address.isprintable():
                raise ValueError("an address is not empty and has no control characters")
        return value

    def __hash__(self) -> int:
        """Hash by the id: addresses are a dict, which has no hash."""
        return hash(self.id)

    @property
    def sees_all(self) -> bool:
        """Whether the person may see all requests, including those of other people."""
        return bool(self.roles)

    @property
    def shown(self) -> str:
        """The displayed name, or the id if there is no name."""
        return self.name or self.id

    def day(self, moment: datetime) -> date:
        """Return the date of a moment in the person's time zone."""
        return moment.astimezone(zone(self.time_zone)).date()

    def absence(self, moment: datetime) -> Absence | None:
        """Return the absence at a moment; if several overlap, the last one in `away`."""
        return self.absence_on(self.day(moment)) if self.away else None

    def absence_on(self, day: date) -> Absence | None:
        """Return the absence on a day in the person's time zone; see `absence`."""
        return next((one for one in reversed(self.away) if one.covers(day)), None)

    def next_absence(self, moment: datetime) -> Absence | None:
        """Return the absence that begins next after the day of a moment."""
        day = self.day(moment)
        return min(
            (one for one in self.away if one.start > day), key=lambda one: one.start, default=None
        )

    @property
    def known_as(self) -> frozenset[str]:
        """The user ids under which a front end may know this person; see `identity`."""
        ids = (self.id, self.email, *self.aliases, self.slack, *self.addresses.values())
        return known_as(ids, self.name)

    @property
    def names(self) -> list[str]:
        """All names, ids and addresses of the person."""
        ids = [self.id, self.email, *self.aliases, self.slack, *self.addresses.values()]
        return [one for one in (*ids, self.name) if one]

    def owns(self, identity: str) -> bool:
        """Say whether this is the id, the address or an alias of the person."""
        wanted = identity_key(identity)
        return wanted in {identity_key(own) for own in (self.id, self.email, *self.aliases)}

    def is_still(self, address: str) -> bool:
        """Say whether this is the person who had the id when something was given to an address.

        The id alone does not say so: an organisation may use it again after somebody has left.

        Args:
            address: The address; "" was given by a release that did not record it.
        """
        return not address or self.owns(address)


class PeopleSource(Protocol):
    """A source of people outside of the settings: a directory service, a database."""

    def people(self) -> Iterable[Person]:
        """Return all people; called once when a process starts.

        If it raises an error, the process does not start, and shows the message of the error.
        """


class Directory:
    """All people, found by id or by address, with their queues and schedules.

    Most methods ignore people who are not active, as if they had left. Only `record`, `shown` and
    the comparisons of identities know them.

    Args:
        people: The people. Their ids and addresses must be unique, which `signoff config check`
            verifies.
        queues: The queues, with unique names.
        schedules: The schedules, with unique names.
        groups: The ids of the members of Slack user groups, by the id of the group.
        strangers: Whether users who are not in the directory may ask for approvals.
        time_zone: The time zone for people whose own time zone is not known.

    Attributes:
        freezes: The present freezes, which stop even approved calls; see `with_freezes`.
    """

    def __init__(
        self,
        people: Iterable[Person] = (),
        *,
        queues: Iterable[Queue] = (),
        schedules: Iterable[Schedule] = (),
        groups: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
        strangers: bool = True,
        time_zone: str = "UTC",
    ) -> None:
        self.generation = 0
        everybody = {person.id: person for person in people}
        self._by_id = {one.id: one for one in everybody.values() if one.active}
        self._inactive = {one.id: one for one in everybody.values() if not one.active}
        self._proven: dict[str, Person] = {}
        self._accounts = _Accounts(everybody)
        self.queues: Mapping[str, Queue] = MappingProxyType({one.name: one for one in queues})
        self.schedules: Mapping[str, Schedule] = MappingProxyType(
            {one.name: one for one in schedules}
        )
        self.groups = groups
        self.freezes: tuple[Freeze, ...] = ()
        self.strangers = strangers
        self.time_zone = time_zone
        # If an identity occurs twice, the first person has it.
        self._ids: dict[str, str] = {}
        self._slack: dict[str, str] = {}
        for person in everybody.values():
            for identity in (person.id, person.email, *person.aliases):
                self._ids.setdefault(identity_key(identity), person.id)
            if person.active:
                self._slack.setdefault(person.slack, person.id)

    def __iter__(self) -> Iterator[Person]:
        return iter(self._by_id.values())

    def become(self, other: "Directory") -> None:
        """Replace the content by that of another directory, for all holders of this one.

        Directories that were derived from this one do not change. Their `generation` shows that
        they are outdated.
        """
        self.__dict__.update(other.__dict__, generation=self.generation + 1)

    def get(self, person_id: str) -> Person | None:
        """Return the person with this id."""
        return self._by_id.get(person_id)

    def by_slack(self, identity: str) -> Person | None:
        """Return the person with exactly this Slack id."""
        return self._by_id[self._slack[identity]] if identity and identity in self._slack else None

    def by_address(self, channel: str, address: str) -> Person | None:
        """Return the person with exactly this address in a custom channel."""
        return next(
            (
                one
                for one in self._by_id.values()
                if address and one.addresses.get(channel) == address
            ),
            None,
        )

    def find(self, identity: str) -> Person | None:
        """Return the person whose id, address or alias this is."""
        return self._by_id.get(self._ids.get(identity_key(identity), ""))

    @property
    def inactive(self) -> Iterable[Person]:
        """The people who are not active."""
        return self._inactive.values()

    def record(self, identity: str) -> Person | None:
        """Return the person whose id, address or alias this is, active or not."""
        found = self._ids.get(identity_key(identity), "")
        return self._by_id.get(found) or self._inactive.get(found)

    def shown(self, identity: str) -> str:
        """Return the name of a person, active or not; for an unknown identity, the identity."""
        person = self.record(identity)
        return person.shown if person is not None else identity

    def why_missing(self, identity: str, of: str = "") -> str:
        """Say why a person is missing: unknown, or not active.

        Args:
            identity: The id or address of the person.
            of: The reference that names the person, such as a queue; "" for none.
        """
        person, where = self.record(identity), f" ({of})" if of else ""
        if person is None:
            return f"{identity or 'nobody'}{where} is not in the directory"
        return f"{person.shown}{where} is not active"

    def manager_of(self, person: Person) -> Person | None:
        """Return the next active manager above a person, None if there is none."""
        seen, above = {person.id}, self.record(person.manager)
        while above is not None and not above.active and above.id not in seen:
            seen.add(above.id)
            above = self.record(above.manager)
        return above if above is not None and above.active else None

    def zone_of(self, identity: str) -> ZoneInfo:
        """Return the time zone of a person; the one of the settings if it is not known."""
        person = self.find(identity) if identity else None
        known = person is not None and "time_zone" in person.model_fields_set
        return zone(person.time_zone if person is not None and known else self.time_zone)

    def limits(self, *person_ids: str) -> dict[str, float]:
        """Return the limits of a person, or the lowest limits of several people.

        Members of a queue have at least its limits. The lowest limits apply to a delegate and the
        absent person together.

        Args:
            person_ids: The ids of the people.
        """
        found = [self._limits_of(one) for one in person_ids]
        names = set[str]().union(*found)
        return {name: min(one.get(name, 0) for one in found) for name in names}

    def _limits_of(self, person_id: str) -> dict[str, float]:
        person = self.get(person_id)
        limits = dict(person.limits) if person is not None else {}
        for queue in self.queues.values():
            if person_id in queue.members:
                for name, most in queue.limits.items():
                    limits[name] = max(most, limits.get(name, 0))
        return limits

    def same(self, one: str, other: str) -> bool:
        """Say whether two identities (ids, addresses, aliases) belong to one person."""
        if identity_key(one) == identity_key(other):
            return True
        person = self.record(one)
        return person is not None and person.owns(other)

    def why_refused(self, requester: str) -> str:
        """Return why a user may not ask for approvals, "" if they may."""
        if self.strangers or self.find(requester) is not None:
            return ""
        return (
            "the user who asks is not in the directory, and only its people may ask for approvals "
            "here"
        )

    def may_be(self, person: Person, identity: str) -> bool:
        """Say whether an identity may belong to this person, even if it is written differently.

        An identity in the directory belongs only to its person. Any other identity is compared
        loosely, so that it matches too many people rather than too few. A match can only bar a
        person from a decision; it never gives a permission.
        """
        if person.owns(identity):
            return True
        known = self.record(identity)
        if known is not None:
            return self.is_one(person.id, known.id)
        return not forms(identity).isdisjoint(person.known_as)

    def is_one(self, one: str, other: str) -> bool:
        """Say whether two ids belong to one person, because they share a mailbox or an account.

        A directory from several sources may have the same person twice.
        """
        return one == other or self.one_id(one) == self.one_id(other)

    def one_id(self, person_id: str) -> str:
        """Return the one id that represents all ids of a person; see `is_one`."""
        return self._accounts.one_id(person_id)

    def changed(self, people: Iterable[Person], *, proven: Iterable[Person] = ()) -> Self:
        """Return a directory in which these people replace those with the same ids.

        Their identities must be the same, because the indexes of identities are shared. Those in
        `proven` are as the directory of `proven` has them.
        """
        made = copy.copy(self)
        known = {one.id: one for one in people if one.id in self._by_id}
        made._by_id = self._by_id | known  # noqa: SLF001 -- a copy of this object
        made._proven = {one.id: one for one in proven if one.id in known}  # noqa: SLF001 -- the same
        return made

    def proven(self) -> Self:
        """Return the directory with only the absences that count for a second step.

        These are the absences in the settings, and those that were set with a second factor.
        """
        made = copy.copy(self)
        made._by_id = self._by_id | self._proven  # noqa: SLF001 -- a copy of this object
        return made

    def with_groups(self, groups: Mapping[str, tuple[str, ...]]) -> Self:
        """Return a directory with these Slack user groups."""
        made = copy.copy(self)
        made.groups = groups
        return made

    def with_freezes(self, freezes: tuple[Freeze, ...]) -> Self:
        """Return a directory with these freezes, for cards and lists."""
        made = copy.copy(self)
        made.freezes = freezes
        return made


class _Accounts:
    """The ids that share a mailbox or an account; computed on first use."""

    def __init__(self, people: Mapping[str, Person]) -> None:
        self._people = people

    def one_id(self, person_id: str) -> str:
        """Return the same id for all ids that share an account, directly or through others."""
        return _end(self._joined, person_id)

    @cached_property
    def _joined(self) -> dict[str, str]:
        """For an id, another id of the same person. Following it leads to one id for all."""
        joined: dict[str, str] = {}
        owners: dict[tuple[str, str], str] = {}
        for person in self._people.values():
            for account in accounts_of(person):
                first = _end(joined, owners.setdefault(account, person.id))
                here = _end(joined, person.id)
                if here != first:
                    joined[here] = first
        return joined


def _end(joined: Mapping[str, str], one: str) -> str:
    while one in joined:
        one = joined[one]
    return one


def accounts_of(person: Person) -> tuple[tuple[str, str], ...]:
    """Return the accounts of a person, which nobody else can have: mailboxes and channel accounts.

    Returns:
        Pairs of a channel and an account in it.
    """
    mails = dict.fromkeys(mailbox(one) for one in (person.email, *person.aliases))
    found = [("email", one) for one in mails if one]
    if person.slack:
        found.append(("slack", person.slack))
    found += [(channel, one) for channel, one in person.addresses.items() if one]
    return tuple(found)
