"""The second step in a real browser: without scripts, by keyboard, on a narrow screen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

import pyotp
import pytest
from pydantic import SecretStr

from builders import MARA, people, present
from chromium import Tab, chromium
from deciding import Decider
from ports import free_port
from served import listening
from signoff.broker import stages
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.stored import store
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Kind
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.run import RunState
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import FakeChannel
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor

AGENTS = Path(__file__).parents[2] / "examples" / "agents"
MAILBOX = "approvals@signoff.example"
POLICY = Policy(name="large expenses", ask=("mara",), within="4h", second_step="args.amount > 1000")
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"


@dataclass
class Firm:
    """A worker with a real agent, the channels, a gateway on a port, and a browser."""

    ledger: Ledger
    decider: Decider
    executor: Executor
    channel: FakeChannel
    inbox: InboxSettings
    app: pyotp.OTP
    tab: Tab
    journal: Path
    used: int = 0

    async def asked(self) -> Approval:
        """Submit a run whose agent wants to pay a large expense, and ask Mara about it."""
        run = await self.decider.submit(
            "finance", "Please reimburse me $2500 for the conference", user="riley"
        )
        await self.executor.drain(stages.run("finance"))
        router = Router(
            self.ledger,
            policies=[POLICY],
            fallback=Fallback(ask=("cleo",)),
            directory=self.decider.directory,
        )
        await router.drain()
        await self.deliver()
        (waiting,) = (await self.ledger.run(run.id)).waiting
        return await self.ledger.approval(waiting)

    async def deliver(self) -> None:
        """Deliver all waiting messages."""
        delivery = Delivery(
            self.ledger, self.channel, directory=self.decider.directory, inbox=self.inbox
        )
        await delivery.drain()

    async def reply(self, approval: Approval, text: str) -> str:
        """Answer the card by mail, and return the link in the reply."""
        card = self.channel.find(approval.id)
        assert card is not None
        local, _, domain = MAILBOX.partition("@")
        mail = EmailMessage()
        mail["From"], mail["To"] = MARA.email, f"{local}+{card.token}@{domain}"
        mail["Subject"] = f"Re: Approval needed #{approval.id[-4:]}"
        mail["Message-ID"] = "<1@mail.example>"
        mail.set_content(text)
        await store(self.ledger, mail.as_bytes(), sender=MARA.email, recipients=())
        await Intake(self.decider, mailbox=MAILBOX).drain()
        await self.deliver()
        notice = self.channel.find(approval.id, Kind.NOTICE)
        assert notice is not None
        return notice.link

    async def code(self) -> str:
        """Return an unused code."""
        self.used = max(int((await self.ledger.now()).timestamp()) // 30, self.used + 1)
        return str(self.app.generate_otp(self.used))

    async def sign_in(self) -> None:
        """Fill in the form to sign in, by keyboard."""
        await self.tab.tab_to("summary")
        await self.tab.key("Enter")
        await self.tab.tab_to("#address")
        await self.tab.type(MARA.email)
        await self.tab.tab_to("#code")
        await self.tab.type(await self.code())
        await self.tab.enter()


@pytest.fixture
async def firm(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Firm]:
    """Return a firm on an empty ledger."""
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(journal))
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    port = free_port()
    inbox = InboxSettings(url=f"http://127.0.0.1:{port}", secret_key=SecretStr("k" * 32))
    decider = Decider(ledger, people())
    guard = GuardPlugin(ledger)
    apps = Apps(AGENTS, session_service(f"sqlite:///{tmp_path}/s.db", AGENTS), lambda: guard)
    gateway = make_gateway(ledger)
    gateway.include_router(make_inbox_router(decider, inbox))
    app = pyotp.parse_uri(await Factors(ledger, inbox.secret_key).enroll(MARA, by="test"))
    async with (
        AsyncExitStack() as stack,
        listening(gateway, port),
        chromium(tmp_path, scripts=False) as tab,
    ):
        stack.push_async_callback(apps.close)
        yield Firm(
            ledger,
            decider,
            Executor(ledger, AdkRuntime(apps, guard)),
            FakeChannel(),
            inbox,
            app,
            tab,
            journal,
        )


async def test_from_the_mail_to_the_agent(firm: Firm) -> None:
    """A reply is stored, its link opens the page, Tab and Enter confirm it, and the tool runs."""
    await firm.tab.shape(360, 740, dark=False)
    approval = await firm.asked()
    link = await firm.reply(approval, "approve\nnote: a good conference")
    assert (await firm.ledger.approval(approval.id)).state is State.PENDING
    assert not firm.journal.exists()

    await firm.tab.open(link)
    assert "Sign in" in await firm.tab.text()
    assert not await firm.tab.look(OVERFLOWS)
    await firm.sign_in()

    text = await firm.tab.text()
    for words in (
        "finance asks to run reimburse",
        "2500",
        "a good conference",
        "You approved this request",
    ):
        assert words in text
    assert not await firm.tab.look(OVERFLOWS)
    await firm.tab.tab_to("button.yes")
    await firm.tab.enter()
    assert "Recorded: you approved reimburse" in await firm.tab.text()

    after = await firm.ledger.approval(approval.id)
    assert (after.state, present(after.decision).channel) == (State.APPROVED, "inbox")
    await firm.executor.drain(stages.resume("finance"))
    run = await firm.ledger.run(approval.origin.run)
    assert run.state is RunState.COMPLETED
    assert json.loads(firm.journal.read_text())["amount"] == 2500
    assert await firm.tab.look("document.cookie") == ""
