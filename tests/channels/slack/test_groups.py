"""Slack user groups as approvers: their members are looked up beforehand."""

from __future__ import annotations

from channels.slack.office import CLEO_AT, MARA_AT, Office
from channels.slack.workspace import Workspace
from signoff.channels.slack.groups import GroupKeeper
from signoff.channels.slack.inbound.identity import Identities
from signoff.core.policies.levels import Level
from signoff.core.routing.resolve import find


def keeper(office: Office, *groups: str) -> GroupKeeper:
    """Return the lookup of these groups."""
    identities = Identities(office.web, office.directory)
    return GroupKeeper(office.decider.ledger, office.web, identities, groups)


async def who(office: Office, group: str) -> list[str]:
    """Return the approvers of a level that asks a group."""
    directory = await office.decider.people.directory()
    now = await office.decider.ledger.now()
    level = Level(ask=(f"slack-group:{group}",))
    found = find(level, directory, facts={"user": "riley"}, barred=("riley",), now=now)
    return [seat.person for seat in found.seats]


async def test_the_members_of_a_group_are_asked(office: Office, workspace: Workspace) -> None:
    """Slack ids or addresses find them; bots, strangers and the requester do not count."""
    workspace.add(MARA_AT, "other@example.com")
    workspace.add(CLEO_AT, "cleo@example.com")
    workspace.add("U0ROBOT", "robot@example.com", is_bot=True)
    workspace.add("U0NOBODY", "nobody@example.com")
    workspace.groups["S01"] = [MARA_AT, "U0ROBOT", CLEO_AT, "U0NOBODY"]
    assert await who(office, "S01") == []
    await keeper(office, "S01").once()
    assert await who(office, "S01") == ["mara", "cleo"]


async def test_failed_group_lookup_does_not_change_other_groups(
    office: Office, workspace: Workspace
) -> None:
    """A deleted group, or an outage of Slack, does not change another group."""
    workspace.add(MARA_AT, "mara@example.com")
    workspace.add(CLEO_AT, "cleo@example.com")
    workspace.groups |= {"S01": [MARA_AT], "S02": [CLEO_AT]}
    keep = keeper(office, "S01", "S02")
    await keep.once()
    del workspace.groups["S01"]
    workspace.groups["S02"] = [MARA_AT]
    await keep.once()
    assert (await who(office, "S01"), await who(office, "S02")) == (["mara"], ["mara"])
    workspace.failures["usergroups.users.list"] = [500, 500]
    await keep.once()
    assert await who(office, "S02") == ["mara"]


async def test_the_ledger_is_written_only_when_a_group_changes(
    office: Office, workspace: Workspace
) -> None:
    """Lookups every few minutes in each process write nothing if nothing has changed."""
    workspace.add(MARA_AT, "mara@example.com")
    workspace.groups["S01"] = [MARA_AT]
    await keeper(office, "S01").once()
    before = await office.decider.ledger.raw("groups")
    await keeper(office, "S01").once()
    assert await office.decider.ledger.raw("groups") == before
    workspace.groups["S01"] = []
    await keeper(office, "S01").once()
    assert await office.decider.ledger.raw("groups") == (2, '{"S01":[]}')
