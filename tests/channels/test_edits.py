"""An approval with other values: how it is read, and what the next proposal may do."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders import CLEO, MARA, NOON, make_approval, people, waiting
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.pipeline.route import Router
from signoff.channels.words.phrases import outcome, result
from signoff.core.approvals import reopening
from signoff.core.approvals.approval import Approval, Asked, Origin, Shown, State, ToolCall
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.reply_context import context_of
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Edits, Fallback, Policy
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Reject, Reply, Unclear

LATER = NOON + timedelta(minutes=5)


def read(words: str) -> Reply:
    """Return how an answer of Mara's to a call without a template is read."""
    return read_reply(words, context_of(make_approval(), MARA, people()))


def edited(approval: Approval) -> Approval:
    """Return an approval that Mara has answered with another amount."""
    asked, _ = approval.ask(
        Fallback(ask=("mara",)).terms({}),
        (Asked(person="mara", channel="email", address=MARA.email, shown=Shown.COMPLETE),),
        now=NOON,
    )
    rejected, _ = asked.approve(
        MARA, people(), channel="email", now=LATER, values={"amount": 900}, reason="the cap is 900"
    )
    return rejected


@pytest.mark.parametrize(
    "words",
    [
        "approve with amount=900",
        "approve\namount: 900",
        "\r\napprove: Amount = 900\r\n\r\nMara\r\nPhone: +49 30 1234567",
    ],
)
def test_the_arguments_can_be_named_in_an_answer(words: str) -> None:
    """A gate without a payload reads the values with the types of its arguments."""
    reply = read(words)
    assert isinstance(reply, Approve)
    assert reply.values == {"amount": 900}


@pytest.mark.parametrize("words", ["approve\namount: many", "approve if he agrees", "banana"])
def test_invalid_value_gets_a_question_back(words: str) -> None:
    """It is neither an approval nor a proposal."""
    assert isinstance(read(words), Unclear)


def test_a_greeting_above_hides_neither_the_answer_nor_its_values() -> None:
    """A greeting is a paragraph of its own before the answer."""
    plain = read("Hallo Anna,\n\ngenehmigt.\n\nGruß")
    assert isinstance(plain, Approve)
    assert plain.values is None
    edit = read("Hi,\n\napprove\namount: 900\n\nMara")
    assert isinstance(edit, Approve)
    assert edit.values == {"amount": 900}


def test_note_line_is_a_remark_unless_the_request_has_a_note_field() -> None:
    """A line with "note:" is a remark, unless the request asks for a note."""
    call = make_approval().call.model_copy(update={"args": {"amount": 2500, "note": "travel"}})
    approval = make_approval().model_copy(update={"call": call})
    reply = read_reply("approve\nnote: checked", context_of(approval, MARA, people()))
    assert isinstance(reply, Approve)
    assert (reply.note, reply.values) == ("checked", None)


def test_rejection_with_a_number_in_its_reason_stays_a_rejection() -> None:
    """Values belong to approvals only."""
    reply = read("reject: amount = 900 would do")
    assert isinstance(reply, Reject)
    assert reply.reason == "amount = 900 would do"


def test_outcome_of_an_edit_states_that_the_shown_call_does_not_run() -> None:
    """The approver reads the values, and that the agent may propose them."""
    words = outcome(edited(make_approval()), "mara", people())
    assert words.headline == "Recorded: you asked for reimburse with other values"
    assert "amount = 900" in words.text
    assert "will not be run" in words.text


def test_the_other_approvers_read_whose_values_these_are() -> None:
    """Cleo did not propose them."""
    text = outcome(edited(make_approval()), "cleo", people()).text
    assert "The agent is told that Mara Lind would approve amount = 900" in text


@pytest.mark.parametrize(
    ("reader", "proposed", "would"), [("mara", "You", "you"), ("", "Mara Lind", "Mara Lind")]
)
def test_result_of_an_edit_says_what_was_proposed(reader: str, proposed: str, would: str) -> None:
    """Somebody who wrote "approve" with other values does not read that they rejected it."""
    words = result(edited(make_approval()), reader, "I will ask for 900.", people())
    assert words.headline == "reimburse was not run as shown"
    assert f"{proposed} proposed other values on" in words.text
    assert f"The agent was told that {would} would approve amount = 900." in words.text
    assert "rejected" not in words.text


async def route(ledger: Ledger, approval: Approval, edits: Edits, *policies: Policy) -> Approval:
    """Put an approval and its run into the ledger, and route it."""
    await ledger.commit(waiting(approval))
    router = Router(
        ledger,
        policies=policies,
        fallback=Fallback(ask=("mara", "cleo"), edits=edits),
        directory=people(),
    )
    while await router.drain():
        pass
    return await ledger.approval(approval.id)


async def proposed(
    ledger: Ledger, call_id: str = "adk-2", amount: int = 900, **args: str
) -> Approval:
    """Return the approval of the call that a rejection has proposed."""
    call = make_approval().call
    shown = call.model_copy(update={"args": {**call.args, **args}})
    before = edited(make_approval(call=shown))
    after = before.model_copy(update={"superseded_by": "later"})
    await ledger.commit(Change().put(after, was=None))
    origin = Origin(**{**before.origin.model_dump(), "confirmation": call_id, "run": "run_second"})
    call = ToolCall(id=call_id, name="reimburse", args={**before.call.args, "amount": amount})
    opened, _ = Approval.open(origin, call, hint="", template=None, now=LATER, supersedes=before.id)
    return opened


async def test_by_default_the_new_call_is_asked_about(ledger: Ledger) -> None:
    """The link exists, and a person still has to approve."""
    approval = await route(ledger, await proposed(ledger), Edits.ASK)
    assert approval.state is State.PENDING
    assert [asked.person for asked in approval.asked] == ["mara", "cleo"]
    assert (await ledger.backlog())["deliver.email"] == 2


@pytest.mark.parametrize("length", [10, 20_000])
async def test_edit_approves_its_own_values_when_the_policy_allows_it(
    ledger: Ledger, length: int
) -> None:
    """The person who entered the values has approved them: the run continues without asking."""
    opened = await proposed(ledger, purpose="x" * length)
    approval = await route(ledger, opened, Edits.APPROVE)
    assert approval.state is State.APPROVED
    assert not [one for one in await ledger.history(approval.id) if one.what is What.REFUSED_ANSWER]
    assert approval.decision is not None
    assert approval.decision.by == "mara"
    assert (await ledger.backlog())["resume.finance"] == 1
    assert (await ledger.backlog())["route"] == 0


async def test_call_with_values_other_than_the_edit_needs_an_approval(ledger: Ledger) -> None:
    """The edit approves exactly its own call; a link to another call does not help."""
    approval = await route(ledger, await proposed(ledger, amount=901), Edits.APPROVE)
    assert approval.state is State.PENDING
    assert (await ledger.backlog())["deliver.email"] == 2


@pytest.mark.parametrize("changed", ["agent", "parameters"])
async def test_same_values_of_another_agent_or_tool_need_an_approval(
    ledger: Ledger, changed: str
) -> None:
    """The edit approves no call of another agent, or of a tool that declares other parameters."""
    opened = await proposed(ledger)
    other, _ = Approval.open(
        opened.origin.model_copy(update={"agent": "other"} if changed == "agent" else {}),
        opened.call,
        hint="",
        template=None,
        now=LATER,
        supersedes=opened.supersedes,
        declared="0" * 64 if changed == "parameters" else opened.declared,
    )
    approval = await route(ledger, other, Edits.APPROVE)
    assert approval.state is State.PENDING
    assert (await ledger.backlog())["deliver.email"] == 2


@pytest.mark.parametrize(
    ("parts", "asked"),
    [
        ({"ask": ("mara", "cleo"), "quorum": 2}, ["mara", "cleo"]),
        ({"levels": (Level(ask=("mara",), phase="a"), Level(ask=("cleo",), phase="b"))}, ["mara"]),
    ],
    ids=["a quorum of two", "two phases"],
)
async def test_edit_approves_nothing_for_which_one_yes_is_not_enough(
    ledger: Ledger, parts: dict[str, Any], asked: list[str]
) -> None:
    """Everybody is asked about the new call, also the person who proposed it."""
    policy = Policy(name="expenses", edits=Edits.APPROVE, **parts)
    approval = await route(ledger, await proposed(ledger), Edits.APPROVE, policy)
    assert (approval.state, approval.votes) == (State.PENDING, ())
    assert [one.person for one in approval.asked] == asked
    assert (await ledger.backlog())["deliver.email"] == len(asked)


async def test_request_about_a_call_in_doubt_is_never_an_edit(
    ledger: Ledger,
) -> None:
    """It supersedes an approval too, but only a person can decide to run it again."""
    asked, _ = make_approval().ask(
        Fallback(ask=("cleo",)).terms({}),
        (Asked(person="cleo", channel="email", address=CLEO.email),),
        now=NOON,
    )
    doubtful, _ = asked.approve(CLEO, people(), channel="email", now=LATER)
    for step in (Handoff.STARTED, Handoff.IN_DOUBT):
        doubtful, _ = doubtful.hand_on(step, now=LATER)
    await ledger.commit(Change().put(doubtful, was=None))
    question, _ = reopening.ask_again(doubtful, now=LATER)
    approval = await route(ledger, question, Edits.APPROVE)
    assert approval.state is State.PENDING
    assert (await ledger.backlog())["deliver.email"] == 2
