"""How much one token may ask for, and what happens to those who have none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from channels.rest.conftest import Office
from deciding import Decider
from signoff.broker.limits import throttle
from signoff.channels.gateway import make_gateway
from signoff.channels.rest.app import PATH, make_rest
from signoff.channels.web import bearer


@pytest.fixture
async def office(decider: Decider) -> AsyncIterator[Office]:
    """A gateway that takes three requests a minute."""
    app = make_gateway(decider.ledger)
    app.mount(PATH, make_rest(decider, rate=3))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://gw{PATH}/") as http:
        yield Office(decider, http)


async def test_a_token_that_asks_too_much_is_told_when_to_come_again(office: Office) -> None:
    """The limit is each token's own, and is counted before anything is done."""
    mara, cleo = await office.holder(person="mara"), await office.holder(person="cleo")
    assert [(await mara.get("me")).status_code for _ in range(3)] == [200] * 3
    many = await mara.post("runs", json={"app": "finance", "message": "hi"})
    assert (many.status_code, many.json()["type"]) == (429, "urn:signoff:problem:too-many-requests")
    assert many.headers["content-type"] == "application/problem+json"
    assert 1 <= int(many.headers["retry-after"]) <= 60
    assert await office.decider.ledger.recent_runs() == []
    assert (await cleo.get("me")).status_code == 200


async def test_the_window_ends_by_itself(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind it there are as many requests again."""
    monkeypatch.setattr(throttle, "MINUTE", timedelta(milliseconds=50))
    mara = await office.holder(person="mara")
    codes = [(await mara.get("me")).status_code for _ in range(4)]
    while codes[-1] == 429:
        codes.append((await mara.get("me")).status_code)
    assert codes[-1] == 200


async def test_who_goes_on_sending_no_token_is_told_to_go_away(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many it is 429 in place of 401; a valid token is let in from there as before."""
    monkeypatch.setattr(bearer, "_WRONG", 5)
    mara = await office.holder(person="mara")
    wrong = office.holding("signoff_" + "a" * 10 + "_" + "b" * 52)
    codes = [(await wrong.get("me")).status_code for _ in range(7)]
    assert codes == [401] * 5 + [429] * 2
    assert (await wrong.get("me")).headers["retry-after"]
    assert (await mara.get("me")).status_code == 200
    assert (await office.http.get("me")).status_code == 401
