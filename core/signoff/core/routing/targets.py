"""The channels and addresses at which people are asked, by the policy and the settings."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Self

from signoff.core.approvals.parts import Asked
from signoff.core.directory.people import Person
from signoff.core.policies.levels import Asking

EMAIL: Final = "email"
SLACK: Final = "slack"


class Reach(NamedTuple):
    """Where people who do not decide can be reached.

    Attributes:
        channels: The names of the channels that are set up.
        requester_domains: The mail domains of requesters who get messages without being in the
            directory.
    """

    channels: Collection[str]
    requester_domains: Collection[str] = ()

    @property
    def text(self) -> str:
        """The form in which heartbeats publish it; equal for equal content."""
        return json.dumps([sorted(self.channels), sorted(self.requester_domains)])

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what a heartbeat has published.

        Raises:
            ValueError: A later version has published it in another form.
        """
        channels, domains = json.loads(text)
        return cls(frozenset(channels), tuple(domains))


def targets_of(
    people: Sequence[Person], rules: Asking, enabled: Collection[str]
) -> tuple[Asked, ...]:
    """Return a delivery for each person and channel, or one for all of them in a Slack channel."""
    if not people:
        return ()
    if rules.slack_channel and SLACK in enabled:
        address = "+".join(filter(None, (rules.slack_channel, rules.slack_group)))
        here = Asked(person="", channel=SLACK, address=address)
        mails = people if EMAIL in rules.channels else ()
        return (here, *(_target(one, EMAIL) for one in mails))
    return tuple(
        _target(one, channel)
        for one in people
        for channel in channels_of(one, rules.channels, enabled)
    )


def other_targets(
    asked: Sequence[Asked], people: Sequence[Person], channels: Sequence[str] = (EMAIL,)
) -> tuple[Asked, ...]:
    """Return a delivery for each person by the first of these channels without a card for them.

    Args:
        asked: The cards of the level.
        people: The people whom no other channel has reached.
        channels: The names of the channels, the best first.
    """
    tried = {(one.person, one.channel) for one in asked}
    found = []
    for person in people:
        free = (one for one in channels if not tried & {(person.id, one), ("", one)})
        if channel := next((one for one in free if address_of(person, one)), ""):
            found.append(_target(person, channel))
    return tuple(found)


def channels_of(
    person: Person, wanted: Collection[str], enabled: Collection[str]
) -> tuple[str, ...]:
    """Return the channels through which a person is reached; mail if no other is possible.

    Args:
        person: The person.
        wanted: The channels in the policy; empty for Slack, or mail for people without Slack.
        enabled: The configured channels.
    """
    usual = (SLACK,) if person.slack else (EMAIL,)
    able = (one for one in dict.fromkeys(wanted or usual) if one in enabled)
    return tuple(one for one in able if address_of(person, one)) or (EMAIL,)


def address_of(person: Person, channel: str) -> str:
    """Return a person's address in a channel, "" if they have none."""
    if channel == SLACK:
        # Slack finds people by their address too.
        return person.slack or person.email
    return person.email if channel == EMAIL else person.addresses.get(channel, "")


def _target(person: Person, channel: str) -> Asked:
    return Asked(person=person.id, channel=channel, address=address_of(person, channel))
