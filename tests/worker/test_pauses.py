"""Requests for input, nodes that ask, and long-running calls: each is asked and answered once."""

from __future__ import annotations

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.events import What
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Kind, Origin
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import PayloadError
from worker.office import AGENTS, MARA, Office
from worker.shapes import journal

pytestmark = [
    # ADK announces its experimental features by warning about them.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
]

both_apps = pytest.mark.parametrize("suffix", ["", "_resumable"], ids=["plain", "resumable"])


async def answer(office: Office, run: Run, reason: str = "", **values: JsonValue) -> Run:
    """Let Mara answer the only waiting question, and let the worker continue."""
    (approval,) = await office.ask(run)
    await office.decider.approve(
        approval.id, MARA, channel="cli", reason=reason, values=values or None
    )
    return await office.resume(run)


async def refuse(office: Office, run: Run, reason: str = "") -> Run:
    """Let Mara reject the only waiting question, and let the worker continue."""
    (approval,) = await office.ask(run)
    await office.decider.reject(approval.id, MARA, channel="cli", reason=reason)
    return await office.resume(run)


class TestInput:
    """`adk_request_input`."""

    @both_apps
    async def test_consecutive_questions_each_get_their_answer(
        self, office: Office, suffix: str
    ) -> None:
        """Each node gets exactly its answer, with the type of its schema."""
        run = await office.submit(f"forms{suffix}", "ship it")
        (first,) = await office.ledger.approvals(run.approvals)
        assert first.kind is Kind.INPUT
        assert first.call.name == "adk_request_input"
        assert first.call.args["message"] == "Where to?"
        assert first.call.args["payload"] == {"order": 17}
        assert first.template == {"street": "", "floor": 0, "country": ""}
        run = await answer(office, run, street="Storgata 1", country="NO")
        run = await answer(office, run)
        run = await answer(office, run, value=3)
        run = await answer(office, run, value="0042")
        assert run.state is RunState.COMPLETED
        assert run.text == "Shipped under 0042."
        assert office.executed() == [
            {"place": {"street": "Storgata 1", "floor": 0, "country": "NO"}},
            {"fragile": True},
            {"count": 3},
            {"code": "0042"},
        ]
        assert (await office.ledger.approval(first.id)).handoff is Handoff.RESUMED
        await audit.verify(office.ledger.store)

    async def test_a_no_to_a_question_for_yes_or_no_is_an_answer(self, office: Office) -> None:
        """The workflow continues with false."""
        run = await office.submit("forms", "ship it")
        run = await answer(office, run, street="x", country="SE")
        run = await refuse(office, run, "it is a stone")
        assert run.state is RunState.PAUSED
        assert office.executed()[-1] == {"fragile": False}

    async def test_rejection_of_a_question_ends_the_run_with_a_reason(self, office: Office) -> None:
        """The workflow gets no false value, and the run says who ended it and why."""
        run = await office.submit("forms", "ship it")
        run = await refuse(office, run, "ask the customer")
        assert run.state is RunState.FAILED
        assert 'input ("Where to?") was rejected by the approver: ask the customer' in run.problem
        assert office.executed() == []
        (approval,) = await office.ledger.approvals(run.approvals)
        assert approval.handoff is Handoff.FAILED

    async def test_question_timeout_ends_the_run(self, office: Office) -> None:
        """A timeout differs from a rejection."""
        run = await office.submit("forms", "ship it")
        (approval,) = await office.ask(run)
        office.pass_time(25 * 3600)
        await office.decider.time_out(approval.id)
        run = await office.resume(run)
        assert run.state is RunState.FAILED
        assert "was not answered in time" in run.problem

    async def test_answer_that_does_not_fit_the_schema_is_refused(self, office: Office) -> None:
        """The error has the key, the value and an example; the question stays open."""
        run = await office.submit("forms", "ship it")
        (approval,) = await office.ask(run)
        with pytest.raises(PayloadError) as raised:
            await office.decider.approve(
                approval.id, MARA, channel="cli", values={"street": "x", "country": "DE"}
            )
        assert raised.value.key == "country"
        assert raised.value.read == "DE"
        assert raised.value.example == "country: NO"
        assert (await office.ledger.approval(approval.id)).state is State.PENDING

    async def test_second_run_may_reuse_an_interrupt_id(self, office: Office) -> None:
        """A fixed interrupt id is the same in every run; each question has its own approval."""
        seen = set()
        for _ in range(2):
            run = await office.decider.submit(
                "forms", "ship", user="riley@example.com", session="s"
            )
            await office.executor.drain(stages.run("forms"))
            run = await answer(office, await office.ledger.run(run.id), street="x", country="NO")
            run = await answer(office, run)
            (approval,) = await office.ledger.approvals(run.approvals)
            assert approval.origin.confirmation == "count"
            seen.add(approval.id)
            run = await answer(office, run, value=5)
            run = await answer(office, run, value="c")
            assert run.state is RunState.COMPLETED
        assert len(seen) == 2

    async def test_answer_never_goes_to_a_later_question_of_the_same_id(
        self, office: Office
    ) -> None:
        """Another run in the session asks with the id meanwhile: the older answer ends."""
        runs = []
        for _ in range(2):
            run = await office.decider.submit(
                "forms", "ship", user="riley@example.com", session="s"
            )
            await office.executor.drain(stages.run("forms"))
            run = await answer(office, await office.ledger.run(run.id), street="x", country="NO")
            runs.append(await answer(office, run))
        older = await answer(office, runs[0], value=5)
        assert older.state is RunState.FAILED
        assert "was put again since" in older.problem
        assert {"count": 5} not in office.executed()
        newer = await answer(office, runs[1], value=6)
        assert newer.state is RunState.PAUSED

    @both_apps
    async def test_input_and_gated_call_of_one_pause_wait_for_both_answers(
        self, office: Office, suffix: str
    ) -> None:
        """Both kinds belong to one pause, so both have to be answered first."""
        run = await office.submit(f"beside{suffix}", "go")
        asked = {one.kind: one for one in await office.ask(run)}
        assert set(asked) == {Kind.INPUT, Kind.CONFIRMATION}
        await office.decider.approve(
            asked[Kind.INPUT].id, MARA, channel="cli", values={"value": 4711}
        )
        run = await office.resume(run)
        assert run.state is RunState.PAUSED
        assert office.executed() == []
        await office.decider.approve(asked[Kind.CONFIRMATION].id, MARA, channel="cli")
        run = await office.resume(run)
        assert run.state is RunState.COMPLETED
        assert [line for line in office.executed() if "paid" in line] == [{"paid": "A"}]
        assert "4711" in run.text

    async def test_a_model_that_asks_is_answered(self, office: Office) -> None:
        """The decision fills `approved`, and the person's text fills `comment`."""
        run = await office.submit("asks_model", "go")
        run = await refuse(office, run, "not today")
        assert run.state is RunState.COMPLETED
        assert '"approved": false' in run.text
        assert '"comment": "not today"' in run.text

    async def test_call_answered_by_another_user_is_not_answered_again(
        self, office: Office
    ) -> None:
        """Another user answers in `adk web`: the run ends and says so."""
        run = await office.submit("asks_input", "go")
        session = await office.session(run)
        (approval,) = await office.ledger.approvals(run.approvals)
        await office.apps.sessions.append_event(session, reply_of_somebody(approval.origin))
        run = await answer(office, run, value="mine")
        assert run.state is RunState.FAILED
        assert "somebody else has answered" in run.problem


def reply_of_somebody(origin: Origin) -> Event:
    """Return the event with which another user answers a request for input."""
    return Event(
        author="user",
        invocation_id=origin.invocation,
        content=types.Content(
            role="user",
            parts=[
                types.Part(
                    function_response=types.FunctionResponse(
                        id=origin.confirmation,
                        name="adk_request_input",
                        response={"result": "theirs"},
                    )
                )
            ],
        ),
    )


class TestNodes:
    """Nodes of a workflow that ask whether they may run."""

    @both_apps
    async def test_nodes_are_confirmed_like_tools(self, office: Office, suffix: str) -> None:
        """The card shows the node and its arguments; each runs once after its approval."""
        run = await office.submit(f"nodes{suffix}", "go")
        (first,) = await office.ledger.approvals(run.approvals)
        assert (first.kind, first.call.name) == (Kind.CONFIRMATION, "transfer")
        run = await answer(office, run)
        (second,) = await office.ledger.approvals(run.approvals)
        assert (second.call.name, second.call.args) == ("tell", {"to": "A"})
        run = await answer(office, run)
        assert run.state is RunState.COMPLETED
        assert office.executed() == [{"transferred": 50}, {"told": "A"}]
        fresh = [await office.ledger.approval(one.id) for one in (first, second)]
        assert [(one.handoff, one.starts) for one in fresh] == [(Handoff.RESUMED, 1)] * 2
        await audit.verify(office.ledger.store)

    @both_apps
    async def test_a_rejected_node_does_not_run(self, office: Office, suffix: str) -> None:
        """ADK passes its own text to the next node; the reason is in the session's state."""
        run = await office.submit(f"nodes{suffix}", "go")
        run = await refuse(office, run, "no money")
        (second,) = await office.ledger.approvals(run.approvals)
        assert second.call.args == {"error": "This tool call is rejected."}
        session = await office.session(run)
        assert "Reason: no money" in session.state["signoff_refusal"]
        await refuse(office, run)
        assert office.executed() == []

    async def test_a_node_that_raises_has_run(self, office: Office) -> None:
        """The run fails with the node's error, and the approval is used up."""
        run = await office.submit("raising_node", "go")
        run = await answer(office, run)
        assert run.state is RunState.FAILED
        assert "the bank hung up" in run.problem
        assert office.executed() == [{"transferred": 50}]
        (approval,) = await office.ledger.approvals(run.approvals)
        assert approval.handoff is Handoff.FAILED

    async def test_node_of_the_next_run_needs_its_own_approval(self, office: Office) -> None:
        """Its id is its place in the workflow, which is the same in every run."""
        first = await office.submit("nodes", "go")
        first = await answer(office, first)
        again = await office.decider.submit(
            "nodes", "go", user="riley@example.com", session=first.session
        )
        await office.executor.drain(stages.run("nodes"))
        again = await office.ledger.run(again.id)
        (one,) = await office.ledger.approvals(again.approvals)
        assert one.origin.nth == 1
        again = await answer(office, again)
        assert office.executed() == [{"transferred": 50}, {"transferred": 50}]


RULES = (
    LongRunning(tool="ask_for_approval", when="result.status == 'pending'"),
    LongRunning(
        tool="wait_for_it",
        payload={"cap": 0},
        response="{'ok': approved, 'why': reason, 'cap': approved ? values.cap : 0, 'by': by}",
    ),
)


@pytest.mark.parametrize("long_running", [RULES], ids=["opted-in"])
class TestLongRunning:
    """`LongRunningFunctionTool` calls that wait for an approval."""

    @both_apps
    async def test_the_decision_is_the_final_result(self, office: Office, suffix: str) -> None:
        """The tool's result is kept, and the decision is merged into it."""
        run = await office.submit(f"ticket{suffix}", "ask:50")
        assert run.state is RunState.PAUSED
        (approval,) = await office.ledger.approvals(run.approvals)
        assert (approval.kind, approval.call.args) == (Kind.LONG_RUNNING, {"amount": 50.0})
        assert "t-17" in approval.hint
        run = await answer(office, run, "fine by me")
        assert run.state is RunState.COMPLETED
        assert run.text == ('{"status": "approved", "ticket": "t-17", "reason": "fine by me"}')
        assert office.executed() == [{"ticket": 50.0}]

    @both_apps
    async def test_an_expression_builds_the_result(self, office: Office, suffix: str) -> None:
        """A tool without a first result gets values that the approver entered."""
        run = await office.submit(f"ticket{suffix}", "wait:50")
        run = await answer(office, run, cap=40)
        assert run.state is RunState.COMPLETED
        assert '"cap": 40' in run.text
        assert '"by": "mara"' in run.text

    @both_apps
    async def test_a_rejection_and_an_edit_reach_the_model(
        self, office: Office, suffix: str
    ) -> None:
        """Other values than the arguments are a rejection with a proposal."""
        run = await office.submit(f"ticket{suffix}", "ask:50")
        run = await answer(office, run, "too much", amount=20.0)
        assert '"status": "rejected"' in run.text
        assert '"proposal"' in run.text
        assert '"reason": "too much"' in run.text

    async def test_long_running_call_whose_condition_is_false_stays_open(
        self, office: Office
    ) -> None:
        """`when` uses the tool's result; the run reports the open call."""
        run = await office.submit("ticket", "ask:5")
        assert run.state is RunState.COMPLETED

    @both_apps
    async def test_long_running_call_and_gated_call_are_both_asked_about(
        self, office: Office, suffix: str
    ) -> None:
        """Both are asked about, and both answers are given together."""
        run = await office.submit(f"ticket{suffix}", "ask:50 pay:A")
        kinds = {one.kind for one in await office.ledger.approvals(run.approvals)}
        assert kinds == {Kind.LONG_RUNNING, Kind.CONFIRMATION}
        await office.approve(run)
        run = await office.resume(run)
        assert run.state is RunState.COMPLETED
        assert {"paid": "A"} in office.executed()
        assert '"status": "approved"' in run.text

    @both_apps
    async def test_tool_that_needs_a_confirmation_waits_only_once_it_has_run(
        self, office: Office, monkeypatch: pytest.MonkeyPatch, suffix: str
    ) -> None:
        """The first approval lets it run, and the second one is its final result."""
        run = await self.asked_first(office, monkeypatch, suffix)
        assert office.executed() == []
        run = await answer(office, run)
        assert run.state is RunState.PAUSED
        (approval,) = await office.ledger.approvals(run.waiting)
        assert approval.kind is Kind.LONG_RUNNING
        assert "t-17" in approval.hint
        assert office.executed() == [{"ticket": 50.0}]
        run = await answer(office, run, "fine by me")
        assert run.state is RunState.COMPLETED, run.problem
        assert '"ticket": "t-17", "reason": "fine by me"' in run.text
        assert office.executed() == [{"ticket": 50.0}]

    @both_apps
    async def test_such_a_tool_does_not_wait_after_a_rejection(
        self, office: Office, monkeypatch: pytest.MonkeyPatch, suffix: str
    ) -> None:
        """The tool has not run, so nobody has to give its final result."""
        run = await self.asked_first(office, monkeypatch, suffix)
        run = await refuse(office, run, "too much")
        assert run.state is RunState.COMPLETED, run.problem
        assert office.executed() == []

    async def asked_first(self, office: Office, patch: pytest.MonkeyPatch, suffix: str) -> Run:
        """Return a run that waits for the confirmation of a long-running call."""
        agent = office.apps.runner(f"ticket{suffix}").agent
        assert isinstance(agent, LlmAgent)

        def ask_for_approval(amount: float, tool_context: ToolContext) -> dict[str, str]:
            if tool_context.tool_confirmation is None:
                tool_context.request_confirmation(hint="May it ask?")
                return {"status": "pending"}
            journal({"ticket": amount})
            return {"status": "pending", "ticket": "t-17"}

        patch.setattr(agent, "tools", [LongRunningFunctionTool(ask_for_approval)])
        run = await office.submit(f"ticket{suffix}", "ask:50")
        (approval,) = await office.ledger.approvals(run.waiting)
        assert approval.kind is Kind.CONFIRMATION
        return run


@both_apps
async def test_long_running_call_without_a_rule_stays_open(office: Office, suffix: str) -> None:
    """As in ADK, nobody is asked; the run ends, and its last entry names the open call."""
    run = await office.submit(f"ticket{suffix}", "ask:50")
    assert run.state is RunState.COMPLETED
    ended = [one for one in await office.ledger.history(run.id) if one.what is What.COMPLETED]
    assert "left a long-running call open: ask_for_approval()" in ended[0].why
