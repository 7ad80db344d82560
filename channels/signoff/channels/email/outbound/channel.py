"""The email channel: cards, outcomes and notices as mails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.message import EmailMessage
from typing import TYPE_CHECKING, TypeVar

import structlog

from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.message_ids import MessageKey
from signoff.channels.email.outbound.rate_limit import AGAIN, MailRateLimit
from signoff.channels.email.outbound.render import (
    is_whole,
    plain_text,
    recipient,
    render,
    render_link,
)
from signoff.channels.email.outbound.settings import DkimSettings
from signoff.channels.email.outbound.smtp import Envelope, SmtpSender
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.port import (
    Delivered,
    Kind,
    LinkMail,
    Message,
    Pages,
    Refused,
    Result,
    Retry,
)
from signoff.channels.pipeline.reply_tokens import Holder
from signoff.core.approvals.approval import Approval, Shown
from signoff.core.base.errors import (
    LedgerUnavailable,
    MailError,
    MailLoginRefused,
    MailRefused,
    MailThrottled,
    MailUncertain,
)
from signoff.core.cards.card import card
from signoff.core.directory.people import Directory
from signoff.core.payloads.payload import find_field

if TYPE_CHECKING:
    from signoff.channels.email.outbound.dkim import Signer

log = structlog.get_logger(__name__)

M = TypeVar("M", Message, LinkMail)


class EmailChannel:
    """Delivers by SMTP. The receipt is the Message-ID.

    Args:
        settings: The settings.
        rate_limit: Limits mails and connections; None for no limit.
        tokens: The source of OAuth tokens, if the login does not use a password.
        key: The key of the codes in the Message-IDs.

    Raises:
        ConfigError: A file that the settings name cannot be read.
    """

    name = "email"
    bundles = True

    def __init__(
        self,
        settings: EmailSettings,
        *,
        rate_limit: MailRateLimit | None = None,
        tokens: Tokens | None = None,
        key: MessageKey | None = None,
    ) -> None:
        self._settings = settings
        self._rate_limit = rate_limit
        self._key = key
        self._signer = _signer(settings.dkim)
        self._sender = SmtpSender(settings.smtp, hostname=settings.domain, tokens=tokens)

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Deliver a batch over one connection; see `Channel`."""
        return await self._deliver(messages, render)

    async def deliver_links(self, messages: Sequence[LinkMail]) -> list[Result]:
        """Deliver sign-in links, in the same way as `deliver`."""
        return await self._deliver(messages, render_link)

    async def _deliver(
        self, messages: Sequence[M], write: Callable[[M, EmailSettings, bytes], EmailMessage]
    ) -> list[Result]:
        try:
            key = await self._key.get() if self._key is not None else b""
        except LedgerUnavailable as error:
            return [Retry(0, str(error), counted=False, unsure=_is_unsure(one)) for one in messages]
        results: dict[int, Result] = {}
        mails: dict[int, Envelope] = {}
        receipts: dict[int, str] = {}
        shown: dict[int, Shown] = {}
        for at, message in enumerate(messages):
            try:
                mail = write(message, self._settings, key)
                data = mail.as_bytes()
                if self._signer is not None:
                    data = self._signer.sign(data)
                mails[at] = Envelope(self._from(message), recipient(message), data)
                receipts[at] = str(mail["Message-ID"])
                shown[at] = _shown(message)
            except MailRefused as error:
                results[at] = Refused(str(error))
            except Exception as error:
                log.exception("mail.not_rendered", message=message.id)
                problem = f"{type(error).__name__}: {error}"
                results[at] = Retry(0, problem, unsure=_is_unsure(message))
        outcomes = await self._send(list(mails.values())) if mails else []
        for at, failure in zip(mails, outcomes, strict=True):
            result = Delivered(receipts[at], shown=shown[at])
            unsure = _is_unsure(messages[at])
            results[at] = result if failure is None else _result(failure, unsure=unsure)
        return [results[at] for at in range(len(messages))]

    async def _send(self, mails: Sequence[Envelope]) -> list[MailError | None]:
        """Send as many mails as the limit allows; the others wait for their turn."""
        limit = self._rate_limit
        if limit is None:
            return await self._sender.send(mails)
        try:
            async with limit.connection() as free:
                most = await limit.grant(len(mails)) if free else 0
                outcomes = await self._sender.send(mails[:most]) if most else []
                if any(isinstance(one, MailThrottled | MailLoginRefused) for one in outcomes):
                    await limit.rest()
        except LedgerUnavailable as error:
            return [MailThrottled(f"The pace cannot be looked up: {error}")] * len(mails)
        waiting = MailThrottled("It waits for the limits in [email.smtp]: per_minute, connections.")
        return [*outcomes, *[waiting] * (len(mails) - most)]

    def _from(self, message: Message | LinkMail) -> str:
        if isinstance(message, Message) and message.token and self._settings.bounces:
            return self._settings.reply_address(message.token)
        return self._settings.sender_address


def _shown(message: Message | LinkMail) -> Shown:
    if not isinstance(message, Message) or message.kind is not Kind.CARD:
        return Shown.UNKNOWN
    return Shown.COMPLETE if is_whole(message.card) else Shown.CUT


def _is_unsure(message: Message | LinkMail) -> bool:
    """Return whether an earlier attempt may have delivered a mail."""
    return isinstance(message, Message) and message.unsure


def _result(error: MailError, *, unsure: bool) -> Result:
    """Return the result of a mail that was not accepted.

    An unsure one may have been delivered by an earlier attempt.
    """
    if isinstance(error, MailThrottled):
        return Retry(AGAIN, str(error), counted=False, unsure=unsure)
    if isinstance(error, MailRefused):
        return Refused(str(error))
    return Retry(0, str(error), unsure=unsure or isinstance(error, MailUncertain))


def sent_lines(
    approval: Approval,
    person: str,
    *,
    directory: Directory,
    settings: EmailSettings,
    inbox: Pages | None = None,
) -> frozenset[str]:
    """Return the lines of a person's card, so that a quotation of them is not read as an answer.

    `signoff.channels.words.messages.harmless` ensures that these lines cannot be an answer. A line
    that looks like a value of the payload may be the person's own, so it is not in the list.
    """
    message = Message(
        id=Holder(approval.id, person, EmailChannel.name).card,
        kind=Kind.CARD,
        card=card(approval, directory),
        person=person,
        name="",
        address="",
        at=approval.since or approval.opened_at,
        zone=directory.zone_of(person),
        link=inbox.link_to(approval.id) if inbox is not None else "",
    )
    return frozenset(
        line
        for line in plain_text(message, settings).splitlines()
        if line.strip() and find_field(approval.template, line.partition(":")[0].strip()) is None
    )


def _signer(settings: DkimSettings) -> Signer | None:
    if settings.key is None:
        return None
    from signoff.channels.email.outbound.dkim import Signer  # noqa: PLC0415 -- loads cryptography

    return Signer(settings, settings.key)
