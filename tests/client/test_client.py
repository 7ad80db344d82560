"""The client in both forms, against a gateway on a local port."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from builders import MARA, OF_PEOPLE, paused
from channels.granting import asked
from served import gateway
from signoff.broker.api_tokens import create
from signoff.broker.ledger.ledger import Ledger
from signoff.client import ApiError, ApiUnreachable, AsyncClient, Client
from signoff.client.models import Run
from signoff.client.requests import pause_before
from signoff.core.access.api_tokens import Scope

ALL = OF_PEOPLE


@pytest.fixture
def url(redis_url: str, prefix: str) -> Iterator[str]:
    """The URL of a gateway."""
    with gateway(redis_url, prefix) as served:
        yield served.removesuffix("/api/v1")


class InThreads:
    """A `Client` whose methods are awaited like those of an `AsyncClient`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if inspect.isgeneratorfunction(method):

            async def every(*args: Any, **more: Any) -> AsyncIterator[Any]:
                for one in await asyncio.to_thread(lambda: list(method(*args, **more))):
                    yield one

            return every

        async def call(*args: Any, **more: Any) -> Any:
            return await asyncio.to_thread(lambda: method(*args, **more))

        return call


Holding = Callable[[str], Any]


@pytest.fixture(params=["async", "sync"])
async def holding(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Holding]:
    """Makes clients with tokens, in one of the two forms."""
    made: list[AsyncClient | Client] = []

    def make(token: str) -> Any:
        if request.param == "async":
            made.append(client := AsyncClient(url, token))
            return client
        made.append(waits := Client(url, token))
        return InThreads(waits)

    yield make
    for one in made:
        await one.aclose() if isinstance(one, AsyncClient) else one.close()


async def person(ledger: Ledger, name: str, **more: Any) -> str:
    """Return a person's token."""
    return (await create(ledger, by="test", person=name, scopes=ALL, **more))[0]


async def test_client_submits_a_run_decides_and_reads_the_audit(
    ledger: Ledger, holding: Holding
) -> None:
    """A submitted run is found, a waiting request is decided, and the audit has everything."""
    riley, mara = holding(await person(ledger, "riley")), holding(await person(ledger, "mara"))
    assert (await mara.me()).person == "mara"
    run = await riley.submit("finance", "Reimburse me", key="one")
    assert await riley.submit("finance", "Reimburse me", key="one") == run
    assert [one.id async for one in riley.runs(app="finance")] == [run.id]
    assert (await riley.run(run.id)).state == "queued"
    _, (first, second, third) = await paused(ledger, siblings=3, asked=(MARA,))
    waits = [one async for one in mara.approvals(waiting_for="mara")]
    assert {one.id for one in waits} == {first.id, second.id, third.id}
    await mara.claim(first.id, length="1h")
    await mara.release(first.id)
    await mara.ask(first.id, "For whom?")
    await riley.comment(first.id, "For Sam.")
    was = (await mara.approval(second.id)).deadline
    assert (await mara.extend(second.id, "1h", reason="away")).deadline > was
    handed = await mara.reassign(second.id, "cleo", reason="hers")
    assert handed.approvers == ("cleo",)
    (outcome,) = await mara.approve_together([first])
    assert (outcome.id, outcome.problem.status, outcome.approval) == (first.id, 403, None)
    done = await mara.approve(await mara.approval(first.id), reason="fine")
    assert (done.state, done.decision.by) == ("approved", "mara")
    cleo = holding(await person(ledger, "cleo"))
    assert (await cleo.reject(second.id, reason="no")).decision.reason == "no"
    assert (await riley.withdraw(third.id, reason="never mind")).state == "withdrawn"
    lines = [one.what for one in await mara.timeline(first.id)]
    assert (lines[0], lines[-1]) == ("opened", "approved")
    audit = [one async for one in mara.audit()]
    assert audit[-1].entry.what == "withdrawn"
    assert [one async for one in mara.audit(after=audit[-2].id)] == audit[-1:]


async def test_queues_grants_and_absences(ledger: Ledger, holding: Holding) -> None:
    """The API's queues, grants and absences have types."""
    mara, admin = (
        holding(await person(ledger, "mara")),
        holding((await create(ledger, by="test", scopes=frozenset({Scope.ADMIN})))[0]),
    )
    approval = await mara.approval((await asked(ledger, "first")).id)
    (row,) = [one for one in await mara.queues() if one.name == "mara"]
    assert (row.waiting, row.oldest, row.on) == (1, approval.opened_at, ("mara",))
    assert [one.id async for one in admin.queue("all")] == [approval.id]
    assert (await mara.remind(approval.id)).id == approval.id
    grant = await mara.give(approval, "4h", uses=2, reason="conference")
    assert (grant.state, grant.uses, grant.approval) == ("open", 2, approval.id)
    second = await asked(ledger, "second")
    assert (await admin.figures()).came[0].outcomes == {"approved": 2}
    assert [one.id async for one in mara.uses(grant.id)] == [second.id]
    assert [one.id async for one in mara.grants()] == [grant.id]
    assert (await admin.revoke(approval.id, reason="over")).revoked_why == "over"
    assert [one async for one in mara.grants()] == []
    assert [one.state async for one in mara.grants(everything=True)] == ["revoked"]
    assert (await mara.grant(grant.id)).used == 1
    today = (await ledger.now()).date()
    away = await mara.leave("mara", end=today + timedelta(days=3), delegate="cleo")
    (absence,) = away.away
    assert (away.away_now, absence.start, absence.delegate) == (True, today, "cleo")
    assert (await admin.person("mara")).away == away.away
    assert (away.waiting, away.handed_over) == ((), ())
    assert [one.id for one in await mara.people()] == ["mara"]
    assert (await mara.come_back("mara")).away_now is False
    frozen = await admin.freeze(tool="reimburse", why="the bank called")
    assert (frozen.stops, await mara.freezes()) == ("reimburse()", [frozen])
    assert await admin.thaw(frozen.id, why="false alarm") == []
    assert {one.entry.what async for one in mara.audit(approval=second.id)} == {
        "opened",
        "approved",
        "grant_used",
    }
    with pytest.raises(ApiError, match="no queue"):
        await anext(mara.queue("sales team?"))


async def test_reason_that_contradicts_is_sent_again_with_a_confirmation(
    ledger: Ledger, holding: Holding
) -> None:
    """The error shows the clause; `as_it_is` approves a call, or gives a grant."""
    mara = holding(await person(ledger, "mara"))
    _, (waiting,) = await paused(ledger)
    approval, granted = await mara.approval(waiting.id), await asked(ledger, "first")
    with pytest.raises(ApiError, match="only up to 500") as refused:
        await mara.approve(approval, reason="only up to 500")
    assert (refused.value.status, refused.value.kind) == (422, "reason-contradicts")
    done = await mara.approve(approval, reason="only up to 500", as_it_is=True)
    assert done.decision.reason == "only up to 500"

    similar = await mara.approval(granted.id)
    with pytest.raises(ApiError, match="ask Anna first") as refused:
        await mara.give(similar, "4h", reason="ask Anna first")
    assert refused.value.kind == "reason-contradicts"
    grant = await mara.give(similar, "4h", reason="ask Anna first", as_it_is=True)
    assert (grant.state, grant.approval) == ("open", granted.id)


async def test_reason_with_unicode_line_separators_is_one_audit_line(
    ledger: Ledger, holding: Holding
) -> None:
    """A line separator that JSON does not escape does not break an audit line."""
    _, (approval,) = await paused(ledger)
    mara = holding(await person(ledger, "mara"))
    await mara.reject(approval.id, reason="no\u2028really\x85no")
    (line,) = [one async for one in mara.audit(run=approval.origin.run) if one.entry.why]
    assert line.entry.why == "no\u2028really\nno"


async def test_refused_request_raises_an_error_with_the_problem(
    ledger: Ledger, holding: Holding
) -> None:
    """The error has the kind, the status and the text of the problem document."""
    riley = holding(await person(ledger, "riley"))
    with pytest.raises(ApiError, match="no approval 'ap_x'") as refused:
        await riley.approval("ap_x")
    assert (refused.value.status, refused.value.kind) == (404, "not-found")
    with pytest.raises(ApiError, match="token is needed"):
        await holding("wrong").me()
    with pytest.raises(ApiError, match="token is needed"):
        await anext(holding("wrong").audit())


async def test_paged_results_are_one_list(ledger: Ledger, holding: Holding) -> None:
    """The pages are fetched while they are read."""
    await paused(ledger, siblings=230)
    riley = holding(await person(ledger, "riley"))
    found = [one.id async for one in riley.approvals(state="pending")]
    assert len(found) == len(set(found)) == 230


class Lossy(httpx.AsyncHTTPTransport):
    """A network that delivers the first requests and loses their responses.

    Args:
        losses: How many responses are lost.
        status: What a proxy answers instead; 0 if there is no proxy.
    """

    def __init__(self, losses: int, status: int = 0) -> None:
        super().__init__()
        self.losses = losses
        self.status = status

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and lose its response while that is set."""
        answer = await super().handle_async_request(request)
        if self.losses:
            self.losses -= 1
            await answer.aclose()
            if self.status:
                return httpx.Response(self.status, html="<h1>nginx</h1>")
            raise httpx.ReadError("lost")
        return answer


@pytest.mark.parametrize("status", [0, 502, 504])
async def test_retry_after_a_lost_response_submits_once(
    ledger: Ledger, url: str, status: int
) -> None:
    """Each attempt has the same key, so the run is submitted once."""
    token = await person(ledger, "riley")
    async with AsyncClient(url, token, transport=Lossy(2, status)) as client:
        run = await client.submit("finance", "Reimburse me")
    assert isinstance(run, Run)
    assert [one.id for one in await ledger.recent_runs()] == [run.id]


@pytest.mark.parametrize(
    ("status", "content"),
    [(200, {"html": "<h1>Sign in</h1>"}), (200, {"json": {"hello": "world"}}), (204, {})],
    ids=["a page", "other JSON", "nothing"],
)
async def test_an_answer_of_another_server_is_an_error(status: int, content: Any) -> None:
    """Behind a proxy with a sign-in page, an audit log would otherwise look empty."""
    transport = httpx.MockTransport(lambda _: httpx.Response(status, **content))
    with (
        Client("http://gw", "x", transport=transport) as client,
        pytest.raises(ApiError, match="another server") as refused,
    ):
        client.me()
    assert refused.value.status == status
    async with AsyncClient("http://gw", "x", transport=transport) as asynchronous:
        with pytest.raises(ApiError, match="another server"):
            await anext(asynchronous.audit())


@pytest.mark.parametrize(("after", "seconds"), [("3", 3), ("9" * 5000, 60), ("0", 0.5), ("²", 0.5)])
def test_pause_is_the_one_that_the_server_names(after: str, seconds: float) -> None:
    """It is at most a minute; anything but ASCII digits is no number of seconds."""
    response = httpx.Response(429, headers=[(b"retry-after", after.encode("latin-1"))])
    assert pause_before(1, response) == seconds


async def test_unavailable_gateway_error_names_what_to_check() -> None:
    """After the last attempt, the error names what to check."""
    async with AsyncClient("http://127.0.0.1:9", "x", tries=1) as client:
        with pytest.raises(ApiUnreachable, match="cannot be reached"):
            await client.me()
        with pytest.raises(ApiUnreachable):
            await anext(client.audit())


def test_both_clients_keep_signature_and_description() -> None:
    """Help and editors show the signature and description of an operation."""
    for client in (AsyncClient, Client):
        assert list(inspect.signature(client.withdraw).parameters)[1:] == [
            "approval_id",
            "reason",
            "key",
        ]
        assert inspect.getdoc(client.withdraw) == "Withdraw a request, as its requester."
    assert inspect.iscoroutinefunction(AsyncClient.withdraw)
    assert inspect.isasyncgenfunction(AsyncClient.grants)
    assert not inspect.iscoroutinefunction(Client.withdraw)
    assert inspect.isgeneratorfunction(Client.grants)
