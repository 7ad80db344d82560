"""Workers that die in code before its first stop: its calls are not repeated."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import pytest

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import LedgerError, LedgerUnavailable
from signoff.core.policies.policy import InDoubt
from signoff.worker.ces.rules import Rules
from worker.ces.shop import KEY, another_worker, answer, waiting
from worker.office import MARA, Office
from worker.test_taken_up import Fuse, lay, work_until_death

TWICE = """
def twice() -> dict:
    first = tools.note({"what": "a"}).json()["noted"]
    seen = get_variable("noted")
    second = tools.note({"what": "b"}).json()["noted"]
    return {"first": first, "seen": seen, "second": second, "paid": tools.pay({"who": "c"}).json()}
"""
ENDED = "{'first': 'a', 'seen': 'a', 'second': 'b', 'paid': {'paid': 'c'}}"

pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


def noted(office: Office) -> list[str]:
    """Return the effects in order."""
    return [str(one["what"]) for one in office.executed()]


async def die(
    office: Office, monkeypatch: pytest.MonkeyPatch, stage: str, step: int, *, after: bool
) -> bool:
    """Let a worker die at a step of a stage; return whether it got that far."""
    fuse = Fuse(step, after=after)
    with monkeypatch.context() as patch:
        lay(patch, office, fuse)
        await work_until_death(office, stage)
    await another_worker(office)
    return fuse.blown


async def look_and_answer(office: Office, run: Run) -> Run:
    """Check the effects, and approve the calls that did not happen."""
    one = await waiting(office, run)
    done = one.call.args.get("what") in noted(office)
    return await answer(office, run, yes=not done)


async def journals(office: Office) -> list[str]:
    """Return the keys of the stored journals."""
    return await office.ledger.store.keys("journal:")


CASES = [
    *((step, after, False) for step in range(2, 10) for after in (False, True)),
    *((step, False, True) for step in range(3, 9)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_killed_worker_never_repeats_a_call(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch, case: tuple[int, bool, bool]
) -> None:
    """Calls before the first stop run once; a call in doubt is asked about."""
    step, after, resumable = case
    app = shop(Rules(key=KEY), "twice", resumable=resumable, twice=TWICE)
    run = await office.decider.submit(app, "go", user="riley@example.com")
    await die(office, monkeypatch, stages.run(app), step, after=after)
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    doubted = False
    for _ in range(2):
        if run.state is not RunState.PAUSED:
            break
        one = await waiting(office, run)
        doubted = doubted or one.call.name == "note"
        assert one.origin.again or one.call.name == "pay"
        run = await look_and_answer(office, run)
    assert not Counter(noted(office)) - Counter(["a", "b"])
    if run.text == ENDED:
        assert noted(office) == ["a", "b"]
    else:
        assert doubted
        assert "may or may not have happened" in run.text
    await audit.verify(office.ledger.store)


async def test_journal_is_deleted_after_its_turn(office: Office, shop: Any) -> None:
    """When its end is in the session, no journal is left."""
    app = shop(Rules(key=KEY), "twice", twice=TWICE)
    run = await office.submit(app, "go")
    assert await journals(office) == []
    run = await answer(office, run)
    assert run.text == ENDED
    assert await journals(office) == []


async def test_resumed_code_keeps_the_arguments_of_its_call(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The begun call continues with its own arguments, whatever the model would say."""
    app = shop(
        Rules(key=KEY),
        "name",
        args='{"who": f"c{next(asked)}"}',
        name="def name(who: str) -> dict:\n    tools.note({'what': who})\n    return tools.note({'what': who + '!'}).json()\n",
    )
    run = await office.decider.submit(app, "go", user="riley@example.com")
    assert await die(office, monkeypatch, stages.run(app), 4, after=True)
    assert noted(office) == ["c0"]
    run = await office.resume(run)
    await office.executor.drain(stages.run(app))
    assert (await office.ledger.run(run.id)).text == "{'noted': 'c0!'}"
    assert noted(office) == ["c0", "c0!"]


async def test_run_fails_when_resumed_code_takes_another_path(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If code takes another path, the run fails and names its earlier calls."""
    source = "import random\ndef dice() -> dict:\n    tools.note({'what': str(random.random())})\n    return tools.note({'what': 'b'}).json()\n"
    app = shop(Rules(key=KEY), "dice", dice=source)
    run = await office.decider.submit(app, "go", user="riley@example.com")
    assert await die(office, monkeypatch, stages.run(app), 4, after=True)
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    assert run.state is RunState.FAILED
    assert "went another way: it calls note() now, and has called note() before" in run.problem
    assert len(noted(office)) == 1


async def test_oversized_result_is_an_error_and_its_call_is_not_repeated(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is not repeated, and the code gets an error instead of the result."""
    source = "def big() -> dict:\n    try:\n        tools.note({'what': 'a'})\n    except RuntimeError as error:\n        return {'why': str(error)}\n    return tools.note({'what': 'b'}).json()\n"
    app = shop(Rules(key=KEY), "big", big=source, length=300_000)
    run = await office.decider.submit(app, "go", user="riley@example.com")
    assert await die(office, monkeypatch, stages.run(app), 4, after=True)
    await office.executor.drain(stages.run(app))
    assert "too large to be kept" in (await office.ledger.run(run.id)).text
    assert noted(office) == ["a"]


SIDE_BY_SIDE = """
def both() -> dict:
    polls = [async_tools.note({"what": what}) for what in ("a", "b")]
    polls.append(async_tools.inner({"what": "c"}))
    found = [None, None, None]
    while None in found:
        found = [one if one is not None else poll() for one, poll in zip(found, polls)]
    return {"all": [one.json()["noted"] for one in found]}
"""
INNER = """
def inner(what: str) -> dict:
    tools.note({"what": what})
    return tools.note({"what": what + what}).json()
"""


@pytest.mark.parametrize("step", range(4, 13))
async def test_parallel_calls_of_code_are_each_made_once(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Asynchronous calls, and code inside code, are each found again."""
    app = shop(Rules(key=KEY), "both", both=SIDE_BY_SIDE, inner=INNER)
    run = await office.decider.submit(app, "go", user="riley@example.com")
    await die(office, monkeypatch, stages.run(app), step, after=False)
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    while run.state is RunState.PAUSED:
        run = await look_and_answer(office, run)
    assert run.state is RunState.COMPLETED
    counted = Counter(noted(office))
    assert not counted - Counter(["a", "b", "c", "cc"])
    if run.text == "{'all': ['a', 'b', 'cc']}":
        assert sum(counted.values()) == 4


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", range(2, 7))
async def test_second_approval_resumes_code_at_the_call_in_doubt(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch, step: int, after: bool
) -> None:
    """A second approval lets the code continue from the call in doubt."""
    source = "def on() -> dict:\n    tools.pay({'who': 'x'})\n    tools.note({'what': 'a'})\n    return tools.note({'what': 'b'}).json()\n"
    app = shop(Rules(key=KEY), "on", on=source)
    run = await office.submit(app, "go")
    for one in await office.ask(run, InDoubt.ASK):
        await office.decider.approve(one.id, MARA, channel="cli")
    await die(office, monkeypatch, stages.resume(app), step, after=after)
    run = await office.resume(run)
    while run.state is RunState.PAUSED:
        one = await waiting(office, run)
        assert one.origin.again
        run = await (
            answer(office, run) if one.call.name == "pay" else look_and_answer(office, run)
        )
    assert run.state is RunState.COMPLETED
    assert not Counter(noted(office)) - Counter(["a", "b"])
    ended = await office.ledger.approvals(run.approvals)
    assert {one.handoff for one in ended} <= {Handoff.RESUMED, Handoff.IN_DOUBT}


@pytest.mark.parametrize(("step", "done"), [(3, []), (4, ["a"])], ids=["not made", "made"])
async def test_rejection_of_a_call_in_doubt_keeps_the_finished_calls(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch, step: int, done: list[str]
) -> None:
    """A call that was made stays made, and the code is told; a call in doubt raises."""
    source = "def one() -> dict:\n    try:\n        return tools.note({'what': 'a'}).json()\n    except PermissionError as error:\n        return {'why': str(error)}\n"
    app = shop(Rules(key=KEY, needs_approval=('tool == "note"',)), "one", one=source)
    run = await office.submit(app, "go")
    for one in await office.ask(run, InDoubt.ASK):
        await office.decider.approve(one.id, MARA, channel="cli")
    assert await die(office, monkeypatch, stages.resume(app), step, after=True)
    run = await office.resume(run)
    assert noted(office) == done
    run = await answer(office, run, yes=False)
    assert noted(office) == done
    assert ("may or may not have happened" in run.text) == (not done)
    assert (run.text == "{'noted': 'a'}") == bool(done)


CALLBACKS = """
def before_model_callback(callback_context, llm_request):
    said = [one for one in callback_context.parts() if one.has_function_call("quiet")]
    tools.note({"what": f"m{len(said)}"})

def before_agent_callback(callback_context):
    try:
        tools.note({"what": "g"})
    except PermissionError as error:
        set_variable("why", str(error))

def after_tool_callback(tool, input, callback_context, tool_response):
    tools.note({"what": "t"})
"""


@pytest.mark.parametrize("step", range(2, 17))
async def test_killed_callback_never_repeats_its_calls(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The next worker does not repeat the calls of a callback whose worker died."""
    app = shop(
        Rules(key=KEY),
        "quiet",
        callbacks=CALLBACKS,
        quiet="def quiet() -> dict:\n    return tools.note({'what': 'q'}).json()\n",
    )
    run = await office.decider.submit(app, "go", user="riley@example.com")
    await die(office, monkeypatch, stages.run(app), step, after=False)
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    turns = Counter("g")
    if run.state is RunState.PAUSED:
        run = await look_and_answer(office, run)
        # ADK runs it with each answer that an agent goes on with.
        turns.update("g")
    assert not Counter(noted(office)) - turns - Counter(["m0", "m1", "m2", "q", "t"])
    if run.state is RunState.FAILED:
        assert "note was being called when a worker died" in run.problem
        assert "cannot wait for somebody to look" in run.problem
    else:
        assert run.state is RunState.COMPLETED


WEB = """
def web() -> dict:
    ces_requests.post("URL/pay", json={"a": 1})
    return {"seen": ces_requests.get("URL/look").text}
"""


@pytest.mark.parametrize("step", range(3, 8))
async def test_changing_request_is_sent_once(
    office: Office, shop: Any, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """A POST is sent once or asked about; a GET may be sent again."""
    seen: list[str] = []

    async def answer_it(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        seen.append(" ".join(head.split(" ")[:2]))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_it, "127.0.0.1", 0) as server:
        where = "127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        rules = Rules(key=KEY, internal_hosts=(where,))
        app = shop(rules, "web", web=WEB.replace("URL", f"http://{where}"))
        run = await office.decider.submit(app, "go", user="riley@example.com")
        await die(office, monkeypatch, stages.run(app), step, after=False)
        await office.executor.drain(stages.run(app))
        run = await office.ledger.run(run.id)
        if run.state is RunState.PAUSED:
            one = await waiting(office, run)
            assert (one.call.name, one.call.args["host"]) == ("ces_requests.post", "127.0.0.1")
            assert "Look first" in one.hint
            run = await answer(office, run, yes=False)
            assert "may or may not have happened" in run.text
        else:
            assert run.text == "{'seen': 'ok'}"
    assert seen.count("POST /pay") == 1


@pytest.mark.parametrize("case", list(product(range(1, 6), [False, True], [False, True])), ids=str)
async def test_a_turn_goes_on_after_redis_was_away_in_its_code(
    office: Office,
    shop: Any,
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[int, bool, bool],
) -> None:
    """A resumable app took the error of the call for its last word, and nobody was asked."""
    left, after, resumable = case
    app = shop(Rules(key=KEY), "twice", resumable=resumable, twice=TWICE)
    run = await office.decider.submit(app, "go", user="riley@example.com")
    commit_all = Ledger.commit_all

    async def commit(self: Ledger, changes: Sequence[Change]) -> list[LedgerError | None]:
        nonlocal left
        left -= 1
        if left != 0:
            return await commit_all(self, changes)
        if after:
            await commit_all(self, changes)
        raise LedgerUnavailable("away")

    monkeypatch.setattr(Ledger, "commit_all", commit)
    for _ in range(3):
        with suppress(LedgerUnavailable):
            await office.executor.drain(stages.run(app))
        office.pass_time()
    run = await office.ledger.run(run.id)
    while run.state is RunState.PAUSED:
        run = await look_and_answer(office, run)
    assert run.text == ENDED or "may or may not have happened" in run.text, run
    assert not Counter(noted(office)) - Counter(["a", "b"])
    await audit.verify(office.ledger.store)
