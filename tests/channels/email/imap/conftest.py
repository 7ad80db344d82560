"""A real Dovecot, a mailbox for each test, and readers of that mailbox."""

from __future__ import annotations

import asyncio
import imaplib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from structlog.typing import EventDict

from channels.conftest import MAILBOX
from dovecot import PASSWORD, Dovecot, dovecot
from lmtp import deliver
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.reader import MailboxReader
from signoff.channels.email.settings import EmailSettings

MAIL = b"From: mara@example.com\r\nTo: %s\r\nSubject: Re: x\r\n\r\napprove\r\n"


@dataclass
class Log:
    """The log, and a way to wait for events in it."""

    entries: list[EventDict] = field(default_factory=list)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:
        """Take an event."""
        del logger
        self.entries.append({**event, "level": method})
        self._more.set()
        raise structlog.DropEvent

    def all(self, name: str) -> list[EventDict]:
        """Return all events of a name."""
        return [one for one in self.entries if one["event"] == name]

    async def wait(self, name: str, count: int = 1) -> EventDict:
        """Wait for this number of events with a name, and return the last one."""
        await self._until(lambda: len(self.all(name)) >= count)
        return self.all(name)[-1]

    async def read_up_to(self, uid: int) -> None:
        """Wait until a reader has stored, marked and passed a message, and waits for more."""
        await self._until(lambda: any(one["after"] >= uid for one in self.all("imap.waiting")))

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(300):
            while not condition():
                self._more.clear()
                await self._more.wait()


@pytest.fixture
def log() -> Log:
    """Return the log of a test."""
    log = Log()
    structlog.configure(processors=[log])
    return log


@pytest.fixture(scope="module")
def server() -> Iterator[Dovecot]:
    """Return a Dovecot for the tests of a module."""
    with dovecot() as running:
        yield running


@dataclass
class Box:
    """A mailbox in a Dovecot."""

    server: Dovecot
    name: str

    def settings(self, **imap: Any) -> EmailSettings:
        """Return settings that read the mailbox."""
        plain = {"host": "127.0.0.1", "port": self.server.imap, "security": "none", "timeout": 60}
        login = {} if "oauth" in imap else {"password": PASSWORD}
        return EmailSettings(
            mailbox=MAILBOX, imap={**plain, "username": self.name, **login, **imap}
        )

    async def deliver(
        self, raw: bytes = MAIL, *, token: str = "", sender: str = "mara@x.example"
    ) -> None:
        """Deliver a mail to the mailbox by LMTP."""
        name = f"{self.name}+{token}" if token else self.name
        await deliver(self.server.lmtp, f"{name}@signoff.example", raw, sender=sender)

    def flags(self) -> dict[int, set[str]]:
        """Return the flags of its messages by UID, as another mail program sees them."""
        with self.look() as client:
            _, answers = client.uid("FETCH", "1:*", "(FLAGS)")
        found = {}
        for answer in answers:
            if isinstance(answer, bytes):
                uid = int(answer.partition(b"UID ")[2].split()[0].rstrip(b")"))
                flags = imaplib.ParseFlags(answer)
                found[uid] = {flag.decode() for flag in flags} - {"\\Recent"}
        return found

    def look(self) -> imaplib.IMAP4:
        """Return another connection to the mailbox."""
        client = imaplib.IMAP4("127.0.0.1", self.server.imap)
        client.login(self.name, PASSWORD)
        client.select()
        return client


@pytest.fixture
def box(server: Dovecot) -> Box:
    """Return a mailbox that no other test uses."""
    return Box(server, f"box{secrets.token_hex(4)}")


Reading = Callable[..., AbstractAsyncContextManager[MailboxReader]]


@pytest.fixture
def reading(box: Box, ledger: Ledger, log: Log) -> Reading:
    """Read the mailbox with the given settings, and wait until it is opened."""

    @asynccontextmanager
    async def read(*, ready: str = "imap.reading", **imap: Any) -> AsyncIterator[MailboxReader]:
        reader = MailboxReader(box.settings(**imap), ledger)
        before = len(log.all(ready)) if ready else 0
        await reader.start()
        try:
            if ready:
                await log.wait(ready, before + 1)
            yield reader
        finally:
            await reader.stop()

    return read
