"""A decision that needs a second factor is not reassigned by a mailbox or a token alone."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import httpx
import pytest

from builders import CLEO, MARA, OF_PEOPLE, RILEY
from channels.conftest import Channels
from channels.test_who_wrote_it import answer, intake_of, take
from signoff.broker.api_tokens import create
from signoff.broker.directory.absences import People
from signoff.channels.gateway import make_gateway
from signoff.channels.pipeline.port import Message
from signoff.channels.rest.app import PATH, make_rest
from signoff.core.access.api_tokens import Scope
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import Assurance
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.policies.policy import Policy

EVE = Person(id="eve", name="Eve Moss", email="eve@example.com")
OLGA = Person(id="olga", name="Olga Hein", email="olga@example.com", roles=(Role.OPERATOR,))
TWO = Policy(name="large", ask=("mara",), within="4h", second_step="true")
ONE = Policy(name="small", ask=("mara",), within="4h")


@pytest.fixture
def directory() -> Directory:
    """The usual people, Eve as the new approver, and Olga, an operator."""
    return Directory([MARA, CLEO, RILEY, EVE, OLGA])


@pytest.fixture
def office(channels: Channels) -> Channels:
    """Return the stages under a policy that always needs a second step."""
    channels.policies = (TWO,)
    return channels


RESULTS = (
    b"Authentication-Results: mx.signoff.example; spf=pass smtp.mailfrom=example.com;"
    b" dmarc=pass header.from=example.com\n"
)


async def says(office: Channels, token: str, text: str) -> Message:
    """Answer a card of Mara's by a mail with a valid signature; return the replies to her."""
    intake = intake_of(office, authserv_id="mx.signoff.example", relays=[ip_network("::1/128")])
    return (await take(office, RESULTS + answer(token, text), intake=intake, peer="::1"))["mara"]


async def client(office: Channels, **token: Any) -> httpx.AsyncClient:
    """Return a client of the REST API with a new token."""
    scopes = frozenset(token.pop("scopes", OF_PEOPLE))
    text, _ = await create(office.ledger, scopes=scopes, by="test", **token)
    app = make_gateway(office.ledger)
    app.mount(PATH, make_rest(office.decider))
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app),
        base_url=f"http://gw{PATH}/",
        headers={"Authorization": f"Bearer {text}"},
    )


@pytest.mark.parametrize("words", ["forward to eve: she knows it", "weiterleiten an eve: Urlaub"])
async def test_mail_cannot_delegate_a_request_with_two_steps(office: Channels, words: str) -> None:
    """The seat stays, the writer is sent to the page, and the audit has the refusal."""
    approval, token = await office.ask()

    told = await says(office, token, words)

    assert "inbox page" in told.text
    after = await office.ledger.approval(approval.id)
    assert (set(after.approvers), after.handovers) == ({"mara"}, ())
    refused = (await office.events(approval))[-1]
    assert refused.what is What.REFUSED_ANSWER


async def test_absence_by_mail_does_not_cover_requests_with_two_steps(office: Channels) -> None:
    """An absence by mail counts, but not for requests that need two steps."""
    approval, token = await office.ask()
    told = await says(office, token, "away until 2999-12-24, delegate eve")
    assert "second factor" in told.text

    after, _ = await office.ask()
    assert after.approvers == {"mara"}
    asked = next(one for one in await office.events(after) if one.what is What.ASKED)
    assert "set without a second factor" in asked.why

    office.policies = (ONE,)
    small, _ = await office.ask()
    assert small.approvers == {"eve"}
    assert (await office.ledger.approval(approval.id)).approvers == {"mara"}


@pytest.mark.parametrize(
    "holder", [{"person": "mara"}, {"person": "olga"}, {"scopes": {Scope.ADMIN}}]
)
async def test_token_cannot_delegate_a_request_with_two_steps(
    office: Channels, holder: dict[str, str] | dict[str, object]
) -> None:
    """This holds for the tokens of the person, an operator and an administrator."""
    approval, _ = await office.ask()
    http = await client(office, **holder)
    answer = await http.post(
        f"approvals/{approval.id}/reassign", json={"of": "mara", "to": "eve", "reason": "x"}
    )
    assert (answer.status_code, answer.json()["type"]) == (
        403,
        "urn:signoff:problem:second-factor-needed",
    )
    assert (await office.ledger.approval(approval.id)).approvers == {"mara"}


@pytest.mark.parametrize("holder", [{"person": "mara"}, {"scopes": {Scope.ADMIN}}])
async def test_absence_by_token_covers_only_requests_with_one_step(
    office: Channels, holder: dict[str, str] | dict[str, object]
) -> None:
    """The absence only counts for requests of one step."""
    http = await client(office, **holder)
    body = {"to": "2999-12-24", "delegate": "eve"}
    assert (await http.post("people/mara/away", json=body)).status_code == 200
    after, _ = await office.ask()
    assert after.approvers == {"mara"}


async def test_request_with_one_step_can_be_delegated_by_mail_and_token(office: Channels) -> None:
    """This works by mail and by token."""
    office.policies = (ONE,)
    _, token = await office.ask()
    assert (await says(office, token, "forward to eve: x")).headline.startswith("Reassigned")
    approval, _ = await office.ask()
    http = await client(office, person="mara")
    answer = await http.post(f"approvals/{approval.id}/reassign", json={"to": "eve", "reason": "x"})
    assert answer.status_code == 200


async def test_default_ignores_an_absence_by_mail_for_two_steps(office: Channels) -> None:
    """For an undeliverable card too, an absence by mail does not choose an approver."""
    now = await office.ledger.now()
    day = now.date()
    gone = Absence(start=day, end=day + timedelta(days=9), delegate="eve")
    await People(office.ledger, office.directory).leave(CLEO, gone, by="cleo", more={})
    office.policies = (Policy(name="large", ask=("nobody",), within="4h", second_step="true"),)
    approval, _ = await office.ask()
    assert (approval.in_two_steps, set(approval.approvers)) == (True, {"cleo"})


async def test_absence_proven_by_a_second_factor_covers_every_request(office: Channels) -> None:
    """An absence with a second factor, or from a terminal, counts for everything."""
    people, now = People(office.ledger, office.directory), await office.ledger.now()
    gone = Absence(start=now.date(), end=now.date() + timedelta(days=9), delegate="cleo")
    for given in (Assurance.SECOND_FACTOR, Assurance.TERMINAL):
        await people.leave(MARA, gone, by="mara", more={}, assurance=given)
        approval, _ = await office.ask()
        assert approval.approvers == {"cleo"}


async def test_unproven_absence_does_not_replace_a_proven_one_for_two_steps(
    office: Channels,
) -> None:
    """An absence with a second factor stays below a later one without, on the same days."""
    people, now = People(office.ledger, office.directory), await office.ledger.now()
    gone = Absence(start=now.date(), end=now.date() + timedelta(days=9), delegate="cleo")
    await people.leave(MARA, gone, by="mara", more={}, assurance=Assurance.SECOND_FACTOR)
    longer = Absence(start=now.date(), end=now.date() + timedelta(days=20), delegate="eve")
    await people.leave(MARA, longer, by="mara", more={})
    approval, _ = await office.ask()
    assert approval.approvers == {"cleo"}
    office.policies = (ONE,)
    assert (await office.ask())[0].approvers == {"eve"}
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
