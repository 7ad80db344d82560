"""Every way to answer leaves the same decisions and refusals in the audit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pyotp
import pytest
from pydantic import JsonValue, SecretStr
from typer.testing import CliRunner

from browser import ORIGIN, SETTINGS, Browser, forms_of
from builders import CLEO, MARA, RILEY, paused
from channels.slack.office import view_submission
from channels.slack.workspace import TEAM
from cli.conftest import SETTINGS as TOML
from deciding import Decider
from signoff.broker.api_tokens import create
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.answers import Answers
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.incoming import Answer
from signoff.channels.pipeline.reply_tokens import Holder
from signoff.channels.rest.app import PATH, make_rest
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.references import Reference
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SlackWeb
from signoff.channels.text_channel import take_text
from signoff.cli.main import app as commands
from signoff.core.access.api_tokens import Scope
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import SignoffError
from signoff.core.directory.people import Directory, Person
from signoff.core.payloads.digest import short_digest
from signoff.worker.adk.questions import CONFIRMATION
from signoff.worker.adk_api.answering import AnswerHandler
from signoff.worker.adk_api.bodies import RunRequest
from signoff.worker.adk_api.bodies import SentAnswer as Given
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem

STAFF = Directory(
    [
        one.model_copy(
            update={"slack": f"{TEAM}/U0{one.id.upper()}", "addresses": {"chat": one.id}}
        )
        for one in (MARA, CLEO, RILEY)
    ]
)
NO = "over budget"


@dataclass
class House:
    """A ledger, and every way to answer."""

    ledger: Ledger
    decider: Decider
    folder: Path
    toml: Path

    async def text(self, one: Approval, who: Person, *, yes: bool) -> None:
        """Answer by a text-only channel."""
        words = "approve" if yes else f"reject: {NO}"
        await take_text(self.decider, "chat", who.id, f"{one.id} {words}", source="1")

    async def mail(self, one: Approval, who: Person, *, yes: bool) -> None:
        """Answer by a mail whose author is proven."""
        answer = Answer(Holder(one.id, who.id, "email"), "t", "1", "", Change())
        await Answers(self.decider).take(answer, "approve" if yes else f"reject: {NO}")

    async def slack(self, one: Approval, who: Person, *, yes: bool) -> None:
        """Answer by a Slack modal."""
        web = SlackWeb(SlackSettings(bot_token=SecretStr("xoxb-none")))
        handler = SlackHandler(self.decider, web, Identities(web, STAFF))
        view = {
            "callback_id": "signoff.approve" if yes else "signoff.reject",
            "private_metadata": Reference(approval=one.id, digest=short_digest(one.digest)).text(),
        }
        said = {} if yes else {"reason": {"type": "plain_text_input", "value": NO}}
        await handler.handle(view_submission(view, said, f"U0{who.id.upper()}"))
        await web.close()

    async def page(self, one: Approval, who: Person, *, yes: bool) -> None:
        """Answer on the page."""
        factors = Factors(self.ledger, SETTINGS.secret_key)
        otp = pyotp.parse_uri(await factors.enroll(who, by="test"))
        app = make_gateway(self.ledger)
        app.include_router(make_inbox_router(self.decider, SETTINGS))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as http:
            browser = Browser(http, {who.id: otp}, self.ledger)
            await browser.sign_in(who)
            path = f"/inbox/approvals/{one.id}"
            forms = forms_of(await browser.get(path)).values()
            csrf = next(fields["csrf"] for fields in forms if "csrf" in fields)
            form = {"csrf": csrf, "digest": one.digest, "once": "x" * 16}
            said = {} if yes else {"reason": NO}
            await browser.post(f"{path}/{'approve' if yes else 'reject'}", form | said)

    async def rest(self, one: Approval, who: Person, *, yes: bool) -> None:
        """Answer by the REST API."""
        scopes = frozenset({Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE})
        token, _ = await create(self.ledger, scopes=scopes, by="test", person=who.id)
        app = make_gateway(self.ledger)
        app.mount(PATH, make_rest(self.decider))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://gw{PATH}/") as http:
            await http.post(
                f"approvals/{one.id}/{'approve' if yes else 'reject'}",
                json={"digest": one.digest} if yes else {"reason": NO},
                headers={"Authorization": f"Bearer {token}"},
            )

    async def adk(self, one: Approval, who: Person, *, yes: bool) -> None:
        """Answer by the ADK API."""
        said: dict[str, JsonValue] = {} if yes else {"payload": {"reason": NO}}
        given = Given(one.origin.confirmation, CONFIRMATION, {"confirmed": yes, **said})
        about = RunRequest(
            app_name=one.origin.app, user_id=one.origin.user, session_id=one.origin.session
        )
        caller = Caller("test", frozenset({"riley"}), None, who, "")
        with suppress(Problem, SignoffError):
            await AnswerHandler(self.decider, self.ledger).take(caller, about, [given])

    async def cli(self, one: Approval, who: Person, *, yes: bool) -> None:
        """Answer on the command line."""
        said = [] if yes else ["--reason", NO]
        verb = "approve" if yes else "reject"
        line = ["--config", str(self.toml), "approvals", verb, one.id, "--as", who.id, *said]
        await asyncio.to_thread(CliRunner().invoke, commands, line)


Door = Callable[[House, Approval, Person, bool], Awaitable[None]]

DOORS = {
    "text": "chat",
    "mail": "email",
    "slack": "slack",
    "page": "inbox",
    "rest": "api",
    "adk": "api",
    "cli": "cli",
}


@pytest.fixture
def house(ledger: Ledger, redis_url: str, prefix: str, tmp_path: Path) -> House:
    """Return the ways to answer on an empty ledger."""
    toml = tmp_path / "signoff.toml"
    parts = {"agents": tmp_path, "redis": redis_url, "prefix": prefix, "smtp": 1}
    toml.write_text(TOML.format(**parts))
    return House(ledger, Decider(ledger, STAFF), tmp_path, toml)


async def plain(_: House, __: Approval) -> None:
    """Leave the approval unchanged."""


async def decided(house: House, one: Approval) -> None:
    """Let Cleo decide first."""
    await house.decider.reject(one.id, CLEO, channel="cli", reason="no")


async def claimed(house: House, one: Approval) -> None:
    """Let Cleo claim it."""
    await house.decider.made(one.id, moves.Claim(), CLEO)


async def late(house: House, one: Approval) -> None:
    """Wait until the deadline has passed by the ledger's clock."""
    while not one.is_late(await house.ledger.now()):
        pass


SOON = timedelta(milliseconds=1)
CASES: dict[str, tuple[Any, dict[str, Any], Person, bool, tuple[What, str, str]]] = {
    "approve": (plain, {}, MARA, True, (What.APPROVED, "mara", "")),
    "reject": (plain, {}, MARA, False, (What.REJECTED, "mara", NO)),
    "not asked": (plain, {}, RILEY, True, (What.REFUSED_ANSWER, "riley", "")),
    "decided": (decided, {}, MARA, True, (What.REFUSED_ANSWER, "mara", "rejected by Cleo Park")),
    "late": (late, {"within": SOON}, MARA, False, (What.REFUSED_ANSWER, "mara", "expired on")),
    "claimed": (claimed, {}, MARA, True, (What.REFUSED_ANSWER, "mara", "Cleo Park has claimed")),
    "values": (plain, {"template": {"days": 0}}, MARA, True, (What.REFUSED_ANSWER, "mara", "days")),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES)
async def test_every_channel_writes_the_same_audit_entry(
    house: House, door: str, case: str
) -> None:
    """One entry has the outcome, the person, the reason, the move and the channel."""
    before, parts, who, yes, (what, by, why) = CASES[case]
    _, (one,) = await paused(house.ledger, **parts)
    await before(house, one)
    known = len(await house.ledger.history(one.id))
    await getattr(house, door)(one, who, yes=yes)
    (event,) = (await house.ledger.history(one.id))[known:]
    assert (event.what, event.by) == (what, by)
    assert why in event.why
    assert event.more["channel"] == DOORS[door]
    if what is What.REFUSED_ANSWER:
        assert event.more["verdict"] == ("approve" if yes else "reject")
    else:
        assert event.more["digest"] == one.digest


@pytest.mark.parametrize("door", sorted(DOORS.keys() - {"page"}))
async def test_person_outside_the_directory_cannot_decide_by_any_channel(
    house: House, door: str
) -> None:
    """A token, a button, an API token or a caller's identity of theirs does not help."""
    _, (one,) = await paused(house.ledger, asked=[MARA])
    house.decider = Decider(house.ledger, Directory(who for who in STAFF if who.id != "mara"))
    text = house.toml.read_text()
    start, end = text.index("[[people]]"), text.index('[[people]]\nid = "cleo"')
    house.toml.write_text((text[:start] + text[end:]).replace('"mara", ', ""))
    await getattr(house, door)(one, MARA, yes=True)
    after = await house.ledger.approval(one.id)
    assert (after.state, after.votes) == (State.PENDING, ())


async def test_session_of_a_person_who_left_is_invalid(house: House) -> None:
    """They signed in before the settings changed."""
    await paused(house.ledger, asked=[MARA])
    otp = pyotp.parse_uri(await Factors(house.ledger, SETTINGS.secret_key).enroll(MARA, by="test"))
    before = make_gateway(house.ledger)
    before.include_router(make_inbox_router(house.decider, SETTINGS))
    after = make_gateway(house.ledger)
    left = Decider(house.ledger, Directory(who for who in STAFF if who.id != "mara"))
    after.include_router(make_inbox_router(left, SETTINGS))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(before), base_url=ORIGIN) as http:
        await Browser(http, {"mara": otp}, house.ledger).sign_in(MARA)
        assert (await http.get("/inbox/away")).status_code == 200
        cookies = http.cookies
    transport = httpx.ASGITransport(after)
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, cookies=cookies) as http:
        assert "/inbox/sign-in" in (await http.get("/inbox/away")).headers["Location"]
