"""`signoff queue`: waiting requests by queue and by person."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from builders import paused, people, present
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger, waiting
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.core.approvals.approval import Approval
from signoff.core.policies.levels import Level, Seat
from signoff.core.policies.policy import OnTimeout
from signoff.core.routing.escalation import advance

__all__ = ["on_ledger", "waiting"]

QUEUE = """
[[queues]]
name = "finance"
members = ["mara", "cleo"]
"""


async def _queued(ledger: Ledger) -> Approval:
    """Put an approval with seats into the queue, as the router does."""
    _, (was,) = await paused(ledger)
    seats = tuple(Seat(person=one, via="queue:finance") for one in ("mara", "cleo"))
    await ledger.commit(Change().put(was.model_copy(update={"seats": seats}), was=was))
    return await ledger.approval(was.id)


@pytest.fixture
def queued(settings_file: Path, on_ledger: OnLedger) -> Approval:
    """Return an approval that waits in the queue `finance`."""
    settings_file.write_text(settings_file.read_text() + QUEUE)
    found = on_ledger(_queued)
    assert isinstance(found, Approval)
    return found


async def _stranded(ledger: Ledger) -> Approval:
    """Open an approval and find nobody to ask, as the router does."""
    _, (was,) = await paused(ledger)
    assert was.terms is not None
    terms = was.terms.model_copy(update={"ask": ()})
    change = Change().put(was.model_copy(update={"asked": (), "terms": terms}), was=was)
    await ledger.commit(change)
    return await ledger.approval(was.id)


@pytest.mark.usefixtures("settings_file")
def test_a_request_that_nobody_can_be_asked_about_waits_on_nobody(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """An empty cell would look as if it were being routed."""
    on_ledger(_stranded)
    for words in (("approvals", "list"), ("queue", "show", "all")):
        assert " nobody " in invoke(*words).output


def test_a_queue_is_listed_and_shown(invoke: Invoke, queued: Approval) -> None:
    """The total, the numbers by queue and by person, claims and open questions."""
    assert invoke("approvals", "claim", queued.id, "--as", "mara").exit_code == 0
    assert invoke("approvals", "ask", queued.id, "why?", "--as", "mara").exit_code == 0
    rows = {one["name"]: one for one in json.loads(invoke("queue", "list", "--json").output)}
    assert set(rows) == {"all", "queue:finance", "mara", "cleo"}
    for row in rows.values():
        assert (row["waiting"], row["questions"]) == (1, 1)
        assert row["on"] == ["cleo", "mara"]
        assert [one["by"] for one in row["claimed"]] == ["mara"]
    assert f"Mara Lind ({queued.id})" in invoke("queue", "list").output
    for name in ("finance", "queue:finance", "cleo", "all"):
        shown = invoke("queue", "show", name).output
        assert queued.id in shown
        assert "Riley Voss (asked back)" in shown
        assert "Mara Lind, " in shown
        assert [
            one["id"] for one in json.loads(invoke("queue", "show", name, "--json").output)
        ] == [queued.id]


async def _overdue(ledger: Ledger) -> Approval:
    """Open an approval that stays open after its deadline, as the reconciler leaves it."""
    _, (was,) = await paused(ledger, on_timeout=OnTimeout.STAY)
    at = present(was.deadline)
    late, events = advance(was, people(), now=at)
    await ledger.commit(Change().put(late, was=was).note(events))
    return await ledger.approval(was.id)


@pytest.mark.usefixtures("settings_file")
def test_what_is_overdue_and_what_is_claimed_stands_out(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """An overdue approval comes first, and a claimed one waits for its holder alone."""
    _, (claimed,) = on_ledger(paused)
    late = on_ledger(_overdue)
    assert isinstance(late, Approval)
    assert late.deadline is None
    assert invoke("approvals", "claim", claimed.id, "--as", "mara").exit_code == 0
    rows = invoke("approvals", "list").output.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [late.id, claimed.id]
    assert rows[0].rstrip().endswith(" overdue")
    assert " Mara Lind (claimed) " in rows[1]
    assert "Cleo" not in rows[1]
    shown = invoke("queue", "show", "all").output.splitlines()
    assert [late.id in row for row in shown if " overdue " in row] == [True]


def test_an_approval_says_what_follows_without_an_answer(invoke: Invoke, queued: Approval) -> None:
    """The end of a claim and of the level; after the decision nothing follows."""
    assert invoke("approvals", "claim", queued.id, "--as", "mara").exit_code == 0
    shown = invoke("approvals", "show", queued.id).output
    assert "queue      finance" in shown
    ahead = shown.partition("if nobody answers\n")[2].partition("\n\n")[0]
    assert "The claim ends" in ahead.splitlines()[1]
    assert "Rejected, because it was not decided in time" in ahead.splitlines()[2]
    assert invoke("approvals", "approve", queued.id, "--as", "mara").exit_code == 0
    assert "if nobody answers" not in invoke("approvals", "show", queued.id).output


async def _followed(ledger: Ledger) -> Approval:
    """Put an approval into the ledger that Cleo is asked about an hour after Mara."""
    _, (was,) = await paused(ledger)
    assert was.terms is not None
    levels = (Level(ask=("mara",), within="1h"), Level(ask=("cleo",), name="second", within="1h"))
    terms = was.terms.model_copy(update={"ask": (), "levels": levels})
    update = {"terms": terms, "seats": (Seat(person="mara"),)}
    await ledger.commit(Change().put(was.model_copy(update=update), was=was))
    return await ledger.approval(was.id)


@pytest.mark.usefixtures("settings_file")
def test_a_queue_says_who_is_asked_next_and_when(invoke: Invoke, on_ledger: OnLedger) -> None:
    """The table has it in words, and JSON the people and the time of the deadline."""
    found = on_ledger(_followed)
    assert isinstance(found, Approval)
    shown = invoke("queue", "show", "all").output
    at = present(found.deadline)
    assert f"{at:%Y-%m-%d %H:%M:%S} UTC: Escalates to second: Cleo Park" in shown
    (row,) = json.loads(invoke("queue", "show", "all", "--json").output)
    assert row["next"] == {
        "at": at.isoformat(),
        "what": "escalated",
        "people": ["cleo"],
        "text": "Escalates to second: Cleo Park",
    }


@pytest.mark.usefixtures("settings_file")
def test_a_queue_says_nothing_of_what_never_ends(invoke: Invoke, on_ledger: OnLedger) -> None:
    """An overdue request that stays open has no next step."""
    on_ledger(_overdue)
    (row,) = json.loads(invoke("queue", "show", "all", "--json").output)
    assert row["next"] is None


@pytest.mark.usefixtures("queued")
def test_json_of_a_part_of_a_queue_says_how_many_are_left(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """On standard error, so that a script that reads the list does not take it for all."""
    on_ledger(_queued)
    part = invoke("queue", "show", "finance", "--json", "--limit", "1")
    assert len(json.loads(part.stdout)) == 1
    assert part.stderr == "… and 1 more request. --limit shows more of them.\n"
    whole = invoke("queue", "show", "finance", "--json")
    assert (len(json.loads(whole.stdout)), whole.stderr) == (2, "")


def test_queue_without_pending_requests_is_listed_as_empty(
    invoke: Invoke, queued: Approval
) -> None:
    """The queue is still listed as empty, and the people are not."""
    assert invoke("approvals", "approve", queued.id, "--as", "cleo").exit_code == 0
    rows = json.loads(invoke("queue", "list", "--json").output)
    assert [(one["name"], one["waiting"]) for one in rows] == [("all", 0), ("queue:finance", 0)]
    assert json.loads(invoke("queue", "show", "finance", "--json").output) == []
    assert invoke("queue", "show", "finance").output == "No pending approvals.\n"


def test_metrics_show_durations_and_outcomes(invoke: Invoke, queued: Approval) -> None:
    """By queue, and by tool and week; before any request has ended it says so."""
    assert "Nothing has ended" in invoke("queue", "figures").output
    assert invoke("approvals", "approve", queued.id, "--as", "cleo").exit_code == 0
    found = json.loads(invoke("queue", "figures", "--json").output)
    assert (found["count"], found["took"][0]["name"]) == (1, "queue:finance")
    assert [(one["tool"], one["outcomes"]) for one in found["came"]] == [
        ("reimburse", {"approved": 1})
    ]
    text = invoke("queue", "figures").output
    assert "queue:finance" in text
    assert "reimburse" in text


def test_an_unknown_name_is_refused(invoke: Invoke, queued: Approval) -> None:
    """The error lists the queues."""
    assert queued.state == "pending"
    for name in ("sales", "queue:sales"):
        result = invoke("queue", "show", name)
        assert result.exit_code == 2
        assert "Queues: finance" in result.stderr


def test_watch_prints_json_until_interrupted(
    invoke: Invoke, queued: Approval, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look prints one line of JSON; Ctrl-C ends it."""
    looks = []

    async def interrupted(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("signoff.cli.commands.people.queue.asyncio.sleep", interrupted)
    result = invoke("queue", "show", "finance", "--watch", "--json")
    lines = [json.loads(line) for line in result.output.splitlines() if line.startswith("[")]
    assert [[one["id"] for one in line] for line in lines] == [[queued.id], [queued.id]]


def test_queue_index_can_be_rebuilt(
    on_ledger: Callable[[Callable[[Ledger], Awaitable[object]]], object], queued: Approval
) -> None:
    """Missing entries return, and wrong ones are removed."""

    async def lose_and_rebuild(ledger: Ledger) -> list[str]:
        key = f"{ledger.store.prefix}queue:finance"
        await ledger.store.client.delete(key)
        await ledger.store.client.zadd(f"{ledger.store.prefix}queue:ghost", {queued.id: 1})
        await rebuild(ledger)
        assert await ledger.store.members("queue:ghost") == []
        return await ledger.store.members("queue:finance")

    assert on_ledger(lose_and_rebuild) == [queued.id]
