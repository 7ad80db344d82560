"""Rules: each step of a redirect is judged, and an unclear call is asked about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import JsonValue

from signoff.broker import stages
from signoff.core.approvals.run import Run, RunState
from signoff.worker.ces.rules import Rules
from worker.ces.shop import KEY, another_worker, answer, waiting
from worker.office import MARA, Office
from worker.test_taken_up import Fuse, lay, work_until_death

# ADK warns about its experimental features.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, list[str]]]:
    """A loopback server that redirects by path and records its requests."""
    seen: list[str] = []

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, path, _ = head.splitlines()[0].split(" ")
        headers = {
            name.lower(): value
            for name, _, value in (line.partition(": ") for line in head.splitlines()[1:])
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        secret = " secret" if "authorization" in headers else ""
        seen.append(f"{method} {headers['host'].partition(':')[0]}{path} {body.decode()}{secret}")
        status, _, where = path.strip("/").partition("/")
        text = "done"
        line = "200 OK"
        if status.isdecimal():
            line, text = f"{status} Go\r\nlocation: http://{where}", ""
        writer.write(f"HTTP/1.1 {line}\r\ncontent-length: {len(text)}\r\n\r\n{text}".encode())
        await writer.drain()
        writer.close()

    running = await asyncio.start_server(reply, "127.0.0.1", 0)
    async with running:
        yield str(running.sockets[0].getsockname()[1]), seen


def rules(port: str, *conditions: str) -> Rules:
    """Return rules that allow two names of the server."""
    hosts = (f"localhost:{port}", f"127.0.0.1:{port}")
    return Rules(key=KEY, internal_hosts=hosts, needs_approval=conditions)


GUARDED = 'tool.startsWith("ces_requests.") && args.host == "127.0.0.1" && args.method == "POST"'
POSTS = """
def posts() -> dict:
    try:
        found = ces_requests.post("URL", json={"a": 1}, headers={"Authorization": "Bearer s"})
    except PermissionError as error:
        return {"why": str(error)}
    return {"text": found.text, "status": found.status_code}
"""


async def begin(office: Office, shop: Any, made: Rules, url: str) -> Run:
    """Run code that posts to a URL."""
    app = shop(made, "posts", posts=POSTS.replace("URL", url))
    return await office.submit(app, "go")


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_that_carries_the_body_on_is_asked_about(
    office: Office, shop: Any, server: tuple[str, list[str]], status: int
) -> None:
    """The first request needs no approval; the redirected one waits."""
    port, seen = server
    there = f"127.0.0.1:{port}"
    run = await begin(
        office, shop, rules(port, GUARDED), f"http://localhost:{port}/{status}/{there}/x"
    )
    approval = await waiting(office, run)
    assert approval.call.name == "ces_requests.post"
    assert approval.call.args["url"] == f"http://{there}/x"
    assert approval.call.args["host"] == "127.0.0.1"
    assert approval.call.args["json"] == {"a": 1}
    assert approval.call.args["redirected_from"] == [f"http://localhost:{port}/{status}/{there}/x"]
    assert "redirects here" in approval.hint
    assert seen == [f'POST localhost/{status}/{there}/x {{"a":1}} secret']
    run = await answer(office, run)
    assert run.state is RunState.COMPLETED
    assert run.text == "{'text': 'done', 'status': 200}"
    # Another host gets no credentials.
    assert seen[1:] == ['POST 127.0.0.1/x {"a":1}']


async def test_a_redirect_that_is_refused_is_not_followed(
    office: Office, shop: Any, server: tuple[str, list[str]]
) -> None:
    """The code is told that the first request was made."""
    port, seen = server
    run = await begin(
        office,
        shop,
        rules(port, GUARDED),
        f"http://localhost:{port}/307/127.0.0.1:{port}/x",
    )
    run = await answer(office, run, yes=False, reason="not there")
    assert "not there" in run.text
    assert "which had been requested before" in run.text
    assert len(seen) == 1


async def test_each_redirect_step_needs_its_own_approval(
    office: Office, shop: Any, server: tuple[str, list[str]]
) -> None:
    """An approval of one step does not cover the next; a step without a rule runs immediately."""
    port, seen = server
    guarded, free = f"127.0.0.1:{port}", f"localhost:{port}"
    run = await begin(
        office,
        shop,
        rules(port, GUARDED),
        f"http://{free}/307/{guarded}/307/{free}/307/{guarded}/x",
    )
    for step in (1, 3):
        assert len(seen) == step
        assert (await waiting(office, run)).call.args["host"] == "127.0.0.1"
        run = await answer(office, run)
    assert run.text == "{'text': 'done', 'status': 200}"
    assert [one.partition("/")[0] for one in seen] == [
        "POST localhost",
        "POST 127.0.0.1",
        "POST localhost",
        "POST 127.0.0.1",
    ]


async def test_redirect_that_becomes_a_get_matches_no_post_rule(
    office: Office, shop: Any, server: tuple[str, list[str]]
) -> None:
    """303 makes it a GET without a body, so no rule about POST matches."""
    port, seen = server
    run = await begin(
        office, shop, rules(port, GUARDED), f"http://localhost:{port}/303/127.0.0.1:{port}/x"
    )
    assert run.text == "{'text': 'done', 'status': 200}"
    assert seen[1] == "GET 127.0.0.1/x "


async def test_redirects_stop_after_five(
    office: Office, shop: Any, server: tuple[str, list[str]]
) -> None:
    """Five are followed, even with approvals between them."""
    port, seen = server
    run = await begin(
        office,
        shop,
        rules(port, GUARDED),
        f"http://localhost:{port}" + f"/307/localhost:{port}" * 2 + f"/307/127.0.0.1:{port}" * 5,
    )
    assert len(seen) == 3
    for _ in range(3):
        run = await answer(office, run)
    assert "redirects more than 5 times" in run.text
    assert len(seen) == 6


@pytest.mark.parametrize("step", range(1, 8))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_worker_never_repeats_a_redirect_step(
    office: Office,
    shop: Any,
    server: tuple[str, list[str]],
    monkeypatch: pytest.MonkeyPatch,
    *,
    step: int,
    after: bool,
) -> None:
    """Each step has its own journal entry; a step in doubt is asked about."""
    port, seen = server
    app = shop(
        rules(port, GUARDED),
        "posts",
        resumable=True,
        posts=POSTS.replace("URL", f"http://localhost:{port}/307/localhost:{port}/y"),
    )
    await office.decider.submit(app, "go", user="riley@example.com", run_id="run_1")
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=after))
        await work_until_death(office, stages.run(app))
    await another_worker(office)
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run("run_1")
    if run.state is RunState.PAUSED:
        (approval,) = await office.ask(run)
        assert approval.origin.again == 1
        await office.decider.reject(approval.id, MARA, channel="cli")
        run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert len(set(seen)) == len(seen) <= 2


@pytest.mark.parametrize(
    ("call", "args"),
    [
        ("tools.refund({'order': 'o1'})", {"order": "o1"}),
        ("tools.refund({'order': 'o1', 'amount': None})", {"order": "o1", "amount": None}),
        ("tools.refund({'order': 'o1', 'amount': '500'})", {"order": "o1", "amount": "500"}),
        ("tools.refund({'order': 'o1', 'amount': [500]})", {"order": "o1", "amount": [500]}),
    ],
)
async def test_a_call_that_cannot_be_judged_is_asked_about(
    office: Office, shop: Any, call: str, args: dict[str, Any]
) -> None:
    """An omitted argument has the tool's default, which the rule has not seen."""
    app = shop(
        Rules(key=KEY, needs_approval=('tool == "refund" && args.amount > 100',)),
        "code",
        refund="def refund(order: str, amount: float = 500) -> dict:\n    return {'refunded': order}\n",
        code=f"def code() -> dict:\n    return {call}.json()\n",
    )
    run = await office.submit(app, "go")
    approval = await waiting(office, run)
    assert (approval.call.name, approval.call.args) == ("refund", args)
    run = await answer(office, run)
    assert run.text == "{'refunded': 'o1'}"


@pytest.mark.parametrize(
    ("rule", "args", "asks"),
    [
        ("args.amount > 100", {"amount": 101}, True),
        ("args.amount > 100", {"amount": 100}, False),
        ("args.amount > 100", {}, True),
        ("!(args.amount <= 100)", {}, True),
        ("args.lines[0].amount > 100", {"lines": []}, True),
        ("args.lines[0].amount > 100", {"lines": [{}]}, True),
        ("args.lines[0].amount > 100", {"lines": None}, True),
        ("args.order.amount > 100", {"order": "o1"}, True),
        ("has(args.amount) && args.amount > 100", {}, False),
        ('tool == "other" && args.amount > 100', {}, False),
        ('args.amount > 100 && tool == "other"', {}, False),
        ("args.flag", {"flag": 1}, True),
        ("args.flag", {"flag": False}, False),
        ('args.name.matches("(")', {"name": "x"}, True),
        ("args.amount / args.count > 1", {"amount": 1, "count": 0}, True),
    ],
)
def test_only_a_rule_that_is_false_needs_no_approval(
    rule: str, args: dict[str, Any], asks: bool
) -> None:
    """A missing value, a wrong type or an invalid result is asked about."""
    facts: dict[str, JsonValue] = {
        "app": "a",
        "agent": "b",
        "user": "c",
        "tool": "refund",
        "args": args,
    }
    assert Rules(needs_approval=(rule,)).asks(facts) is asks


@pytest.mark.parametrize(
    "rule", ['args.key == "tier"', 'tool.startsWith("set_")', 'tool != "lookup"']
)
async def test_rule_that_matches_a_variable_requires_an_approval(
    office: Office, shop: Any, rule: str
) -> None:
    """This holds for every form of the rule."""
    app = shop(
        Rules(key=KEY, needs_approval=(rule,)),
        "mark",
        mark="def mark() -> dict:\n    set_variable('tier', 'gold')\n    return {'tier': get_variable('tier')}\n",
    )
    run = await office.submit(app, "go")
    approval = await waiting(office, run)
    assert approval.call.name == "set_variable"
    run = await answer(office, run)
    assert run.text == "{'tier': 'gold'}"
