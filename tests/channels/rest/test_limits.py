"""Request limits of a token, and of clients without one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from channels.rest.conftest import Office, opened
from deciding import Decider


@pytest.fixture
async def office(decider: Decider) -> AsyncIterator[Office]:
    """Return a gateway with a limit of three requests a minute."""
    async with opened(decider, rate=3) as made:
        yield made


async def test_a_token_over_its_limit_gets_a_retry_time(office: Office) -> None:
    """Each token has its own limit, which is counted before anything is done."""
    mara, cleo = await office.holder(person="mara"), await office.holder(person="cleo")
    assert [(await mara.get("me")).status_code for _ in range(3)] == [200] * 3
    many = await mara.post("runs", json={"app": "finance", "message": "hi"})
    assert (many.status_code, many.json()["type"]) == (429, "urn:signoff:problem:too-many-requests")
    assert many.headers["content-type"] == "application/problem+json"
    assert 1 <= int(many.headers["retry-after"]) <= 60
    assert await office.decider.ledger.recent_runs() == []
    assert (await cleo.get("me")).status_code == 200


async def test_a_window_ends(office: Office) -> None:
    """After its key expires, as many requests are allowed again."""
    mara, store = await office.holder(person="mara"), office.decider.ledger.store
    assert [(await mara.get("me")).status_code for _ in range(4)] == [200] * 3 + [429]
    (window,) = await store.keys("rate:token:")
    await store.client.delete(store.prefix + window)
    assert (await mara.get("me")).status_code == 200


async def test_repeated_invalid_tokens_get_429(office: Office) -> None:
    """After 60 failures it gets 429 instead of 401; a valid token still works."""
    mara = await office.holder(person="mara")
    wrong = office.holding("signoff_" + "a" * 10 + "_" + "b" * 52)
    codes = [(await wrong.get("me")).status_code for _ in range(62)]
    assert codes == [401] * 60 + [429] * 2
    assert (await wrong.get("me")).headers["retry-after"]
    assert (await mara.get("me")).status_code == 200
    assert (await office.http.get("me")).status_code == 401
