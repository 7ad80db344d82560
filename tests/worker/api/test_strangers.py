"""Agents of other authors, in a folder for `adk web`, through the API and by mail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from deciding import over
from signoff.core.approvals.events import What
from worker.api.client import Site, answer_body, events_of, site, words_of
from worker.office import ROOT

pytestmark = [pytest.mark.soak, pytest.mark.asyncio(loop_scope="module")]

STRANGERS = ROOT / "tests" / "worker" / "strangers"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def here(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Return a plant with agents that do not know Signoff."""
    async with site(tmp_path_factory.mktemp("site"), agents=[STRANGERS]) as made:
        yield made


async def talk(here: Site, app: str, text: str, *answers: object) -> list[dict[str, Any]]:
    """Send a message, answer each waiting call, and return the events of the last turn."""
    session = await here.session(app)
    events = await here.say(app, session, text)
    for answer in answers:
        (call,) = [
            part["functionCall"]
            for event in events
            for part in event.get("content", {}).get("parts", [])
            if part.get("functionCall", {}).get("id") in event.get("longRunningToolIds", [])
        ]
        body = answer_body(app, session, call["id"], answer)
        body["new_message"]["parts"][0]["function_response"]["name"] = call["name"]
        events = events_of(await here.http.post("/run_sse", json=body))
    return events


HOW = {
    "budget": {"hotel": 100, "flights": 20.5},
    "travellers": [{"name": "A", "adult": True}, {"name": "B", "adult": False}],
    "refundable": True,
    "note": "by the sea",
}


@pytest.mark.parametrize(
    ("app", "text", "answers", "words"),
    [
        ("expenses", "a small one", [], "{'paid': 50}"),
        ("expenses", "a large one", [{"confirmed": True}], "{'paid': 20000}"),
        (
            "expenses",
            "a large one",
            [{"confirmed": False, "payload": {"reason": "taxi?"}}],
            "taxi?",
        ),
        ("trip", "book Rome", [{"confirmed": True, "payload": HOW}], "by the sea"),
        ("trip", "book Rome", [{"confirmed": False}], "rejected"),
        ("shaky", "fine", [{"confirmed": True}], "{'done': 'fine'}"),
    ],
)
async def test_agent_written_for_adk_runs_and_is_answered_by_the_api(
    here: Site, app: str, text: str, answers: list[object], words: str
) -> None:
    """The app has a plugin, a sub-agent, a nested payload and callbacks."""
    assert words in words_of(await talk(here, app, text, *answers))


async def test_a_workflow_of_a_question_and_a_gate_goes_to_its_end(here: Site) -> None:
    """The order is exactly the answer."""
    events = await talk(here, "order_flow", "go", {"size": "M", "gift": True}, {"confirmed": True})
    assert "Ordered: M as a gift" in str(events)


@pytest.mark.parametrize(
    ("app", "text", "answers", "words"),
    [
        ("shaky", "before_agent", [], "the callback before the agent broke"),
        ("shaky", "after_tool", [{"confirmed": True}], "the callback after the tool broke"),
        ("shaky", "before_tool", [{"confirmed": True}], "the callback before the tool broke"),
        # ADK's own runner raises this for a tool that is a generator.
        ("trip", "watch Rome", [], "Output already set"),
    ],
)
async def test_tool_error_ends_the_run_and_is_reported(
    here: Site, app: str, text: str, answers: list[object], words: str
) -> None:
    """The next run of the same agent is not affected."""
    *_, told = await talk(here, app, text, *answers)
    assert words in told["error"]


async def test_calls_of_an_unmodified_agent_are_answered_by_mail(here: Site) -> None:
    """The same calls work without an API client."""
    values = (
        'approve\nbudget: {"hotel": 1, "flights": 2.5}\n'
        'travellers: [{"name": "A", "adult": true}]\nnote: late\nrefundable: yes'
    )
    answering = asyncio.create_task(
        here.plant.answer_everything(
            lambda mail: (
                values
                if "book" in str(mail["Subject"])
                else "approve\nsize: M"
                if "Answer needed" in str(mail["Subject"])
                else "approve"
            )
        )
    )
    decider = over(here.plant.parts.decisions)
    runs = [
        await decider.submit(app, text, user="user")
        for app, text in (
            ("expenses", "a large one"),
            ("trip", "book Rome"),
            ("order_flow", "go"),
            ("shaky", "fine"),
        )
    ]
    ends = await here.plant.ends([run.id for run in runs])
    answering.cancel()
    assert {ends[run.id].what for run in runs} == {What.COMPLETED}, ends
    words = [(await here.plant.parts.ledger.run(run.id)).text for run in runs]
    assert "20000" in words[0]
    assert "late" in words[1]
    assert "'fine'" in words[3]
