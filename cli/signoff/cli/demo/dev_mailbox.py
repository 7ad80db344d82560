"""A mailbox for development: it accepts and stores all mail, and replies like a mail client."""

from __future__ import annotations

import asyncio
import mailbox
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email import message_from_bytes
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, make_msgid, parsedate_to_datetime
from pathlib import Path
from typing import Final, Self

import aiosmtplib
from aiosmtpd import smtp

from signoff.core.base.errors import MailDeferred, MailRefused, SignoffError

_LARGEST = 10 * 1024 * 1024
_ENVELOPE_TO = "X-Envelope-To"
# Python encodes what is longer than a line, also Message-IDs. No mail client does (RFC 2047
# section 5 forbids it).
_AS_CLIENTS: Final = SMTP.clone(max_line_length=998)


class MailNotFound(SignoffError):
    """The development mailbox does not have this mail."""


class DevMailbox:
    """An SMTP server on loopback that accepts and stores every mail.

    Use it inside a running event loop, as an async context manager or by `start` and `stop`.

    Args:
        folder: The Maildir; it is created if necessary, and existing mail stays.
        host: The address to listen on.
        port: The port; with 0 the system chooses one, which `port` then has.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1", port: int = 0) -> None:
        self.folder = folder
        self.host = host
        self.port = port
        self.received: list[EmailMessage] = []
        self._server: asyncio.Server | None = None
        self._arrived = asyncio.Condition()

    async def start(self) -> Self:
        """Listen.

        Raises:
            OSError: The address or port cannot be used.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: smtp.SMTP(self, data_size_limit=_LARGEST, enable_SMTPUTF8=True, loop=loop),
            self.host,
            self.port,
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def stop(self) -> None:
        """Stop listening; received mail stays in the folder."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def wait_for(
        self, predicate: Callable[[EmailMessage], bool], *, within: float | None = None
    ) -> EmailMessage:
        """Return the first mail, received since the start, for which the predicate is true.

        Args:
            predicate: Called with each mail, including those that have already arrived.
            within: Seconds to wait; None waits forever.

        Raises:
            TimeoutError: No such mail has arrived in time.
        """
        seen = 0
        async with asyncio.timeout(within), self._arrived:
            while True:
                for message in self.received[seen:]:
                    if predicate(message):
                        return message
                seen = len(self.received)
                await self._arrived.wait()

    async def handle_DATA(  # noqa: N802 -- aiosmtpd calls it by this name
        self, server: smtp.SMTP, session: smtp.Session, envelope: smtp.Envelope
    ) -> str:
        """Store a mail on disk before it is acknowledged."""
        del server, session
        content = envelope.original_content or b""
        recipients = ", ".join(envelope.rcpt_tos)
        stored = f"{_ENVELOPE_TO}: {recipients}\r\n".encode() + content
        await asyncio.to_thread(_maildir(self.folder).add, stored)
        async with self._arrived:
            self.received.append(parse(stored))
            self._arrived.notify_all()
        return "250 Kept"

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def parse(content: bytes) -> EmailMessage:
    """Return a mail of the development mailbox, parsed."""
    message = message_from_bytes(content, policy=SMTP)
    if not isinstance(message, EmailMessage):  # for the type checker: the policy creates one
        raise TypeError(type(message).__name__)
    return message


def stored(folder: Path) -> list[tuple[str, EmailMessage]]:
    """Return the number and the message of each mail in a Maildir, the oldest first."""
    if not folder.is_dir():
        return []
    box = _maildir(folder)
    mails = [parse(box.get_bytes(key)) for key in sorted(box.keys(), key=_arrival)]
    return [(str(number), message) for number, message in enumerate(mails, start=1)]


def find(folder: Path, number: str, *, answerable: bool = False) -> EmailMessage:
    """Return one mail of a Maildir by its number in `stored`.

    Args:
        folder: The Maildir.
        number: The number; ``last`` is the latest mail.
        answerable: Whether ``last`` passes over mails without a Reply-To, whose replies are not
            read. A message about an earlier request may come after a card.

    Raises:
        MailNotFound: There is no such mail.
    """
    mails = stored(folder)
    if number == "last" and mails:
        answered = (mail for _, mail in reversed(mails) if mail["Reply-To"])
        return next(answered, mails[-1][1]) if answerable else mails[-1][1]
    for key, message in mails:
        if key == number:
            return message
    if not mails:
        raise MailNotFound(f"No mail has come to {folder} yet.")
    raise MailNotFound(
        f"There is no mail {number!r} in {folder}. `signoff mailbox list` shows all of them."
    )


def text_of(message: EmailMessage) -> str:
    """Return the plain text of a mail, which a person reads; "" if it has none."""
    part = message.get_body(preferencelist=("plain",))
    if part is None or part.get_payload() is None:
        return ""
    content = part.get_content()
    return content if isinstance(content, str) else ""


def recipients_of(message: EmailMessage) -> tuple[str, ...]:
    """Return the recipients of the envelope, who have actually received the mail."""
    names = str(message[_ENVELOPE_TO] or message["To"] or "")
    return tuple(one.strip() for one in names.split(",") if one.strip())


def build_reply(message: EmailMessage, text: str, sender: str) -> EmailMessage:
    """Build the reply that a mail client would send.

    To is the Reply-To, the References grow by one, and the subject gets one "Re:". The original is
    quoted below a line with its author and its time.

    Args:
        message: The mail that is answered.
        text: The text that the person types above the quotation.
        sender: The person's address, with or without a name.
    """
    reply = EmailMessage(policy=SMTP)
    domain = sender.rpartition("@")[2].strip("> ")
    reply["From"] = sender
    reply["To"] = str(message["Reply-To"] or message["From"])
    subject = str(message["Subject"] or "")
    reply["Subject"] = subject if subject.lower().startswith("re:") else f"Re: {subject}"
    reply["Date"] = format_datetime(datetime.now(UTC))
    reply["Message-ID"] = make_msgid(domain=domain or "localhost")
    if answered := str(message["Message-ID"] or "").strip():
        reply["In-Reply-To"] = answered
        reply["References"] = f"{message['References'] or ''} {answered}".strip()
    reply.set_content(f"{text}\n\n{_attribution(message)}\n{_quoted(text_of(message))}\n")
    return reply


async def send(message: EmailMessage, *, host: str, port: int, recipients: Sequence[str]) -> None:
    """Send a mail by plain SMTP, as a server on the same machine would.

    Raises:
        MailRefused: The server refuses the mail.
        MailDeferred: The server cannot be reached, or cannot accept the mail now.
    """
    try:
        await aiosmtplib.send(
            message.as_bytes(policy=_AS_CLIENTS),
            sender=_bare(str(message["From"])),
            recipients=list(recipients),
            hostname=host,
            port=port,
            start_tls=False,
            timeout=15,
        )
    except (aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPResponseException) as error:
        codes = (
            [one.code for one in error.recipients]
            if isinstance(error, aiosmtplib.SMTPRecipientsRefused)
            else [error.code]
        )
        kind = MailDeferred if all(400 <= one < 500 for one in codes) else MailRefused
        raise kind(f"The mail server at {host}:{port} did not take the reply: {error}") from error
    except (aiosmtplib.SMTPException, OSError) as error:
        raise MailDeferred(
            f"The mail server at {host}:{port} cannot be reached: {error}. Is `signoff gateway` "
            "running, and is [email.inbound] set to this address?"
        ) from error


async def reply(
    message: EmailMessage, text: str, sender: str, *, host: str, port: int
) -> EmailMessage:
    """Build the reply to a mail, send it to the gateway, and return it.

    Raises:
        MailRefused, MailDeferred: See `send`.
    """
    answer = build_reply(message, text, sender)
    await send(answer, host=host, port=port, recipients=[_bare(str(answer["To"]))])
    return answer


def _attribution(message: EmailMessage) -> str:
    try:
        when = parsedate_to_datetime(str(message["Date"])).strftime("%a, %d %b %Y at %H:%M")
    except ValueError:
        when = "an earlier day"
    return f"On {when}, {message['From']} wrote:"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.rstrip().splitlines())


def _bare(address: str) -> str:
    """Return the address without the name."""
    inner = address.partition("<")[2].partition(">")[0]
    local, _, domain = (inner or address).strip().rpartition("@")
    return Address(username=local, domain=domain).addr_spec


def _maildir(folder: Path) -> mailbox.Maildir:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return mailbox.Maildir(folder, factory=None, create=True)


def _arrival(key: str) -> tuple[int, ...]:
    # A Maildir name begins with the seconds, and contains M<microseconds> and Q<counter>.
    seconds, _, rest = key.partition(".")
    micros = rest.partition("M")[2].partition("P")[0]
    count = rest.partition("Q")[2].partition(".")[0]
    return tuple(int(part) if part.isdigit() else 0 for part in (seconds, micros, count))
