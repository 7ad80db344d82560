"""How an answer by the API becomes a decision."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import JsonValue

from builders import CLEO, MARA, NOON, RILEY, make_call, make_origin, paused
from deciding import Decider
from signoff.broker.ledger import follow
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.approvals import reopening
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.parts import INPUT, Asked, Kind, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.errors import PayloadError
from signoff.core.directory.people import Person
from signoff.core.policies.levels import Seat
from signoff.worker.adk.questions import CONFIRMATION
from signoff.worker.adk_api import answering
from signoff.worker.adk_api.answering import AnsweredTurn, AnswerHandler
from signoff.worker.adk_api.bodies import RunRequest, SentAnswer
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.stated import Stated, stated_in, values_of

DAY = timedelta(days=1)


def as_person(person: Person | None, **users: frozenset[str]) -> Caller:
    """Return a caller who answers as a person and uses no sessions."""
    return Caller("test", users.get("users", frozenset()), None, person, "Set something.")


def about(run: Run) -> RunRequest:
    """Return the request that carries an answer to a run."""
    return RunRequest(app_name=run.app, user_id=run.user, session_id=run.session)


def yes(call: str = "adk-0", payload: JsonValue = None) -> SentAnswer:
    """Return an approval."""
    return SentAnswer(call, CONFIRMATION, {"confirmed": True, "payload": payload})


def no(call: str = "adk-0", reason: str = "") -> SentAnswer:
    """Return a rejection."""
    return SentAnswer(call, CONFIRMATION, {"confirmed": False, "payload": {"reason": reason}})


@pytest.fixture
def taking(decider: Decider, ledger: Ledger) -> AnswerHandler:
    """Return the part of the API that takes answers."""
    return AnswerHandler(decider, ledger)


async def test_a_yes_is_a_decision_through_the_api(taking: AnswerHandler, ledger: Ledger) -> None:
    """It decides the approval, and the resumed run is watched."""
    run, (was,) = await paused(ledger)
    assert await taking.take(as_person(MARA), about(run), [yes()]) == AnsweredTurn(
        run.id, pause=1, answered=frozenset({was.id})
    )
    approval = await ledger.approval(was.id)
    assert approval.decision is not None
    assert (approval.decision.by, approval.decision.channel) == ("mara", "api")
    assert (await ledger.run(run.id)).watched


async def test_rejection_reason_is_stored(taking: AnswerHandler, ledger: Ledger) -> None:
    """The model will read it."""
    run, (was,) = await paused(ledger)
    await taking.take(as_person(CLEO), about(run), [no(reason="over budget")])
    approval = await ledger.approval(was.id)
    assert approval.decision is not None
    assert (approval.state, approval.decision.reason) == (State.REJECTED, "over budget")


async def test_changed_values_without_a_template_are_a_proposal(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """An approval of 900 does not approve the displayed 2500, as with mail."""
    run, (was,) = await paused(ledger)
    await taking.take(as_person(MARA), about(run), [yes(payload={"amount": 900})])
    approval = await ledger.approval(was.id)
    assert approval.state is State.REJECTED
    assert approval.decision is not None
    assert approval.decision.proposal == {"amount": 900, "purpose": "conference"}


@pytest.mark.parametrize(
    ("template", "payload", "values"),
    [
        ({"days": 0}, {"days": 3}, {"days": 3}),
        (0, 3, {"value": 3}),
        ("", "words", {"value": "words"}),
        (["a"], ["b", "c"], {"value": ["b", "c"]}),
        ({}, {}, None),
        ({"days": 0}, None, None),
        ({"days": 0, "who": "riley"}, {"days": 0, "who": "riley"}, None),
        ({"days": 0, "who": "riley"}, {"days": 0, "who": "kim"}, {"days": 0, "who": "kim"}),
        (0, 0, None),
        (None, {}, {}),
        (None, {"amount": 900}, {"amount": 900}),
    ],
)
def test_a_payload_is_values_by_field(
    template: JsonValue, payload: JsonValue, values: Mapping[str, JsonValue] | None
) -> None:
    """A template that is not an object has one field; an unchanged payload fills none."""
    assert values_of(_open(template), payload) == values


@pytest.mark.parametrize(
    ("template", "payload"),
    [
        ({"days": 0}, [3]),
        ({"days": 0}, {"day": 3}),
        ({"days": 0}, 3),
        (0, {"value": 3}),
        (0, "3"),
        ({}, {"days": 3}),
        ({}, 3),
        (None, 5),
        (None, "yes"),
        (None, {"amont": 900}),
        (None, {"amount": "900"}),
    ],
)
def test_a_payload_of_another_type_is_refused(template: JsonValue, payload: JsonValue) -> None:
    """A value that could mean something else is not converted."""
    with pytest.raises(PayloadError):
        values_of(_open(template), payload)


def _open(template: JsonValue) -> Approval:
    approval, _ = Approval.open(make_origin(), make_call(), hint="", template=template, now=NOON)
    return approval


async def test_one_invalid_answer_leaves_its_siblings_open(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """All answers are checked before the first commit."""
    run, before = await paused(ledger, siblings=2, template={"days": 0})
    with pytest.raises(PayloadError):
        await taking.take(as_person(MARA), about(run), [yes(payload={"days": 1}), yes("adk-1")])
    assert await ledger.approvals([one.id for one in before]) == before


async def test_siblings_that_wait_are_counted(taking: AnswerHandler, ledger: Ledger) -> None:
    """The turn begins after the last answer, and goes to the client that gave it."""
    run, _ = await paused(ledger, siblings=3)
    assert (await taking.take(as_person(MARA), about(run), [yes()])).waiting == 2
    assert (await taking.take(as_person(CLEO), about(run), [no("adk-1")])).waiting == 1
    assert (await taking.take(as_person(MARA), about(run), [yes("adk-2")])).waiting == 0


async def test_one_message_cannot_answer_calls_of_two_runs(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """They would resume at different times, and the client would see one of them."""
    first, _ = await paused(ledger, session="s")
    other = make_origin(run="run_2", session="s", confirmation="adk-9")
    approval, _ = Approval.open(other, make_call(), hint="", template=None, now=await ledger.now())
    await ledger.commit(Change().put(approval, was=None))
    users = frozenset({"riley"})
    with pytest.raises(Problem, match="different runs"):
        await taking.take(as_person(MARA, users=users), about(first), [yes(), yes("adk-9")])


@pytest.mark.parametrize(
    ("person", "users", "status", "kind"),
    [
        (RILEY, frozenset[str](), 404, "not-found"),
        (RILEY, frozenset({"riley"}), 403, "own-request"),
        (Person(id="kim", email="kim@example.com"), frozenset[str](), 404, "not-found"),
        (
            Person(id="kim", email="kim@example.com"),
            frozenset({"riley"}),
            403,
            "not-an-approver",
        ),
        (None, frozenset[str](), 404, "not-found"),
        (None, frozenset({"riley"}), 403, "nobody"),
    ],
)
async def test_other_users_cannot_answer(
    taking: AnswerHandler,
    ledger: Ledger,
    *,
    person: Person | None,
    users: frozenset[str],
    status: int,
    kind: str,
) -> None:
    """A user of the session reads the reason; for everybody else the call does not exist."""
    run, before = await paused(ledger)
    with pytest.raises(Problem) as refused:
        await taking.take(as_person(person, users=users), about(run), [yes()])
    assert (refused.value.status, refused.value.kind) == (status, kind)
    assert await ledger.approvals([one.id for one in before]) == before


async def test_people_who_share_a_card_can_answer(taking: AnswerHandler, ledger: Ledger) -> None:
    """Mara and Cleo are asked by a common card in a Slack channel, and have no other cards."""
    run, (was,) = await paused(ledger)
    card = Asked(person="", channel="slack", address="#approvals", level_key=was.level_key)
    seats = (Seat(person="mara"), Seat(person="cleo"))
    shared = was.model_copy(update={"asked": (card,), "seats": seats})
    await ledger.commit(Change().put(shared, was=was))
    await taking.take(as_person(MARA), about(run), [yes()])
    assert (await ledger.approval(was.id)).state is State.APPROVED


async def in_doubt(taking: AnswerHandler, ledger: Ledger) -> tuple[Run, Approval]:
    """Return a run whose approved call is in doubt, and the question whether it may run again."""
    run, (was,) = await paused(ledger)
    now = await ledger.now()
    doubtful = was.approve(MARA, taking.decisions.directory, channel="email", now=now)[0]
    for handoff in (Handoff.STARTED, Handoff.IN_DOUBT):
        doubtful, _ = doubtful.hand_on(handoff, now=now)
    question, _ = reopening.ask_again(doubtful, now=now)
    assert was.terms is not None
    question, _ = question.ask(was.terms, was.asked, now=now)
    answered = run.answered(was.id)
    change = Change().put(doubtful, was=was).put(question, was=None)
    await ledger.commit(change.put(answered.paused([question.id]), was=run))
    return run, question


async def test_call_in_doubt_is_asked_about_under_the_same_id(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """The question whether it may run again has its own approval."""
    run, question = await in_doubt(taking, ledger)
    assert (await taking.take(as_person(MARA), about(run), [no()])).pause == 2
    assert (await ledger.approval(question.id)).state is State.REJECTED


async def test_a_repeated_yes_does_not_run_a_call_in_doubt_again(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """A client that lost the stream sends its yes again, and has never seen the question."""
    run, question = await in_doubt(taking, ledger)
    with pytest.raises(Problem, match="may or may not have happened") as refused:
        await taking.take(as_person(MARA), about(run), [yes()])
    assert (refused.value.status, refused.value.kind) == (403, "not-shown-in-full")
    assert (await ledger.approval(question.id)).state is State.PENDING
    (entry,) = [one for one in await ledger.history(question.id) if one.what is What.REFUSED_ANSWER]
    assert (entry.by, entry.more["verdict"]) == ("mara", "approve")


async def test_a_yes_to_a_call_in_doubt_that_has_expired_does_not_count(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """The question that replaces it is still about a call in doubt."""
    run, was = await in_doubt(taking, ledger)
    now, directory = await ledger.now(), taking.decisions.directory
    approved = was.approve(MARA, directory, channel="email", now=now)[0]
    expired, question, _ = reopening.expire(approved, now=now + DAY, valid_for=DAY)
    assert was.terms is not None
    question, _ = question.ask(was.terms, was.asked, now=now)
    paused_run = await ledger.run(run.id)
    change = Change().put(expired, was=await ledger.approval(was.id)).put(question, was=None)
    again = paused_run.answered(was.id).paused([question.id])
    await ledger.commit(change.put(again, was=paused_run))
    with pytest.raises(Problem, match="Is it still wanted"):
        await taking.take(as_person(MARA), about(run), [yes()])


@pytest.mark.parametrize("changes", [True, False])
async def test_a_repeated_yes_does_not_approve_a_call_that_has_changed(
    taking: AnswerHandler, ledger: Ledger, changes: bool
) -> None:
    """The client was shown the earlier arguments. If only the receipt is void, it saw this call."""
    run, (was,) = await paused(ledger)
    now, directory = await ledger.now(), taking.decisions.directory
    approved = was.approve(MARA, directory, channel="email", now=now)[0]
    args = {**was.call.args, "amount": 9_999} if changes else was.call.args
    call = was.call.model_copy(update={"args": args})
    after, question, _ = reopening.ask_about_change(
        approved, call, origin={}, declared=was.declared, why="It changed.", now=now
    )
    assert was.terms is not None
    question, _ = question.ask(was.terms, was.asked, now=now)
    change = Change().put(after, was=was).put(question, was=None)
    await ledger.commit(change.put(run.answered(was.id).paused([question.id]), was=run))
    if changes:
        with pytest.raises(Problem, match="It changed"):
            await taking.take(as_person(MARA), about(run), [yes()])
    else:
        await taking.take(as_person(MARA), about(run), [yes()])
    state = (await ledger.approval(question.id)).state
    assert state is (State.PENDING if changes else State.APPROVED)


async def test_answer_before_routing_is_refused_with_a_retry(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """The problem names the missing process, which applies the policies."""
    run, _ = await paused(ledger)
    approval, events = Approval.open(
        make_origin(run=run.id, session=run.session, confirmation="adk-9"),
        make_call(),
        hint="",
        template=None,
        now=await ledger.now(),
    )
    await ledger.commit(Change().put(approval, was=None).note(events))
    with pytest.raises(Problem, match="signoff channels") as refused:
        await replace(taking, patience=0.01).take(as_person(MARA), about(run), [yes("adk-9")])
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "2"})


async def test_a_client_that_sees_a_call_early_waits_until_the_run_pauses(
    taking: AnswerHandler, decider: Decider, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream shows a call before the worker commits the approval that is answered."""
    run = await decider.submit("finance", "Reimburse me", user="riley", session="s")
    caller = as_person(MARA, users=frozenset({"riley"}))
    waits = asyncio.Event()

    async def latest(store: Store) -> str:
        waits.set()
        return await follow.latest(store)

    monkeypatch.setattr(answering, "latest", latest)
    taken = asyncio.create_task(taking.take(caller, about(run), [yes()]))
    begun = asyncio.create_task(waits.wait())
    await asyncio.wait({taken, begun}, return_when=asyncio.FIRST_COMPLETED)
    begun.cancel()
    _, (was,) = await paused(ledger, run=run)
    assert await taken == AnsweredTurn(run.id, pause=1, answered=frozenset({was.id}))
    assert (await ledger.approval(was.id)).state is State.APPROVED


async def test_a_call_of_a_turn_that_does_not_pause_is_to_be_answered_later(
    taking: AnswerHandler, decider: Decider
) -> None:
    """The call may be one of a parallel agent's, which pauses with the others."""
    run = await decider.submit("finance", "Reimburse me", user="riley", session="s")
    caller = as_person(MARA, users=frozenset({"riley"}))
    with pytest.raises(Problem, match="when it pauses") as refused:
        await replace(taking, patience=0.01).take(caller, about(run), [yes()])
    assert (refused.value.status, refused.value.headers) == (409, {"Retry-After": "2"})


async def test_busy_session_is_hidden_from_other_users(
    taking: AnswerHandler, decider: Decider
) -> None:
    """The answer is refused at once, as in a session that rests."""
    run = await decider.submit("finance", "Reimburse me", user="riley", session="s")
    with pytest.raises(Problem) as refused:
        await taking.take(as_person(MARA), about(run), [yes()])
    assert refused.value.status == 404


def _input(schema: JsonValue) -> Approval:
    call = ToolCall(id="adk-0", name=INPUT, args={"message": "?", "response_schema": schema})
    approval, _ = Approval.open(
        make_origin(), call, hint="", template=None, now=NOON, kind=Kind.INPUT
    )
    return approval


FORM: JsonValue = {
    "type": "object",
    "properties": {"approved": {"type": "boolean"}, "note": {"type": "string"}},
    "required": ["approved"],
}
OBJECT: JsonValue = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("schema", "response", "verdict"),
    [
        (None, {"result": "0042"}, Stated(yes=True, values={"value": "0042"})),
        (None, {"city": "Oslo"}, Stated(yes=True, values={"value": {"city": "Oslo"}})),
        ({"type": "string"}, {"result": "0042"}, Stated(yes=True, values={"value": "0042"})),
        ({"type": "integer"}, {"result": "42"}, Stated(yes=True, values={"value": 42})),
        ({"type": "integer"}, {"result": 42}, Stated(yes=True, values={"value": 42})),
        ({"type": "boolean"}, {"result": True}, Stated(yes=True)),
        ({"type": "boolean"}, {"result": "false"}, Stated(yes=False)),
        (OBJECT, {"n": 3}, Stated(yes=True, values={"n": 3})),
        (OBJECT, {"result": '{"n": 3}'}, Stated(yes=True, values={"n": 3})),
        (FORM, {"approved": True}, Stated(yes=True, values={"approved": True})),
        (
            FORM,
            {"approved": False, "note": "no"},
            Stated(yes=False, values={"approved": False, "note": "no"}),
        ),
    ],
)
def test_input_answer_is_unwrapped_as_in_adk(
    schema: JsonValue, response: JsonValue, verdict: Stated
) -> None:
    """It is unwrapped as ADK does, except if text is requested."""
    approval = _input(schema)
    assert stated_in(approval, SentAnswer("adk-0", INPUT, response)) == verdict


@pytest.mark.parametrize(
    ("schema", "response", "words"),
    [
        ({"type": "boolean"}, {"result": "yes"}, "true or false"),
        ({"type": "boolean"}, {"result": 1}, "true or false"),
        ({"type": "boolean"}, {}, "true or false"),
        (OBJECT, {"result": "three"}, "an object"),
        (OBJECT, {"result": '{"n": 3, "n": 4}'}, "an object"),
        (FORM, {"note": "fine"}, '"approved" should be true or false'),
        (FORM, {"approved": "yes"}, '"approved" should be true or false'),
        (FORM, {"approved": None}, '"approved" should be true or false'),
    ],
)
def test_input_of_another_kind_is_refused(
    schema: JsonValue, response: JsonValue, words: str
) -> None:
    """If the schema asks for a yes or a no, it is not guessed."""
    with pytest.raises(PayloadError, match=words):
        stated_in(_input(schema), SentAnswer("adk-0", INPUT, response))


def test_rejection_with_the_shown_arguments_has_no_reason() -> None:
    """ADK's page sends the arguments with every answer; one may be called `reason`."""
    origin = make_origin()
    call = ToolCall(id="c", name="leave", args={"reason": "tired"})
    approval, _ = Approval.open(origin, call, hint="", template=None, now=NOON)
    said: JsonValue = {"confirmed": False, "payload": {"reason": "tired"}}
    assert stated_in(approval, SentAnswer("adk-0", CONFIRMATION, said)) == Stated(yes=False)


async def test_a_call_is_answered_under_its_own_name(taking: AnswerHandler, ledger: Ledger) -> None:
    """A confirmation does not answer a request for input with the same id."""
    run, (was,) = await paused(ledger)
    await ledger.commit(Change().put(was.model_copy(update={"kind": Kind.INPUT}), was=was))
    with pytest.raises(Problem, match="answered as 'adk_request_input'") as refused:
        await taking.take(as_person(MARA), about(run), [yes()])
    assert (refused.value.status, refused.value.kind) == (400, "unknown-name")


async def asked_twice(
    taking: AnswerHandler, ledger: Ledger, later: Run | None = None
) -> list[Approval]:
    """Approve the question of a node, and let the node ask again.

    Args:
        taking: The part of the API that takes answers.
        ledger: The ledger.
        later: The run that asks again, after another message; None for the same run.
    """
    run, (first,) = await paused(ledger, session="s")
    await taking.take(as_person(MARA), about(run), [yes()])
    run = later or run
    second, _ = Approval.open(
        first.origin.model_copy(update={"nth": 1, "run": run.id}),
        make_call(),
        hint="",
        template=None,
        now=await ledger.now(),
    )
    assert first.terms is not None
    second, _ = second.ask(first.terms, first.asked, now=await ledger.now())
    was = await ledger.run(run.id)
    await ledger.commit(Change().put(second, was=None).put(was.paused([second.id]), was=was))
    return [first, second]


async def event_of(approval: Approval) -> str:
    """Return the event of a question."""
    return f"event-{approval.origin.nth}"


async def test_a_repeated_yes_is_not_for_the_next_question(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """A client that has lost the stream repeats its yes; the node has run and asks again."""
    _, second = await asked_twice(taking, ledger)
    run = await ledger.run(second.origin.run)
    with pytest.raises(Problem, match="Send the id of the event that asks") as refused:
        await taking.take(as_person(MARA), about(run), [yes()])
    assert (refused.value.status, refused.value.kind) == (403, "not-shown-in-full")
    assert (await ledger.approval(second.id)).state is State.PENDING
    await taking.take(as_person(MARA), about(run), [no()])
    assert (await ledger.approval(second.id)).state is State.REJECTED


@pytest.mark.parametrize(("event", "counts"), [("event-1", True), ("event-0", False)])
async def test_a_yes_may_name_the_event_that_asks(
    taking: AnswerHandler, ledger: Ledger, event: str, counts: bool
) -> None:
    """ADK's own page does: it tells the second question from the first."""
    taking = replace(taking, event_of=event_of)
    _, second = await asked_twice(taking, ledger)
    run = await ledger.run(second.origin.run)
    request = about(run).model_copy(update={"function_call_event_id": event})
    if counts:
        await taking.take(as_person(MARA), request, [yes()])
    else:
        with pytest.raises(Problem, match="may be the earlier one"):
            await taking.take(as_person(MARA), request, [yes()])
    state = (await ledger.approval(second.id)).state
    assert state is (State.APPROVED if counts else State.PENDING)


async def test_a_yes_after_another_message_needs_no_event(
    taking: AnswerHandler, decider: Decider, ledger: Ledger
) -> None:
    """A node asks under the same id in each run, and the message is newer than the earlier yes."""
    run = await decider.submit("finance", "again", user="riley", session="s")
    _, second = await asked_twice(taking, ledger, later=run)
    await taking.take(as_person(MARA), about(run), [yes()])
    assert (await ledger.approval(second.id)).state is State.APPROVED


async def test_answer_goes_to_the_latest_question_under_an_id(
    taking: AnswerHandler, ledger: Ledger
) -> None:
    """A node of a workflow asks under the same id each time it runs."""
    person = as_person(MARA)
    first, second = await asked_twice(taking, ledger)
    run = await ledger.run(first.origin.run)
    await taking.take(person, about(run), [no()])
    assert (await ledger.approval(second.id)).state is State.REJECTED
    gone = await ledger.run(run.id)
    # Its run has neither list any more.
    await ledger.commit(Change().put(gone.model_copy(update={"approvals": ()}), was=gone))
    with pytest.raises(Problem, match="already rejected"):
        await taking.take(person, about(run), [yes()])
