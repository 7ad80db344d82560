"""No channel, program or file gets a value that a policy hides."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import redirect_stdout
from io import StringIO

import httpx
import pytest

from builders import CLEO, MARA, NOON, OF_PEOPLE, make_approval, make_call
from channels.conftest import Channels
from signoff.broker.api_tokens import create
from signoff.channels.email.outbound.render import render
from signoff.channels.email.settings import EmailSettings
from signoff.channels.form_fields import fields
from signoff.channels.gateway import make_gateway
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.preview import FORMS, message
from signoff.channels.rest.app import PATH, make_rest
from signoff.channels.slack.outbound import blocks, views
from signoff.channels.slack.outbound.rows import extent, is_whole
from signoff.channels.slack.references import Reference
from signoff.channels.text_channel import shown_in, text_of
from signoff.channels.webhooks.feed import message as posted
from signoff.channels.words import phrases
from signoff.cli.commands.approvals import tables
from signoff.cli.printing import Output
from signoff.core.approvals.approval import Approval, Asked, Shown
from signoff.core.base.hiding import HIDDEN
from signoff.core.cards.card import card
from signoff.core.directory.people import Directory
from signoff.core.grants.grant import GrantScope as Covered
from signoff.core.payloads.digest import short_digest
from signoff.core.policies.policy import GrantRules, Policy, Terms

IBAN = "DE89370400440532013000"
EMAIL = EmailSettings(mailbox="approvals@signoff.example.com", sender="signoff@example.com")


def asked(size: int = 0) -> Approval:
    """Return a payment with a hidden account and a visible amount."""
    call = make_call("pay", amount=2500.0, customer={"iban": IBAN}, memo="x" * size)
    terms = Terms(policy="p", ask=("mara",), hide=("iban",), money={"amount": "EUR"})
    cards = (Asked(person="mara", channel="email", address=MARA.email, shown=Shown.COMPLETE),)
    return make_approval(call=call, hint=f"Pay {IBAN}?").ask(terms, cards, now=NOON)[0]


def sent(approval: Approval, kind: Kind = Kind.CARD) -> Message:
    """Return a message about it."""
    made = message(approval, directory(), channel="email", now=NOON, link="https://x.example/i")
    words = phrases.outcome(approval, "mara", directory())
    if kind is Kind.CARD:
        return made
    return Message(
        "m:1",
        kind,
        made.card,
        "mara",
        "Mara",
        MARA.email,
        NOON,
        headline=words.headline,
        text=words.text,
    )


def directory() -> Directory:
    """Return the people."""
    return Directory([MARA, CLEO])


def decided() -> Approval:
    """Return it after an answer with another amount, which is a rejection with a proposal."""
    values = {"amount": 9.0}
    return asked().approve(MARA, directory(), channel="inbox", now=NOON, values=values)[0]


def mail(approval: Approval, kind: Kind) -> str:
    """Return a mail, decoded."""
    made = render(sent(approval, kind), EMAIL)
    return "".join(part.get_content() for part in made.walk() if not part.is_multipart()) + str(
        made.items()
    )


def slack(approval: Approval, kind: Kind) -> str:
    """Return the messages to Slack with their modals."""
    shape = sent(approval, kind)
    reference = Reference(approval=approval.id, digest=short_digest(approval.digest), to="mara")
    wanted = fields(approval)
    parts = [
        *(blocks.opening(shape)[1] if kind is Kind.CARD else blocks.outcome_blocks(shape)),
        views.details_view(shape.card),
        views.approve_view(shape.card, reference, wanted),
        views.reject_view(shape.card, reference),
    ]
    return blocks.summary(shape) + json.dumps([one.to_dict() for one in parts])


def terminal(approval: Approval, _: Kind) -> str:
    """Return the output of the command line."""
    with redirect_stdout(StringIO()) as out:
        tables.print_approval(Output(), approval, directory(), (), NOON)
        Output().print(tables.approvals_table([approval], directory(), NOON))
    assert IBAN not in json.dumps(tables.as_json(approval, ()))
    return out.getvalue()


def text(approval: Approval, kind: Kind) -> str:
    """Return the text of a custom channel."""
    return text_of(sent(approval, kind))


def preview(approval: Approval, _: Kind) -> str:
    """Return the output of `signoff card` in all forms."""
    return "".join(str(form(sent(approval), EMAIL)) for form in FORMS.values())


def page(approval: Approval, _: Kind) -> str:
    """Return the data of the page."""
    return str([card(approval, directory()), fields(approval)])


FORMS_OF: dict[str, Callable[[Approval, Kind], str]] = {
    "mail": mail,
    "slack": slack,
    "text": text,
    "terminal": terminal,
    "preview": preview,
    "page": page,
}


@pytest.mark.parametrize("form", FORMS_OF)
@pytest.mark.parametrize("kind", [Kind.CARD, Kind.OUTCOME])
@pytest.mark.parametrize("after", [False, True])
def test_channels_never_show_hidden_values(form: str, kind: Kind, *, after: bool) -> None:
    """This holds before and after the decision, and each channel marks the value as hidden."""
    shown = FORMS_OF[form](decided() if after else asked(), kind)
    assert IBAN not in shown
    assert HIDDEN in shown
    assert "2500.0" not in shown


@pytest.mark.parametrize("size", [0, 400, 30_000])
def test_a_hidden_value_is_not_missing_from_a_card(size: int) -> None:
    """A card that shows everything visible counts as complete, in every channel."""
    approval = asked(size)
    shape = card(approval, directory())
    plain = asked(size).model_copy(update={"terms": Terms(policy="p", ask=("mara",))})
    whole = card(plain, directory())
    assert extent(shape) is extent(whole)
    assert is_whole(shape) is is_whole(whole)
    assert shown_in(sent(approval), 2_000) is (Shown.CUT if size > 2_000 else Shown.COMPLETE)


def test_mail_states_that_approval_covers_hidden_values() -> None:
    """The mail says that the hidden values will be used too."""
    text = " ".join(mail(asked(), Kind.CARD).split())
    assert "What you see is what will run, with the values that the policy hides." in text


def test_a_webhook_and_the_audit_have_no_hidden_value() -> None:
    """Exported audit entries have no hidden values."""
    values = {"amount": 9.0}
    _, events = asked().approve(MARA, directory(), channel="inbox", now=NOON, values=values)
    for event in events:
        assert IBAN not in event.model_dump_json()
        assert IBAN not in json.dumps(posted(event))


def test_grant_hides_the_values_that_its_approval_hid() -> None:
    """The command line and the API show its fixed arguments without them."""
    scope = Covered.of(asked(), GrantRules(who=("mara",)))
    assert scope.args["customer"] == {"iban": IBAN}
    assert scope.hide == ("iban",)


@pytest.fixture
async def client(channels: Channels) -> AsyncIterator[httpx.AsyncClient]:
    """Return an API client of a program of Mara's."""
    decider = channels.decider
    token, _ = await create(decider.ledger, scopes=OF_PEOPLE, by="test", person="mara")
    app = make_gateway(decider.ledger)
    app.mount(PATH, make_rest(decider, lambda _: True))
    headers = {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url=f"http://gw{PATH}/", headers=headers
    ) as http:
        yield http


async def test_api_hides_values_and_does_not_find_them_by_search(
    channels: Channels, client: httpx.AsyncClient
) -> None:
    """Responses have the title and the names of hidden values; a search finds nothing."""
    channels.policies = (
        Policy(name="p", ask=("mara",), hide=("iban",), title="Pay {args.amount:money EUR}"),
    )
    approval, _ = await channels.ask(tool="pay", amount=2500.0, iban=IBAN)
    answer = await client.get(f"approvals/{approval.id}")
    assert IBAN not in answer.text
    found = answer.json()
    assert found["title"] == "Pay 2,500.00 EUR"
    assert found["call"] == {
        "tool": "pay",
        "args": {"amount": 2500.0, "iban": HIDDEN},
        "hidden": ["iban"],
    }
    assert found["digest"] == approval.digest
    assert (await client.get("approvals", params={"q": IBAN.lower()})).json()["items"] == []
    assert len((await client.get("approvals", params={"q": "2500"})).json()["items"]) == 1
    body = {"digest": approval.digest, "values": {"iban": IBAN}}
    refused = await client.post(f"approvals/{approval.id}/approve", json=body)
    assert refused.status_code == 422
    done = await client.post(f"approvals/{approval.id}/approve", json={"digest": approval.digest})
    assert done.json()["state"] == "approved"
    assert IBAN not in done.text
    assert IBAN not in (await client.get(f"approvals/{approval.id}/events")).text


async def test_unasked_people_do_not_see_the_title(channels: Channels) -> None:
    """A title contains arguments, so a holder of a stolen token does not get it."""
    channels.policies = (Policy(name="p", ask=("mara",), title="Pay {args.to}"),)
    approval, _ = await channels.ask(tool="pay", to="Lee")
    bare = card(approval, channels.directory).bare
    assert "Lee" not in bare.model_dump_json()
    assert bare.title == "reimbursement_agent asks to run pay"
