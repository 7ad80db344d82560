"""Messages about milestones to people who do not decide: who gets one, and through which channel.

The stage `route` knows which channels are set up, because it runs in the channels processes, which
have the secrets of the channels. Their heartbeats say so to the other processes. A process that has
heard it addresses the messages about a decision itself, in the commit of the decision, so they are
delivered without a detour through `route`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import structlog

from signoff.broker.ledger.change import Change
from signoff.broker.work import AnnounceMilestone, SendStatus
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.milestones import is_over, recipients
from signoff.core.directory.people import Directory
from signoff.core.routing.targets import EMAIL, Reach, channels_of

log = structlog.get_logger(__name__)


class Announcer:
    """Addresses messages about milestones in the commits of this process.

    It does so while all living channels processes agree: they have the same people as this process,
    and reach them in the same way. Otherwise the stage `route` addresses the messages.

    Args:
        directory: The people of the settings. Absences do not matter here.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._generation = directory.generation
        self._reach: Reach | None = None

    def listen(self, states: Iterable[str], rules: str) -> None:
        """Learn how people are reached.

        Args:
            states: What each living channels process says of itself; see `heartbeat.beat`. Without
                any, the stage `route` addresses all messages.
            rules: The `rules_digest` of this process.
        """
        self._reach, self._generation = _agreed(states, rules), self._directory.generation

    def __call__(self, change: Change, work: AnnounceMilestone, approval: Approval) -> bool:
        """Add the messages about a milestone to the change that causes it.

        Returns:
            False if this process cannot address them.
        """
        # New people may not have reached the channels processes yet.
        if self._reach is None or self._generation != self._directory.generation:
            return False
        try:
            found = statuses(work, approval, self._directory, self._reach)
        except Exception as error:
            # A message must not stop the decision. The stage `route` retries it.
            log.exception("announcement.not_addressed", approval=approval.id, error=str(error))
            return False
        for one in found:
            change.send(one)
        return True


def statuses(
    work: AnnounceMilestone, approval: Approval, directory: Directory, reach: Reach
) -> list[SendStatus]:
    """Return the messages about a milestone to people who do not decide."""
    if is_over(approval, work.milestone, work.level_key):
        return []
    found = []
    for one in recipients(approval, work.milestone, directory, domains=reach.requester_domains):
        person = directory.get(one.person) if one.is_known else None
        channels = channels_of(person, one.by, reach.channels) if person is not None else (EMAIL,)
        found += [
            SendStatus(
                channel=channel,
                approval=approval.id,
                person=one.person,
                milestone=work.milestone,
                level_key=work.level_key,
                requests=one.is_requester,
                address="" if one.is_known else one.person,
                until_done=one.until_done,
                mailed=EMAIL in channels,
                remarks=work.remarks if one.is_known else "",
                problem=work.problem if one.is_known else "",
            )
            for channel in channels
        ]
    return found


def _agreed(states: Iterable[str], rules: str) -> Reach | None:
    """Return how all channels processes reach people, None if they differ or do not say."""
    texts = set[str]()
    for state in states:
        said = _read(state)
        # A process of the last release does not say how it reaches people.
        texts.add(said.get("reach", "") if said.get("rules") == rules else "")
    if len(texts) != 1:
        return None
    try:
        return Reach.read(texts.pop())
    except (TypeError, ValueError):
        return None


def _read(state: str) -> dict[str, str]:
    try:
        said = json.loads(state)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
