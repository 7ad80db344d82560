"""Which events a client gets for its answers."""

from __future__ import annotations

from typing import cast

import pytest
from starlette.requests import Request

from builders import MARA, paused
from deciding import Decider
from signoff.broker import live
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.core.policies.policy import Resume
from signoff.worker.adk_api.answering import AnsweredTurn, AnswerHandler
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.streaming import TurnResponses
from worker.api.test_answering import about, as_person, yes


async def two_calls(ledger: Ledger) -> tuple[Run, list[Approval]]:
    """Return a run that waits for two calls, and resumes with each answer."""
    run, opened = await paused(ledger, siblings=2)
    for was in opened:
        assert was.terms is not None
        terms = was.terms.model_copy(update={"resume": Resume.EACH})
        await ledger.commit(Change().put(was.model_copy(update={"terms": terms}), was=was))
    return run, await ledger.approvals(run.approvals)


async def shown(ledger: Ledger, run: Run, name: str) -> None:
    """Show an event of the present turn of a run."""
    await live.publish(ledger, await ledger.run(run.id), name, f'{{"id": "{name}"}}')


async def collected(ledger: Ledger, turn: AnsweredTurn) -> str:
    """Return the events that a client of `/run` gets."""
    request = cast("Request", None)  # not asked while there are events
    return bytes((await TurnResponses(ledger).collect(turn, request)).body).decode()


@pytest.mark.parametrize("together", [True, False])
async def test_an_answer_to_a_run_that_resumes_already_is_followed_into_its_own_turn(
    decider: Decider, ledger: Ledger, together: bool
) -> None:
    """The worker has begun with the first answer, and resumes again with the second."""
    answering = AnswerHandler(decider, ledger)
    run, (_, second) = await two_calls(ledger)
    answers = [yes("adk-0"), yes("adk-1")]
    if together:
        turn = await answering.take(as_person(MARA), about(run), answers)
    else:
        await answering.take(as_person(MARA), about(run), answers[:1])
        turn = await answering.take(as_person(MARA), about(run), answers[1:])
    await shown(ledger, run, "first")
    was = await ledger.run(run.id)
    await ledger.commit(Change().put(was.answered_again([second.id], []), was=was))
    await shown(ledger, run, "second")
    was = await ledger.run(run.id)
    ended, events = was.completed("Done.", now=await ledger.now())
    await ledger.commit(Change().put(ended, was=was).note(events))
    assert await collected(ledger, turn) == '[{"id":"first"},{"id":"second"}]'


async def test_a_turn_that_carries_no_answer_of_the_client_is_not_followed(
    decider: Decider, ledger: Ledger
) -> None:
    """A later failure is not the failure of this client's turn."""
    run, (_, second) = await two_calls(ledger)
    turn = await AnswerHandler(decider, ledger).take(as_person(MARA), about(run), [yes("adk-0")])
    await shown(ledger, run, "first")
    was = await ledger.run(run.id)
    await ledger.commit(Change().put(was.paused([second.id]), was=was))
    await decider.approve(second.id, MARA, channel="email")
    await shown(ledger, run, "second")
    was = await ledger.run(run.id)
    failed, events = was.failed("It broke.", now=await ledger.now())
    await ledger.commit(Change().put(failed, was=was).note(events))
    assert await collected(ledger, turn) == '[{"id":"first"}]'
    late = AnsweredTurn(run.id, 2, answered=frozenset({second.id}))
    with pytest.raises(Problem, match="It broke"):
        await collected(ledger, late)
