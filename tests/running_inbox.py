"""The inbox page in use: a gateway on a port, an agent, mail, and a real browser."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyotp
import pytest
from aiosmtpd.smtp import SMTP
from pydantic import SecretStr

from builders import CLEO, MARA, RILEY, present
from channels.conftest import Channels, Sink
from chromium import Tab, chromium
from deciding import Decider
from ports import free_port
from served import listening
from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.auth.link_mails import LinkMails
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings, PushSettings, page_of
from signoff.channels.inbox.subscriptions import publish_key
from signoff.channels.inbox.vapid import public_key
from signoff.core.approvals.approval import Approval
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.directory.queues import Queue
from signoff.core.policies.policy import Policy
from signoff.testing import FakeChannel
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor

_TOGETHER = 500
AGENTS = Path(__file__).parents[1] / "examples" / "agents"
OLGA = Person(id="olga", name="Olga Hein", email="olga@example.com", roles=(Role.OPERATOR,))
NAMED = Person(id="named", name="<img src=/hacked onerror=hacked()>", email="named@example.com")
STAFF = Directory(
    [MARA, CLEO, RILEY, OLGA, NAMED],
    queues=[
        Queue(name="finance", members=("mara", "cleo")),
        Queue(name="travel", members=("cleo", "mara", "olga")),
    ],
)
POLICIES = (
    Policy(
        name="large expenses",
        when='tool == "reimburse" && args.amount > 5000',
        ask=("mara",),
        within="4h",
        second_step="true",
    ),
    Policy(
        name="harmless",
        when='tool == "remind_customer"',
        ask=("mara",),
        within="2d",
        batch=True,
    ),
    Policy(name="expenses", ask=("queue:finance",), within="4h"),
)


PUSH = PushSettings(private_key=SecretStr(f"{'B' * 43}="), contact="mailto:ops@example.com")


@dataclass
class RunningInbox:
    """A gateway with its ledger, agent, mail and browser."""

    office: Channels
    inbox: InboxSettings
    executor: Executor
    journal: Path
    mails: Sink
    links: LinkMails
    tab: Tab
    apps: dict[str, pyotp.OTP] = field(default_factory=dict)
    used: int = 0

    @property
    def ledger(self) -> Ledger:
        """The ledger of the gateway."""
        return self.office.ledger

    async def sweep(self) -> None:
        """Start again: empty the ledger and sign everybody out."""
        await self.tab.open("about:blank")
        await self.tab.do("Network.clearBrowserCookies")
        await self.tab.do("Emulation.setScriptExecutionDisabled", value=False)
        await self.tab.do("Page.setBypassCSP", enabled=False)
        store = self.ledger.store
        keys = [store.prefix + key for key in await store.keys("")]
        if keys:
            await store.client.delete(*keys)
        self.journal.unlink(missing_ok=True)
        self.apps.clear()
        self.tab.told.clear()

    async def ask(self, **parts: Any) -> Approval:
        """Open a request, route it and deliver its cards."""
        approval, _ = await self.office.ask(**parts)
        return approval

    async def amend(self, approval: Approval, **parts: Any) -> Approval:
        """Replace parts of an approval, for states that a test cannot reach with an agent."""
        await self.ledger.commit(Change().put(approval.model_copy(update=parts), was=approval))
        return await self.ledger.approval(approval.id)

    async def heap(self, approval: Approval, count: int) -> None:
        """Add this number of copies of an approval: the same commit with other ids."""
        change = Change().put(approval, was=None)
        own = approval.id.removeprefix("ap_")

        def copied() -> list[str | int]:
            new = {one: secrets.token_hex(len(one))[: len(one)] for one in (own, change.mark)}
            texts = map(str, change.arguments(0))
            return [
                one.replace(own, new[own]).replace(change.mark, new[change.mark]) for one in texts
            ]

        for start in range(0, count, _TOGETHER):
            calls = [copied() for _ in range(min(_TOGETHER, count - start))]
            replies = await self.ledger.store.scripts("commit", calls)
            assert all(one[0] == "ok" for one in replies)

    async def ask_by_agent(self, app: str, message: str) -> Approval:
        """Let an agent work until its call waits, and ask about the call."""
        run = await self.office.decider.submit(app, message, user="riley")
        await self.executor.drain(stages.run(app))
        await self.office.router.drain()
        await self.office.delivery.drain()
        (waiting,) = (await self.ledger.run(run.id)).waiting
        return await self.ledger.approval(waiting)

    async def come_in(self, person: Person) -> None:
        """Give the browser a person's session without signing in."""
        sessions = Sessions(self.ledger, self.inbox)
        name = await sessions.begin(person.id, how=How.LINK, also=Change())
        cookie = {"name": "signoff", "value": name, "domain": "127.0.0.1", "path": "/"}
        await self.tab.do("Network.setCookie", **cookie)

    async def enrol(self, person: Person) -> None:
        """Give a person an authenticator app."""
        factors = Factors(self.ledger, self.inbox.secret_key)
        self.apps[person.id] = pyotp.parse_uri(await factors.enroll(person, by="test"))

    async def code(self, person: Person = MARA) -> str:
        """Return an unused code."""
        self.used = max(int((await self.ledger.now()).timestamp()) // 30, self.used + 1)
        return str(self.apps[person.id].generate_otp(self.used))

    async def mailed(self) -> str:
        """Return the requested link from its mail."""
        await self.links.drain()
        text = present(self.mails.mails[-1].get_body(("plain",))).get_content()
        return str(re.findall(r"http://\S+", text)[0])

    async def open(self, path: str | Approval = "/inbox/") -> None:
        """Open a page."""
        where = page_of(path.id) if isinstance(path, Approval) else path
        await self.tab.open(f"{self.inbox.url}{where}")

    async def press(self, selector: str) -> None:
        """Focus a button or link with Tab, press Enter, and wait for the next page."""
        await self.tab.tab_to(selector)
        await self.tab.enter()

    async def put(self, selector: str, text: str) -> None:
        """Focus a field with Tab and replace its content."""
        await self.tab.tab_to(selector)
        await self.tab.look("document.activeElement.select?.()")
        await self.tab.type(text)


@asynccontextmanager
async def running_inbox(redis_url: str, folder: Path) -> AsyncIterator[RunningInbox]:
    """Yield the page; the finance agent writes ``journal.jsonl`` in the folder."""
    port = free_port()
    inbox = InboxSettings(url=f"http://127.0.0.1:{port}", secret_key=SecretStr("k" * 32), push=PUSH)
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(folder / "journal.jsonl"))
        patch.delenv("GOOGLE_API_KEY", raising=False)
        prefix = f"{{inbox-{secrets.token_hex(4)}}}:"
        ledger = Ledger(Store.open(redis_url, prefix=prefix))
        stack.push_async_callback(ledger.close)
        await publish_key(ledger, public_key(PUSH))
        office = Channels(ledger, Decider(ledger, STAFF), STAFF, FakeChannel(), POLICIES)
        office.inbox = inbox
        guard = GuardPlugin(ledger)
        apps = Apps(AGENTS, session_service(f"sqlite:///{folder}/s.db", AGENTS), lambda: guard)
        stack.push_async_callback(apps.close)
        sink = await stack.enter_async_context(_mail_server())
        await stack.enter_async_context(_served(office, inbox, port))
        yield RunningInbox(
            office,
            inbox,
            Executor(ledger, AdkRuntime(apps, guard)),
            folder / "journal.jsonl",
            sink,
            LinkMails(office.decider, EmailChannel(sink.settings()), inbox),
            await stack.enter_async_context(_browser(folder)),
        )


@asynccontextmanager
async def _browser(folder: Path) -> AsyncIterator[Tab]:
    async with chromium(folder, scripts=True) as tab:
        await tab.listen()
        try:
            yield tab
        finally:
            # The page's event streams end before the server does.
            await tab.do("Page.navigate", url="about:blank")


@asynccontextmanager
async def _served(office: Channels, inbox: InboxSettings, port: int) -> AsyncIterator[None]:
    gateway = make_gateway(office.ledger)
    gateway.include_router(make_inbox_router(office.decider, inbox))
    async with listening(gateway, port):
        yield


@asynccontextmanager
async def _mail_server() -> AsyncIterator[Sink]:
    sink, sessions = Sink(), list[SMTP]()
    loop = asyncio.get_running_loop()

    def session() -> SMTP:
        sessions.append(SMTP(sink, hostname="sink.example", loop=loop))
        return sessions[-1]

    server = await loop.create_server(session, "127.0.0.1", 0)
    sink.port = server.sockets[0].getsockname()[1]
    try:
        yield sink
    finally:
        server.close()
        for one in sessions:
            if one.transport is not None:
                one.transport.close()
        await asyncio.sleep(0)
