"""Unexpected answers of a server cause an error that describes them, and nothing worse."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from channels.email.imap.conftest import Log
from channels.email.imap.scripted import Scripted, scripted
from channels.email.imap.test_reader import audit, stored
from dovecot import PASSWORD, Dovecot, dovecot
from lmtp import deliver
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.connection import Folder, LoginRefused
from signoff.channels.email.imap.reader import MailboxReader
from signoff.channels.email.imap.session import ImapSession
from signoff.channels.email.imap.settings import ImapSettings
from signoff.channels.email.settings import EmailSettings
from signoff.core.base.errors import (
    ConfigError,
    MailboxError,
    MailboxRefused,
    MailboxUnavailable,
)


def settings(port: int, **more: Any) -> ImapSettings:
    """Return the settings for a server on loopback."""
    plain = {"host": "localhost", "port": port, "security": "none", "timeout": 60}
    return ImapSettings.model_validate(
        plain | {"username": "approvals", "password": PASSWORD} | more
    )


async def look(port: int, token: str = "", **more: Any) -> tuple[Folder, bytes | None]:
    """Log in, open the folder, fetch the first message, and leave."""
    imap = settings(port, **more)
    async with await ImapSession.open(imap, largest=100, token=token) as session:
        folder = await session.call(session.mailbox.select)
        return folder, await session.call(session.mailbox.fetch, 1)


@asynccontextmanager
async def opened(server: Scripted) -> AsyncIterator[ImapSession]:
    """Log in; every message counts as seen."""
    async with await ImapSession.open(settings(server.port), largest=100) as session:
        await session.call(session.mailbox.select)
        await session.call(session.mailbox.search, 0, date(2026, 1, 1))
        yield session


async def test_the_client_marks_nothing_seen_and_fetches_the_minimum() -> None:
    """The client marks no message as seen and fetches no more than it needs."""
    async with scripted() as server:
        assert await look(server.port) == (Folder(7, keywords=True), b"one\r\n")
    fetches = [one for one in server.heard if "FETCH" in one]
    assert fetches == ["UID FETCH 1 (BODY.PEEK[]<0.101>)"]
    assert server.heard[-1] == "LOGOUT"


HOSTILE = {
    "a huge literal": b"* 1 FETCH (UID 1 BODY[]<0> {99999999999}\r\n",
    "a literal that ends early": b"* 1 FETCH (UID 1 BODY[]<0> {50}\r\nabc\r\nHANGUP",
    "a line without end": b"* " + b"x" * (3 << 20),
    "an answer without end": b"* OK still there\r\n" * 400_000,
    "nothing": b"",
    "garbage": b"\x00\xff\r\n",
    "another's tag": b"XXXX9 OK done\r\n",
    "a good-bye": b"* BYE too many connections\r\nHANGUP",
    "the end": b"HANGUP",
    "brackets in brackets": b"* 1 FETCH " + b"(" * 100_000 + b"\r\n%s OK done\r\n",
    "no message": b"* 1 FETCH (UID 1 BODY[]<0> NIL)\r\n%s OK done\r\n",
    "no numbers": b"* 1 FETCH (UID x BODY[]<0> {1}\r\nx)\r\n%s OK done\r\n",
    "a refusal": b"%s NO I would rather not\r\n",
    "a reproach": b"%s BAD what?\r\n",
}


@pytest.mark.parametrize("said", HOSTILE.values(), ids=HOSTILE)
async def test_any_fetch_response_is_parsed_within_limits(said: bytes) -> None:
    """An error describes the server's answer, in limited time and memory."""
    async with scripted(says={"UID FETCH 1 ": said}) as server:
        with pytest.raises(MailboxError, match="The IMAP server localhost"):
            await look(server.port, timeout=2)


GREETINGS = {
    "nothing": b"",
    "garbage": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a good-bye": b"* BYE go away\r\n",
    "a line without end": b"* OK " + b"x" * (3 << 20),
}


@pytest.mark.parametrize("greeting", GREETINGS.values(), ids=GREETINGS)
async def test_any_greeting_is_parsed_within_limits(greeting: bytes) -> None:
    """The same holds for the greeting."""
    async with scripted(greeting=greeting) as server:
        with pytest.raises(MailboxError, match="cannot be reached"):
            await look(server.port, timeout=2)


async def test_a_message_deleted_before_its_fetch_is_skipped() -> None:
    """Another client may delete a message between search and fetch."""
    async with scripted(says={"UID FETCH 1 ": b"%s OK done\r\n"}) as server:
        assert (await look(server.port))[1] is None


async def test_a_message_notice_sent_with_the_idle_confirmation_is_noticed() -> None:
    """A message notice in the segment that confirms the idling is not lost."""
    said = b"+ idling\r\n* 3 EXISTS\r\n"
    async with scripted(says={"IDLE": said}) as server, opened(server) as session:
        async with asyncio.timeout(300):
            await session.call_for(1000, session.mailbox.wait, 1000)
        assert session.mailbox.has_new_mail
    assert "DONE" in server.heard


@pytest.mark.parametrize(
    "said", [b"* BYE restart\r\nHANGUP", b"HANGUP", b"+ idling\r\n* BYE idle too long\r\nHANGUP"]
)
async def test_the_end_of_the_waiting_is_heard(said: bytes) -> None:
    """A server that hangs up at or during idling does not leave the client waiting."""
    async with scripted(says={"IDLE": said}) as server, opened(server) as session:
        async with asyncio.timeout(300):
            with pytest.raises(MailboxUnavailable):
                await session.call_for(1000, session.mailbox.wait, 1000)


async def test_the_connection_is_probed_before_networks_forget_it() -> None:
    """A network that drops an idle connection sends nothing, and new mail would wait for long."""
    async with scripted() as server, opened(server) as session:
        line = session.mailbox._line.sock
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


async def test_closing_a_session_releases_the_waiting_thread() -> None:
    """The waiting thread returns although the server is silent."""
    async with scripted() as server, opened(server) as session:
        waiting = asyncio.create_task(session.call_for(1000, session.mailbox.wait, 1000))
        await server.idling.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with asyncio.timeout(300):
            for thread in threading.enumerate():
                if thread.name.startswith("imap"):
                    await asyncio.to_thread(thread.join)


@pytest.mark.parametrize(
    ("capabilities", "token", "said", "kind", "text"),
    [
        (b"IMAP4rev1", "", b"%s NO [UNAVAILABLE] later\r\n", MailboxUnavailable, "later"),
        (b"IMAP4rev1", "", b"%s NO wrong: secret\r\n", LoginRefused, r"wrong: \[hidden\]"),
        (b"IMAP4rev1", "", b"* BYE\r\nHANGUP", MailboxUnavailable, "refuses the login"),
        (b"IMAP4rev1 LOGINDISABLED", "", b"", MailboxRefused, "accepts no password here"),
        (b"IMAP4rev1", "t0ken", b"", MailboxRefused, "accepts no OAuth tokens"),
    ],
)
async def test_logins_that_fail(
    *, capabilities: bytes, token: str, said: bytes, kind: type[MailboxError], text: str
) -> None:
    """A temporary failure is tried again, a refusal is reported, and secrets stay secret."""
    async with scripted(capabilities=capabilities, says={"LOGIN": said}) as server:
        with pytest.raises(MailboxError, match=text) as caught:
            await look(server.port, token)
    assert type(caught.value) is kind
    assert not any(one.startswith("LOGIN") and "LOGINDISABLED" in one for one in server.heard)


async def test_a_token_by_oauthbearer() -> None:
    """The client uses RFC 7628 if the server has it, instead of Google's older method."""
    async with scripted(capabilities=b"IMAP4rev1 AUTH=OAUTHBEARER") as server:
        await look(server.port, "t0ken", username="a,b@x.example")
    expected = b"n,a=a=2Cb@x.example,\x01auth=Bearer t0ken\x01\x01"
    assert base64.b64encode(expected).decode() in server.heard


UNFETCHABLE = {
    "refused": {"UID FETCH 1 (BODY": b"%s NO the message is damaged\r\n"},
    "refused for now": {"UID FETCH 1 (BODY": b"%s NO [SERVERBUG] it is damaged\r\n"},
    "the end": {"UID FETCH 1 (BODY": b"* BYE it is damaged\r\nHANGUP"},
    "its size is refused": {
        "UID FETCH 1,2": b"%s NO one is damaged\r\n",
        "UID FETCH 1 ": b"%s NO it is damaged\r\n",
        "UID FETCH 2 (RFC": b"* 2 FETCH (UID 2 RFC822.SIZE 20 FLAGS ())\r\n%s OK done\r\n",
    },
}


@pytest.mark.parametrize("says", UNFETCHABLE.values(), ids=UNFETCHABLE)
async def test_an_unfetchable_message_does_not_block_the_others(
    ledger: Ledger, log: Log, says: dict[str, bytes]
) -> None:
    """It is tried ten times, after the others, and then noted."""
    alone = {
        "UID FETCH 1 (RFC": b"* 1 FETCH (UID 1 RFC822.SIZE 20 FLAGS ())\r\n%s OK done\r\n",
        "UID FETCH 2 (RFC": b"* 2 FETCH (UID 2 RFC822.SIZE 20 FLAGS ())\r\n%s OK done\r\n",
    }
    async with scripted(says=alone | says) as server:
        email = EmailSettings(imap=settings(server.port))
        one = MailboxReader(email, ledger, pause=0.001)
        await one.start()
        await log.wait("mail.stored")
        assert len(log.all("imap.failed")) == 2
        await log.read_up_to(2)
        await one.stop()
    (mail,) = await stored(ledger)
    assert mail.raw == b"two\r\n"
    (noted,) = await audit(ledger)
    assert "damaged" in noted.why
    assert noted.more["uid"] == 1
    # Which of the two cannot be fetched is not known at first.
    assert len(log.all("imap.failed")) == 11


async def test_only_new_message_is_passed_over_if_the_one_before_it_can_be_fetched(
    ledger: Ledger, log: Log
) -> None:
    """The mailbox does not stay degraded until another mail comes."""
    old = b"* SEARCH 1\r\n%s OK done\r\n"
    alone = {
        "UID SEARCH UID 1:1": old,
        "UID FETCH 1 (RFC": b"* 1 FETCH (UID 1 RFC822.SIZE 20 FLAGS ())\r\n%s OK done\r\n",
        "UID FETCH 2 (RFC": b"* 2 FETCH (UID 2 RFC822.SIZE 20 FLAGS ())\r\n%s OK done\r\n",
        "UID FETCH 2 (BODY": b"%s NO the message is damaged\r\n",
    }
    async with scripted(says=alone | {"UID SEARCH": old}) as server:
        email = EmailSettings(imap=settings(server.port))
        first = MailboxReader(email, ledger)
        await first.start()
        await log.read_up_to(1)
        await first.stop()
        server.says = alone
        again = MailboxReader(email, ledger, pause=0.001)
        await again.start()
        await log.read_up_to(2)
        assert again.problem == ""
        await again.stop()
    assert [mail.raw for mail in await stored(ledger)] == [b"one\r\n"]
    (noted,) = await audit(ledger)
    assert noted.more["uid"] == 2
    assert len(log.all("imap.failed")) == 11


async def test_no_message_is_passed_over_while_the_server_returns_none(
    ledger: Ledger, log: Log
) -> None:
    """Gmail does so for up to a day beyond its limits; then the messages are stored."""
    said = {
        "UID SEARCH": b"* SEARCH 1\r\n%s OK done\r\n",
        "UID FETCH 1 (RFC": b"* 1 FETCH (UID 1 RFC822.SIZE 5 FLAGS ())\r\n%s OK done\r\n",
    }
    refused = b"%s NO [OVERQUOTA] Account exceeded command or bandwidth limits\r\n"
    async with scripted(says=said | {"UID FETCH 1 (BODY": refused}) as server:
        one = MailboxReader(EmailSettings(imap=settings(server.port)), ledger, pause=0.0001)
        await one.start()
        await log.wait("imap.failed", 13)
        server.says = said
        await log.read_up_to(1)
        await one.stop()
    assert [mail.raw for mail in await stored(ledger)] == [b"one\r\n"]
    assert log.all("imap.passed_over") == []


@pytest.mark.parametrize("said", [b"%s NO not allowed\r\n", b"%s NO [OVERQUOTA] not allowed\r\n"])
async def test_a_refused_keyword_does_not_stop_the_reader(
    ledger: Ledger, log: Log, said: bytes
) -> None:
    """The keyword is only for people: the mail is stored and the cursor moves."""
    async with scripted(says={"UID STORE": said}) as server:
        one = MailboxReader(EmailSettings(imap=settings(server.port)), ledger)
        await one.start()
        await log.read_up_to(2)
        await one.stop()
    assert len(await stored(ledger)) == 2
    assert "not allowed" in log.all("imap.not_marked")[0]["error"]
    assert log.all("imap.failed") == []


async def test_a_server_that_disconnects_at_the_keyword_does_not_stop_the_reader(
    ledger: Ledger, log: Log
) -> None:
    """The cursor has moved before, so the messages are not read again."""
    async with scripted(says={"UID STORE": b"* BYE over quota\r\nHANGUP"}) as server:
        one = MailboxReader(EmailSettings(imap=settings(server.port)), ledger, pause=0.001)
        await one.start()
        await log.read_up_to(2)
        await one.stop()
    assert len(await stored(ledger)) == 2
    assert len(log.all("imap.failed")) == 1


@pytest.mark.parametrize("said", [b"%s NO not here\r\n", b"%s BAD what?\r\n"])
async def test_a_server_that_refuses_idle_is_polled(ledger: Ledger, log: Log, said: bytes) -> None:
    """A server, or a proxy before it, may announce IDLE and refuse it."""
    async with scripted(says={"IDLE": said}) as server:
        one = MailboxReader(EmailSettings(imap=settings(server.port, poll=1)), ledger)
        await one.start()
        await log.wait("imap.waiting", 2)
        await one.stop()
    assert len(log.all("imap.polls")) == 1
    assert server.heard.count("IDLE") == 1
    assert sum("SEARCH" in line for line in server.heard) > 1
    assert log.all("imap.failed") == []


async def test_a_size_that_was_an_estimate(ledger: Ledger, log: Log) -> None:
    """A mail that exceeds the limit only when fetched is noted like one with a known size."""
    body = b"x" * (16 * 1024 + 1)
    said = b"* 1 FETCH (UID 1 BODY[]<0> {%d}\r\n" % len(body) + body + b")\r\nTAG OK done\r\n"
    head = b"* 1 FETCH (UID 1 BODY[HEADER]<0> {5}\r\none\r\n)\r\n%s OK done\r\n"
    says = {"UID FETCH 1 ": said.replace(b"TAG", b"%s")}
    says["UID FETCH 1 (BODY.PEEK[HEADER]"] = head
    async with scripted(says=says) as server:
        email = EmailSettings.model_validate(
            {"imap": settings(server.port), "inbound": {"max_bytes": 16 * 1024}}
        )
        one = MailboxReader(email, ledger)
        await one.start()
        await log.read_up_to(2)
        await one.stop()
    # They are stored in the same millisecond, so they may come in another order.
    mails = sorted((mail.raw, mail.is_cut) for mail in await stored(ledger))
    assert mails == [(b"one\r\n", True), (b"two\r\n", False)]
    assert "more than the 16384 bytes" in (await audit(ledger))[0].why


# -- TLS --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secure(certificate: Path) -> Iterator[Dovecot]:
    """Return a Dovecot with a certificate."""
    with dovecot(certificate=certificate) as running:
        asyncio.run(deliver(running.lmtp, "approvals", b"Subject: x\r\n\r\nhello\r\n"))
        yield running


@pytest.mark.parametrize("security", ["tls", "starttls"])
async def test_over_tls(secure: Dovecot, certificate: Path, security: str) -> None:
    """A trusted certificate works; an untrusted one is reported."""
    port = secure.imaps if security == "tls" else secure.imap
    folder, raw = await look(port, security=security, ca_file=certificate)
    assert folder.keywords
    assert raw is not None
    with pytest.raises(MailboxRefused, match=r"no safe connection: .*\. Check \[email.imap\] host"):
        await look(port, security=security)


async def test_news_over_tls(secure: Dovecot, certificate: Path, ledger: Ledger, log: Log) -> None:
    """TLS's own messages during idling are ignored, and new mail is noticed."""
    imap = settings(secure.imaps, security="tls", ca_file=certificate, idle=1000, username="news")
    one = MailboxReader(EmailSettings(imap=imap), ledger)
    await one.start()
    for uid in (1, 2):
        await log.wait("imap.waiting", uid)
        await deliver(secure.lmtp, "news", b"Subject: x\r\n\r\nhello\r\n")
        await log.read_up_to(uid)
    await one.stop()
    assert len(log.all("imap.reading")) == 1


async def test_a_server_that_has_no_tls_is_not_talked_to(server: Dovecot) -> None:
    """The password is not sent if encryption is required but not available."""
    for security in ("tls", "starttls"):
        with pytest.raises(MailboxError, match="cannot be reached"):
            await look(server.imap, security=security)


async def test_plaintext_before_starttls_is_dropped(
    certificate: Path, server_tls: ssl.SSLContext
) -> None:
    """An attacker may add an answer to that of STARTTLS; it is dropped."""
    injected = b"%s OK begin\r\n* CAPABILITY IMAP4rev1 LOGINDISABLED\r\n"
    greeting = b"* OK [CAPABILITY IMAP4rev1 STARTTLS AUTH=PLAIN] hello\r\n"
    made = {"says": {"STARTTLS": injected}, "greeting": greeting, "tls": server_tls}
    async with scripted(**made, capabilities=b"IMAP4rev1 STARTTLS AUTH=PLAIN") as server:
        _, raw = await look(server.port, security="starttls", ca_file=certificate)
    assert raw == b"one\r\n"
    before = server.heard.index("STARTTLS")
    assert not any(one.startswith(("LOGIN", "AUTHENTICATE")) for one in server.heard[:before])


async def test_a_preauth_greeting_does_not_bypass_tls(certificate: Path) -> None:
    """After PREAUTH there is no STARTTLS, so the mailbox is not read."""
    async with scripted(greeting=b"* PREAUTH welcome\r\n") as server:
        with pytest.raises(MailboxError, match="cannot be reached"):
            await look(server.port, security="starttls", ca_file=certificate)
    assert not any("SELECT" in one for one in server.heard)


async def test_unreadable_certificates_stop_the_gateway_at_startup(ledger: Ledger) -> None:
    """The gateway does not start with a certificate file that cannot work."""
    email = EmailSettings(imap=settings(1, security="tls", ca_file="/nowhere/ca.pem"))
    with pytest.raises(ConfigError, match=r"email\.imap\.ca_file"):
        MailboxReader(email, ledger)


def test_a_scripted_server_is_only_as_good_as_its_script() -> None:
    """A command that is not scripted gets the answer of a plain server."""
    assert Scripted().answer("NOOP") == b"%s OK done\r\n"
