"""LangGraph's own features: interrupts of every form, and the code after them."""

from __future__ import annotations

import importlib
import json
from importlib.util import find_spec
from typing import Any

import pytest

from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.broker.sessions import Name, SessionRecords
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import Edits, InDoubt
from signoff.worker.frameworks.sessions import KEY
from worker.frameworks.script import Calls, paying, plan
from worker.frameworks.test_contract import (
    Machine,
    approvals_of,
    forge_values,
    here,
    resume_again,
)
from worker.office import MARA

__all__ = ["here"]

pytestmark = pytest.mark.skipif(
    not find_spec("langchain"), reason="langgraph and langchain are not installed"
)

GRAPH, CALLS, LANGCHAIN = "graph_office", "calls_office", "langchain_office"
TEAM = "team_office"


async def test_a_request_of_agent_inbox(here: Machine) -> None:
    """It is asked about as its action, and the code after it runs once."""
    run = await here.submit(GRAPH, json.dumps({"to": "anna"}))
    assert run.state is RunState.PAUSED, run.problem
    (waiting,) = await here.ledger.approvals(run.waiting)
    assert (waiting.call.name, waiting.call.args) == ("pay", {"to": "anna", "amount": 20})
    assert (waiting.kind, waiting.hint) == (Kind.CONFIRMATION, "A payment")
    await here.approve(run)
    await resume_again(here, await here.ledger.run(run.id), 20)
    assert here.paid() == {"anna": 1}
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    (approval,) = await approvals_of(here, run)
    assert approval.handoff is Handoff.RESUMED


async def test_a_node_that_asks_as_the_middleware_does(here: Machine) -> None:
    """No model has made its call, so the code of the node counts as the call, and runs once."""
    run = await here.submit(GRAPH, json.dumps({"batch": "anna"}))
    await here.approve(run)
    await resume_again(here, await here.ledger.run(run.id), 5)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1}
    assert [one.starts for one in await approvals_of(here, run)] == [1]


async def test_the_reason_reaches_the_graph(here: Machine) -> None:
    """If the request allows a response, the rejection is one."""
    run = await here.submit(GRAPH, json.dumps({"to": "anna"}))
    (waiting,) = await here.ask(run)
    await here.decider.reject(waiting.id, MARA, channel="cli", reason="over budget")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert "over budget" in run.text
    assert not here.executed()


async def test_a_request_that_cannot_be_rejected(here: Machine) -> None:
    """The run ends with the reason, and no code runs."""
    wish = {"to": "anna", "config": {"allow_accept": True}}
    run = await here.submit(GRAPH, json.dumps(wish))
    (waiting,) = await here.ask(run)
    await here.decider.reject(waiting.id, MARA, channel="cli", reason="over budget")
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert "over budget" in run.problem
    assert not here.executed()


async def test_an_edit_of_a_request(here: Machine) -> None:
    """If policy and request allow it, the graph gets the changed action."""
    run = await here.submit(GRAPH, json.dumps({"to": "anna"}))
    (asked,) = await here.ask(run, edits=Edits.APPROVE)
    await here.decider.approve(asked.id, MARA, channel="cli", values={"amount": 5})
    run = await here.resume(run)
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.executed() == [{"paid": "anna", "amount": 5}]


async def test_code_that_was_cut_off_is_in_doubt(here: Machine) -> None:
    """Code after an interrupt that a worker began and did not finish is asked about."""
    run = await here.submit(GRAPH, json.dumps({"to": "anna"}))
    await here.approve(run, InDoubt.ASK)
    (approval,) = await approvals_of(here, run)
    started, events = approval.hand_on(Handoff.STARTED, now=here.clock.now())
    await here.ledger.commit(Change().put(started, was=approval).note(events))
    run = await here.resume(run)
    assert run.state is RunState.PAUSED, run.problem
    (asked,) = await here.ledger.approvals(run.waiting)
    assert "may or may not have happened" in asked.hint
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1}


async def test_code_that_raises_is_not_retried(here: Machine) -> None:
    """The graph's retry policy, and the worker for a passing error, do not run it again."""
    run = await here.submit(GRAPH, json.dumps({"to": "anna", "error": "the bank hung up"}))
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.ANSWERED
    here.pass_time()
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert here.paid() == {"anna": 1}
    (approval,) = await approvals_of(here, run)
    assert "the bank hung up" in approval.result


async def test_calls_of_agents_side_by_side_are_guarded(here: Machine) -> None:
    """Each interrupt asks about the calls of its own agent, and each call runs by its approval."""
    run = await here.submit("pair_office", plan(paying("anna")))
    asked = await here.ask(run)
    assert sorted(str(one.call.args["to"]) for one in asked) == ["anna", "anna too"]
    for one in asked:
        decide = here.decider.approve if one.call.args["to"] == "anna" else here.decider.reject
        await decide(one.id, MARA, channel="cli", reason="fine")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1}
    handoffs = {str(one.call.args["to"]): one.handoff for one in await approvals_of(here, run)}
    assert handoffs == {"anna": Handoff.RESUMED, "anna too": Handoff.RESUMED}


@pytest.mark.parametrize("app", [CALLS, "pair_office"])
@pytest.mark.parametrize("beside", [paying("ben"), [("note", {"text": "milk"})]])
async def test_calls_of_one_message_with_one_id_are_refused(
    here: Machine, monkeypatch: pytest.MonkeyPatch, app: str, beside: Any
) -> None:
    """Their approvals, arguments and results could not be told apart: nothing runs."""
    model = importlib.import_module("worker.frameworks.agents.langchain_office.agent").Follower
    generate = model._generate

    def with_one_id(self: Any, *args: Any, **more: Any) -> Any:
        made = generate(self, *args, **more)
        for call in made.generations[0].message.tool_calls:
            call["id"] = "call_0"
        return made

    monkeypatch.setattr(model, "_generate", with_one_id)
    run = await here.submit(app, plan([*paying("anna"), *beside]))
    assert run.state is RunState.FAILED
    assert "the same id" in run.problem
    assert here.paid() == {}


async def test_custom_interrupt_is_a_question(here: Machine) -> None:
    """Its answer is what interrupt() returns."""
    run = await here.submit(GRAPH, json.dumps({"question": "How many?"}))
    assert run.state is RunState.PAUSED, run.problem
    (asked,) = await here.ask(run)
    assert (asked.kind, asked.call.args["message"]) == (Kind.INPUT, "How many?")
    await here.decider.approve(asked.id, MARA, channel="cli", reason="twelve")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert "twelve" in run.text
    assert len(here.executed()) == 1


async def test_parallel_interrupts_are_decided_separately(here: Machine) -> None:
    """Parallel interrupts are decided separately, also beside a question."""
    steps = plan([*paying("anna", "ben"), ("ask", {"question": "Why?"}), ("note", {"text": "x"})])
    run = await here.submit(CALLS, steps)
    asked = {str(one.call.args.get("to")): one for one in await here.ask(run)}
    assert len(asked) == 3
    await here.decider.reject(asked["anna"].id, MARA, channel="cli", reason="too late")
    await here.decider.approve(asked["None"].id, MARA, channel="cli", reason="because")
    await here.decider.approve(asked["ben"].id, MARA, channel="cli")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"ben": 1}
    assert "too late" in run.text
    assert "because" in run.text


@pytest.mark.parametrize("app", [LANGCHAIN, CALLS])
@pytest.mark.parametrize("approve", [True, False])
async def test_later_call_may_reuse_the_id_of_an_earlier_one(
    here: Machine, app: str, approve: bool
) -> None:
    """It runs, and gets neither the result nor the rejection of the earlier call."""
    steps = plan(paying("anna"), paying("ben"), [("note", {"text": "milk"})])
    run = await here.submit(app, steps)
    while run.state is RunState.PAUSED:
        (asked,) = await here.ask(run)
        decide = here.decider.approve if approve else here.decider.reject
        await decide(asked.id, MARA, channel="cli", reason="because")
        run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert run.text.endswith("| noted milk")
    assert here.paid() == ({"anna": 1, "ben": 1} if approve else {})


@pytest.mark.parametrize("to", ["ben", "anna"])
async def test_calls_of_agents_side_by_side_go_through_the_gate(here: Machine, to: str) -> None:
    """Each call is matched with its own agent's, even if two agents make the same call."""
    steps = {"one": [paying("anna")], "two": [paying(to)]}
    run = await here.submit(TEAM, json.dumps(steps))
    asked = await here.ask(run)
    assert sorted(one.call.id for one in asked) == ["one_1_call_0", "two_1_call_0"]
    await here.decider.approve(asked[0].id, MARA, channel="cli")
    await here.decider.reject(asked[1].id, MARA, channel="cli", reason="no")
    await resume_again(here, await here.ledger.run(run.id), 5)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {str(asked[0].call.args["to"]): 1}
    assert [one.starts for one in await approvals_of(here, run)] == [1, 0]


async def test_the_arguments_that_run_are_shown(here: Machine) -> None:
    """A middleware that shows others cannot have another call approved, or run outside it."""
    run = await here.submit("vague_office", plan(paying("anna", "ben")))
    asked = await here.ask(run)
    assert [one.call.args["amount"] for one in asked] == [20, 20]
    await here.approve(run)
    await resume_again(here, await here.ledger.run(run.id), 5)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1, "ben": 1}


async def test_approved_tool_that_asks_a_question_itself(here: Machine) -> None:
    """Nobody is asked in vain: the run ends, and the error says why."""
    run = await here.submit(CALLS, plan([("probe", {"question": "Sure?"})]))
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert "probe() has asked a question after it was approved" in run.problem
    assert here.executed() == [{"probed": "Sure?"}]
    (approval,) = await approvals_of(here, run)
    assert approval.handoff is Handoff.FAILED


async def test_thread_accepts_one_waiting_run(here: Machine) -> None:
    """Another run of the session is refused with a clear message."""
    for state in (RunState.PAUSED, RunState.FAILED):
        run = await here.decider.submit(
            LANGCHAIN, plan(paying("anna")), user="riley@example.com", session="one"
        )
        await here.executor.drain(stages.run(LANGCHAIN))
        run = await here.ledger.run(run.id)
        assert run.state is state
    assert "still waits for approvals" in run.problem


async def test_a_thread_is_free_again_when_its_run_has_failed(here: Machine) -> None:
    """A run that failed while it was resumed no longer blocks the thread."""
    for message, state in (
        (json.dumps({"to": "anna", "config": {"allow_accept": True}}), RunState.FAILED),
        (json.dumps({"to": "ben"}), RunState.COMPLETED),
    ):
        run = await here.decider.submit(GRAPH, message, user="riley@example.com", session="one")
        await here.executor.drain(stages.run(GRAPH))
        run = await here.ledger.run(run.id)
        assert run.state is RunState.PAUSED, run.problem
        if state is RunState.FAILED:
            (waiting,) = await here.ask(run)
            await here.decider.reject(waiting.id, MARA, channel="cli", reason="no")
        else:
            await here.approve(run)
        run = await here.resume(run)
        assert run.state is state, run.problem


async def test_a_changed_checkpoint_is_not_gone_on_from(here: Machine) -> None:
    """A checkpoint determines the next step, so a changed one is refused completely."""
    run = await here.submit(LANGCHAIN, plan(paying("anna"), paying("ben")))
    await here.approve(run)
    # The model's plan, not the waiting call.
    await forge_values(here, run, "ben", "eve")
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert "was changed by somebody else" in run.problem
    assert not here.executed()


DRAFTS = "drafts_office"
FORMS = ["inbox", "batch", "question"]


async def approve_plainly(here: Machine, run: Run) -> Run:
    """Let Mara approve what waits, and resume the run."""
    await here.approve(run)
    return await here.resume(run)


@pytest.mark.parametrize("form", FORMS)
async def test_code_that_asks_something_else_when_it_runs_again(here: Machine, form: str) -> None:
    """LangGraph gives it the answer to the first question: what was approved is not what it did."""
    run = await here.submit(DRAFTS, json.dumps({"form": form}))
    run = await approve_plainly(here, run)
    assert run.state is RunState.FAILED
    assert "asked something else" in run.problem
    assert not here.executed()


@pytest.mark.parametrize("form", FORMS)
async def test_code_that_asks_the_same_when_it_runs_again(here: Machine, form: str) -> None:
    """It goes on, also if only a description differs, and after several interrupts."""
    wish = {"form": form, "to": "anna", "then": ["ben"]}
    run = await here.submit(DRAFTS, json.dumps(wish))
    while run.state is RunState.PAUSED:
        run = await approve_plainly(here, run)
    assert run.state is RunState.COMPLETED, run.problem
    assert run.pause == 2
    assert here.paid() == {"anna": 1, "ben": 1}


async def test_an_earlier_question_that_has_changed(here: Machine) -> None:
    """Each of the answers of a node belongs to what was asked, not only the last one."""
    module = importlib.import_module("drafts_office.agent")
    run = await here.submit(DRAFTS, json.dumps({"form": "inbox", "to": "anna", "then": ["ben"]}))
    run = await approve_plainly(here, run)
    assert run.state is RunState.PAUSED, run.problem
    await here.approve(run)
    plain = module.action
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "action", lambda to: plain(to.replace("anna", "eve")))
        run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert "asked something else" in run.problem
    assert not here.executed()


@pytest.mark.parametrize(
    "words", [{"reason": "over budget"}, {"values": {"value": "no, over budget"}}]
)
async def test_a_plain_interrupt_that_is_rejected(here: Machine, words: dict[str, Any]) -> None:
    """Any word is a yes for `if interrupt(…):`, so the run ends if no rule says what a no is."""
    run = await here.submit(DRAFTS, json.dumps({"form": "question", "to": "anna"}))
    (asked,) = await here.ask(run)
    await here.decider.reject(asked.id, MARA, channel="cli", **words)
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert "over budget" in run.problem
    assert "[[inputs]]" in run.problem
    assert not here.executed()


@pytest.mark.parametrize("inputs", [[InputRule(yes=True, no=False)]])
async def test_a_rule_says_what_a_no_is(here: Machine, inputs: list[InputRule]) -> None:
    """The graph gets the value of the rule, or one that means no anyway."""
    assert inputs
    answers: list[tuple[bool, dict[str, Any]]] = [
        (True, {"reason": "because"}),
        (False, {"reason": "because"}),
        (False, {"values": {"value": "no"}}),
        (False, {"values": {"value": False}}),
    ]
    for number, (approve, words) in enumerate(answers):
        run = await here.submit(DRAFTS, json.dumps({"form": "question", "to": f"p{number}"}))
        (asked,) = await here.ask(run)
        decide = here.decider.approve if approve else here.decider.reject
        await decide(asked.id, MARA, channel="cli", **words)
        run = await here.resume(run)
        assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"p0": 1}


async def test_a_breakpoint_asks_nobody(here: Machine) -> None:
    """The run did not end there, so it is not reported as completed."""
    run = await here.submit("breakpoint_office", plan(paying("anna")))
    assert run.state is RunState.FAILED
    assert "has stopped at tools" in run.problem
    assert not here.executed()


async def test_an_answer_that_the_graph_does_not_take(here: Machine) -> None:
    """An agent without a checkpointer begins anew: nobody is asked the same again and again."""
    run = await here.submit("stateless_office", plan(paying("anna")))
    run = await approve_plainly(here, run)
    assert run.state is RunState.FAILED
    assert "has not taken" in run.problem
    assert not here.executed()


async def test_tools_of_one_node_that_ask_side_by_side_are_refused(here: Machine) -> None:
    """LangGraph gives answers by number: one paid by the answer of another, or was paid twice."""
    calls: Calls = [("ask_and_pay", {"to": "anna"}), ("ask_and_pay", {"to": "ben"})]
    run = await here.submit("side_office", plan(calls))
    assert run.state is RunState.FAILED
    assert "side by side" in run.problem
    assert not here.executed()


async def test_a_tool_that_asks_beside_others(here: Machine) -> None:
    """It is asked about, and pays once."""
    calls: Calls = [("ask_and_pay", {"to": "anna"}), ("note", {"text": "milk"})]
    run = await here.submit("side_office", plan(calls))
    run = await approve_plainly(here, run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1}


DEEP = "deep_office"


def handed(*steps: Calls) -> Calls:
    """Return the call that hands these steps to another agent."""
    return [("task", {"steps": plan(*steps)})]


async def asked_for(here: Machine, run: Run) -> list[list[str]]:
    """Approve all that a run asks for; return whom to pay, pause by pause."""
    pauses: list[list[str]] = []
    while run.state is RunState.PAUSED and len(pauses) < 10:
        pauses.append(sorted(str(one.call.args["to"]) for one in await here.ask(run)))
        run = await approve_plainly(here, run)
    assert run.state is RunState.COMPLETED, run.problem
    return pauses


@pytest.mark.parametrize("before", range(4))
async def test_a_graph_that_stores_only_changes(here: Machine, before: int) -> None:
    """Calls that wait are found, and nothing is lost, wherever its last complete state is."""
    notes: list[Calls] = [[("note", {"text": str(one)})] for one in range(before)]
    run = await here.submit(DEEP, plan(*notes, paying("anna"), *notes, paying("ben")))
    assert await asked_for(here, run) == [["anna"], ["ben"]]
    assert here.paid() == {"anna": 1, "ben": 1}
    assert (await here.ledger.run(run.id)).text.count("noted") == 2 * before


async def test_a_session_of_a_graph_that_stores_only_changes(here: Machine) -> None:
    """Each run goes on from the messages of the earlier ones."""
    for number in range(4):
        run = await here.decider.submit(
            DEEP, plan(handed(paying(f"p{number}"))), user="riley@example.com", session="one"
        )
        await here.executor.drain(stages.run(DEEP))
        assert await asked_for(here, await here.ledger.run(run.id)) == [[f"p{number}"]]
    assert here.paid() == {f"p{number}": 1 for number in range(4)}


async def test_a_task_of_another_agent(here: Machine) -> None:
    """Its calls are asked about and run once; the last word is that of the agent who gave it."""
    note: Calls = [("note", {"text": "a"})]
    run = await here.submit(DEEP, plan(handed(note, paying("anna"), note), paying("ben")))
    assert await asked_for(here, run) == [["anna"], ["ben"]]
    assert here.paid() == {"anna": 1, "ben": 1}
    assert [one for one in here.executed() if "noted" in one] == [{"noted": "a"}] * 2
    text = (await here.ledger.run(run.id)).text
    assert text.startswith("I was told: the clerk said: I was told: noted a")
    assert '"paid": "ben"' in text


async def test_a_task_that_has_ended_is_not_asked_about_again(here: Machine) -> None:
    """While another task of the same message asks once more, its own answer stays given."""
    beside = [*handed(paying("anna"), paying("ben")), *handed(paying("cleo"))]
    run = await here.submit(DEEP, plan(beside))
    assert await asked_for(here, run) == [["anna", "cleo"], ["ben"]]
    assert here.paid() == {"anna": 1, "ben": 1, "cleo": 1}


async def test_the_state_of_a_task_that_has_ended_is_not_kept(here: Machine) -> None:
    """A session with many tasks would grow by the messages of each."""
    run = await here.submit(DEEP, plan(handed([("note", {"text": "of the clerk alone"})])))
    assert run.state is RunState.COMPLETED, run.problem
    found = await SessionRecords(here.ledger.store).read(Name(run.app, run.user, run.session))
    assert found is not None
    checkpoints, *_ = json.loads(found.states.session[KEY])["history"]
    assert {namespace for namespace, *_ in checkpoints} == {""}
