"""Informed people on the command line, and errors in their settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from builders import MARA, make_approval, make_origin
from cli.conftest import Invoke
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.cli.config.check import check
from signoff.cli.config.settings import load_settings
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked
from signoff.core.approvals.milestones import Milestone
from signoff.core.approvals.run import Run
from signoff.core.policies.levels import Seat, Start
from signoff.core.policies.policy import Terms

AUDIT = """
[[people]]
id = "ann"
name = "Ann Audit"
email = "ann@example.com"
notify_requester = []
[[queues]]
name = "audit"
members = ["ann"]
[[policies]]
name = "trips"
when = "tool == 'trip'"
ask = ["mara"]
inform = ["queue:audit"]
notify_requester = ["waiting", "decided"]
notify_by = ["email"]
"""

FAULTS = {
    "nobody": ('inform = ["anne"]', "policies[0].inform", "'anne' is not the id of anybody"),
    "no queue": ('inform = ["queue:q"]', "policies[0].inform", "'q' is not the name of a queue"),
    "no channel": ('notify_by = ["pager"]', "policies[0].notify_by", "'pager' is not a channel"),
    "no Slack": ('notify_by = ["slack"]', "policies[0].notify_by", "Slack is not set up"),
    "allowed at once": (
        'effect = "allow"\nat_most = "5/h"\ninform = ["mara"]',
        "policies[0].inform",
        "nobody is informed of calls",
    ),
}


@pytest.fixture(autouse=True)
def _settings(settings_file: Path) -> None:
    """Put the settings into the working directory, with an auditor."""
    settings_file.write_text(settings_file.read_text(encoding="utf-8") + AUDIT, encoding="utf-8")


@pytest.mark.parametrize("name", FAULTS)
def test_each_mistake_is_found(tmp_path: Path, name: str) -> None:
    """The error is at its key and says what is wrong."""
    lines, key, words = FAULTS[name]
    asks = "" if "effect" in lines else 'ask = ["mara"]\n'
    file = tmp_path / "other.toml"
    file.write_text(
        '[agents]\nfolder = "."\n[[people]]\nid = "mara"\nemail = "mara@example.com"\n'
        f'[default]\nask = ["mara"]\n[[policies]]\nname = "p"\n{asks}{lines}\n',
        encoding="utf-8",
    )
    found = [(one.key, one.message) for one in check(load_settings(file))]
    assert [one for one in found if one[0] == key and words in one[1]], found


def test_unknown_channel_of_a_person_is_an_error(settings_file: Path) -> None:
    """A channel that does not exist is an error."""
    text = settings_file.read_text(encoding="utf-8")
    settings_file.write_text(text.replace("notify_requester = []", 'notify_by = ["pager"]'))
    found = [(one.key, one.message) for one in check(load_settings(settings_file))]
    assert ("people[3].notify_by", "'pager' is not a channel") in found


@pytest.mark.parametrize(
    ("user", "line"),
    [
        ("riley", "the requester is told when it is waiting or decided; by email"),
        ("ann", "the requester is told nothing"),
        ("kim@example.org", "the requester is not in the directory: they are told only if"),
    ],
)
def test_explain_lists_informed_people(invoke: Invoke, user: str, line: str) -> None:
    """Informed people are listed beside the approvers, after the requester."""
    done = invoke("policy", "explain", "--tool", "trip", "--user", user)
    assert done.exit_code == 0, done.output
    assert "informed: Ann Audit" in done.stdout
    assert line in done.stdout


def test_show_lists_informed_people_and_deliveries(
    invoke: Invoke, redis_url: str, prefix: str
) -> None:
    """They are among the facts, and each delivery is in the timeline."""
    approval = asyncio.run(_informed(redis_url, prefix))
    shown = [
        " ".join(line.split())
        for line in invoke("approvals", "show", approval.id).stdout.splitlines()
    ]
    assert "informed Ann Audit" in shown
    assert any("delivered to ann (opened) email" in line for line in shown)


async def _informed(url: str, prefix: str) -> Approval:
    """Put an approval into the ledger that informs Ann."""
    ledger = Ledger(Store.open(url, prefix=prefix))
    now = await ledger.now()
    approval = make_approval(origin=make_origin(run="run_1"), now=now)
    terms = Terms(policy="trips", ask=("mara",), inform=("queue:audit",))
    start = Start(0, 0, (Seat(person="mara"),), now + terms.within.by_the_clock, informed=("ann",))
    card = Asked(person="mara", channel="email", address=MARA.email)
    asked, events = approval.ask(terms, (card,), now=now, start=start)
    told = deliveries.informed(asked, "ann", "email", Milestone.OPENED, now=now)
    run = Run(
        id="run_1", app="finance", user="riley", session="s_1", message="go", submitted_at=now
    )
    change = Change().put(run.paused([asked.id]), was=None).put(asked, was=None)
    await ledger.commit(change.note([*events, told]))
    await ledger.close()
    return asked
