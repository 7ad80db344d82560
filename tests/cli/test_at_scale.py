"""Large lists have pages and counts, and harmless calls are approved together as shown."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from builders import MARA, paused, people, present
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.moves import Actor, Comment
from signoff.core.directory.people import Person
from signoff.core.policies.levels import Level, Seat

__all__ = ["on_ledger"]


@pytest.fixture
def crowd(settings_file: Path) -> Sequence[Person]:
    """Return thirty more approvers."""
    made = [
        Person(id=f"p{at:02}", name=f"Person {at}", email=f"p{at:02}@example.com")
        for at in range(30)
    ]
    more = "".join(
        f'\n[[people]]\nid = "{one.id}"\nname = "{one.name}"\nemail = "{one.email}"\n'
        for one in made
    )
    settings_file.write_text(settings_file.read_text() + more)
    return made


def test_a_queue_names_a_few_people(
    invoke: Invoke, on_ledger: OnLedger, crowd: Sequence[Person]
) -> None:
    """A cell has five names and the number of the others; a list has the important rows."""
    on_ledger(lambda ledger: paused(ledger, siblings=2, asked=crowd))
    listed = invoke("queue", "list", "--limit", "3").stdout
    assert "and 25 more" in listed
    assert "… and 27 more people. --limit shows more of them." in listed
    assert len(listed.splitlines()) == 1 + 1 + 3 + 1
    assert len(json.loads(invoke("queue", "list", "--json").stdout)) == 31
    shown = invoke("queue", "show", "all", "--limit", "1").stdout
    assert "and 25 more" in shown
    assert "… and 1 more request. --limit shows more of them." in shown


@pytest.mark.usefixtures("settings_file")
def test_list_pages_show_every_request_once(invoke: Invoke, on_ledger: OnLedger) -> None:
    """The pages show everything once, and the last page has no hint of more."""
    _, made = on_ledger(lambda ledger: paused(ledger, siblings=5))
    seen, more = list[str](), list[str]()
    for _ in range(3):
        done = invoke("approvals", "list", "--limit", "2", "--json", *more)
        seen += [one["id"] for one in json.loads(done.stdout)]
        found = re.search(r"(\d) of 5 shown.*(--after) (\S+)", done.stderr)
        more = list(found.groups()[1:]) if found else []
    assert sorted(seen) == sorted(one.id for one in made)
    assert not more
    assert "of 5" not in invoke("approvals", "list", "--limit", "5").stderr


async def _escalated(ledger: Ledger) -> Approval:
    """Return an approval that asked Mara first and now asks Cleo."""
    _, (made,) = await paused(ledger, asked=[MARA])
    assert made.terms is not None
    levels = tuple(Level(ask=(one,), within=made.terms.within) for one in ("mara", "cleo"))
    update = {
        "terms": made.terms.model_copy(update={"ask": (), "levels": levels}),
        "seats": (Seat(person="mara"), Seat(person="cleo", level=1)),
        "level": 1,
    }
    await ledger.commit(Change().put(made.model_copy(update=update), was=made))
    return made


@pytest.mark.usefixtures("settings_file")
def test_list_names_only_the_current_approvers(invoke: Invoke, on_ledger: OnLedger) -> None:
    """Earlier approvers are not in the list."""
    on_ledger(_escalated)
    listed = invoke("approvals", "list").stdout
    assert "Cleo Park" in listed
    assert "Mara Lind" not in listed


@pytest.mark.usefixtures("settings_file")
def test_invalid_page_cursor_is_an_error(invoke: Invoke) -> None:
    """The error says where to find one."""
    done = invoke("approvals", "list", "--after", "nowhere!")
    assert done.exit_code == 2
    assert "is not a valid place" in done.stderr


@pytest.mark.usefixtures("settings_file")
def test_policy_diff_groups_approvals_with_the_same_change(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """Approvals with the same change are one block, however many there are."""
    on_ledger(lambda ledger: paused(ledger, siblings=40, asked=[MARA]))
    done = invoke("policy", "diff")
    assert "and 35 more" in done.stdout
    assert "40 pending: 40 would have other terms, 0 the same." in done.stdout
    assert len(done.stdout.splitlines()) < 20


async def _harmless(ledger: Ledger) -> list[Approval]:
    """Open three calls that may be approved together, and one that may not."""
    _, made = await paused(ledger, siblings=4)
    for one in made[:3]:
        assert one.terms is not None
        terms = one.terms.model_copy(update={"batch": True})
        await ledger.commit(Change().put(one.model_copy(update={"terms": terms}), was=one))
    return await ledger.approvals([one.id for one in made])


@pytest.mark.usefixtures("settings_file")
def test_review_approves_exactly_the_shown_requests(invoke: Invoke, on_ledger: OnLedger) -> None:
    """Each is shown with arguments and digest; the others do not change."""
    made = on_ledger(_harmless)
    done = invoke("approvals", "review", "--as", "mara", input="3\n")
    assert done.exit_code == 0, done.output
    for one in made[:3]:
        assert one.digest in done.stdout
        assert f"{one.id}: approved by Mara Lind." in done.stdout
    assert made[3].id not in done.stdout
    after = on_ledger(lambda ledger: ledger.approvals([one.id for one in made]))
    assert [one.state for one in after] == [State.APPROVED] * 3 + [State.PENDING]


@pytest.mark.usefixtures("settings_file")
@pytest.mark.parametrize("said", ["", "y", "yes", "2", "33"])
def test_review_needs_the_exact_number_as_confirmation(
    invoke: Invoke, on_ledger: OnLedger, said: str
) -> None:
    """Only the number of the shown approvals confirms all of them."""
    made = on_ledger(_harmless)
    done = invoke("approvals", "review", "--as", "mara", input=f"{said}\n")
    assert done.exit_code == 1
    assert "To approve exactly these 3, type 3: " in done.stdout
    assert "Nothing was decided." in done.stdout
    after = on_ledger(lambda ledger: ledger.approvals([one.id for one in made]))
    assert {one.state for one in after} == {State.PENDING}


async def _make_unreadable(run: str, ledger: Ledger) -> None:
    (version, _) = present(await ledger.raw(f"run:{run}"))
    await ledger.commit(Change().put_raw(f"run:{run}", '{"needs": 999}', was=version))


async def _two_runs(ledger: Ledger) -> list[Approval]:
    return [*(await paused(ledger))[1], *(await paused(ledger))[1]]


@pytest.mark.usefixtures("settings_file")
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_an_unreadable_record_does_not_block_other_approvals(
    invoke: Invoke, on_ledger: OnLedger, options: Sequence[str]
) -> None:
    """A newer version wrote the run of the first one; the second one is approved."""
    made = on_ledger(_two_runs)
    on_ledger(partial(_make_unreadable, made[0].origin.run))
    ids = [one.id for one in made]
    done = invoke("approvals", "approve", *ids, "--as", "mara", *options)
    assert done.exit_code == 1
    after = on_ledger(lambda ledger: ledger.approvals(ids))
    assert [one.state for one in after] == [State.PENDING, State.APPROVED]
    assert all(one in done.output for one in ids)


async def _remark(approval: Approval, ledger: Ledger) -> None:
    hinted = approval.model_copy(update={"hint": "The invoice is missing."})
    await ledger.commit(Change().put(hinted, was=approval))
    actor = Actor(MARA, "email")
    await Decider(ledger, people()).take(approval.id, Comment(text="Wait for Cleo."), actor)


@pytest.mark.usefixtures("settings_file")
def test_review_shows_hints_and_comments(invoke: Invoke, on_ledger: OnLedger) -> None:
    """What a colleague or the tool says about a call is shown before it is approved."""
    made = on_ledger(_harmless)
    on_ledger(partial(_remark, made[0]))
    done = invoke("approvals", "review", "--as", "mara", input="\n")
    assert "Wait for Cleo." in done.stdout
    assert "The invoice is missing." in done.stdout


async def _reject(approval: Approval, ledger: Ledger) -> None:
    await Decider(ledger, people()).reject(approval.id, MARA, channel="email")


@pytest.mark.usefixtures("settings_file")
def test_review_leaves_out_decided_and_unbatchable_requests(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """Approvals that are decided, or that may not be approved together, are left out."""
    made = on_ledger(_harmless)
    for one in made[:3]:
        on_ledger(partial(_reject, one))
    done = invoke("approvals", "review", "--as", "mara")
    assert "None of your requests can be approved together with others." in done.stdout


@pytest.mark.usefixtures("settings_file")
def test_review_reports_the_requests_it_leaves_out(invoke: Invoke, on_ledger: OnLedger) -> None:
    """Two are shown and approved, and one is left for the next review."""
    made = on_ledger(_harmless)
    done = invoke("approvals", "review", "--as", "mara", "--limit", "2", input="2\n")
    assert done.exit_code == 0, done.output
    assert "1 more can be approved together after these." in done.stdout
    after = on_ledger(lambda ledger: ledger.approvals([one.id for one in made]))
    assert sorted(one.state for one in after) == [State.APPROVED] * 2 + [State.PENDING] * 2
