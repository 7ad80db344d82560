"""Opens stored mails: loads them, finds their tokens, reads them and proves their authors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from signoff.broker.ledger.change import Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import ReadMail
from signoff.channels.email.authentication.proof import Proof, Proven
from signoff.channels.email.inbound.readers import SentTo, nothing_sent
from signoff.channels.email.inbound.stored import StoredMail, load
from signoff.channels.email.parsing.addresses import normal_address, plus_parts
from signoff.channels.email.parsing.incoming import IncomingMail, tokens_in
from signoff.channels.pipeline.reply_tokens import Holder, find_holder
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import ApprovalNotFound, UnreadableMail

AHEAD: Final = 8
"""The most mails that are read ahead of the current one; each may have 1 MiB."""

_NOT_CHECKED: Final = Proof(address="", proven=Proven.NONE, why="it was not checked")

SentLines = Callable[[Approval, str], Collection[str]]
"""Returns the lines of a person's card."""


class Read(Protocol):
    """Reads a mail, as `read_mail` does, with the same errors."""

    def __call__(self, raw: bytes, sent_to: SentTo, /) -> Awaitable[IncomingMail]:
        """Return the content of a mail; see `Readers.read`."""
        ...


class Proves(Protocol):
    """Proves the author of a mail: an `Authenticator` here, or `Provers` in safe processes."""

    async def prove(self, raw: bytes, sender: str | None, *, peer: str, now: datetime) -> Proof:
        """Return what is proven about the author of a mail; see `Authenticator.prove`."""
        ...


async def read_here(raw: bytes, sent_to: SentTo = nothing_sent, /) -> IncomingMail:
    """Read a mail in a thread of this process, because reading would block the event loop."""
    from signoff.channels.email.parsing.reading import read_mail  # noqa: PLC0415 -- loads the parsers

    loop = asyncio.get_running_loop()

    async def lines_of(recipients: tuple[str, ...]) -> Collection[str]:
        return await sent_to(recipients)

    def lines(recipients: tuple[str, ...]) -> Collection[str]:
        return asyncio.run_coroutine_threadsafe(lines_of(recipients), loop).result()

    return await asyncio.to_thread(read_mail, raw, lines)


class Opened(NamedTuple):
    """A mail as it is stored and as it was read.

    Attributes:
        stored: The stored mail.
        mail: Its content, or why it cannot be read.
        tokens: The issued tokens in it, with their holders.
        proof: What is proven about its author.
    """

    stored: StoredMail
    mail: IncomingMail | UnreadableMail
    tokens: tuple[tuple[str, Holder], ...] = ()
    proof: Proof = _NOT_CHECKED


@dataclass(slots=True, eq=False)
class PendingMail:
    """A mail that is being read.

    Attributes:
        item: Its work.
        tokens: The issued tokens in it, with their holders, as soon as its headers are read.
        opened: The mail, when it is read; None if it was processed in the meantime.
    """

    item: Item
    tokens: tuple[tuple[str, Holder], ...] = ()
    opened: asyncio.Future[Opened | None] = field(init=False)

    def must_follow(self, earlier: PendingMail) -> bool:
        """Say whether both mails answer the same approval."""
        approvals = {holder.approval for _, holder in self.tokens}
        return any(holder.approval in approvals for _, holder in earlier.tokens)


class MailOpener:
    """Opens stored mails.

    Args:
        ledger: The ledger.
        mailbox: Our address for answers.
        sent_lines: Returns the lines that we sent, so that they are not read as the person's words.
        read: Reads mails.
        authenticator: Proves the authors of mails.
    """

    def __init__(
        self,
        ledger: Ledger,
        mailbox: str,
        *,
        sent_lines: SentLines | None,
        read: Read,
        authenticator: Proves,
    ) -> None:
        self._ledger = ledger
        self._mailbox = mailbox
        self._sent_lines = sent_lines
        self._read = read
        self._authenticator = authenticator

    async def open(self, reading: PendingMail, window: asyncio.Semaphore) -> Opened | None:
        """Load and read a mail as soon as the window has room for it."""
        await window.acquire()
        work = reading.item.work
        stored = await load(self._ledger, work.mail) if isinstance(work, ReadMail) else None
        if stored is None:
            return None

        async def sent_to(recipients: tuple[str, ...]) -> Collection[str]:
            tokens = self._tokens(stored, recipients)
            holders = [(token, await find_holder(self._ledger, token)) for token in tokens]
            issued = tuple((token, holder) for token, holder in holders if holder is not None)
            reading.tokens = issued
            return await self._lines_sent(issued[0][1]) if issued else ()

        try:
            mail = await self._read(stored.traced, sent_to)
            if not reading.tokens or mail.automatic:
                return Opened(stored, mail, reading.tokens)
            now = await self._ledger.now()
            # The DNS may be slow, so it is asked here, where mails do not wait for each other.
            proof = await self._authenticator.prove(
                stored.raw, mail.sender, peer=stored.peer, now=now
            )
        except UnreadableMail as error:
            return Opened(stored, error)
        return Opened(stored, mail, reading.tokens, proof)

    async def _lines_sent(self, holder: Holder) -> Collection[str]:
        """Return the lines of the card that a mail answers."""
        if self._sent_lines is None:
            return ()
        try:
            return self._sent_lines(await self._ledger.approval(holder.approval), holder.person)
        except ApprovalNotFound:
            return ()

    def _tokens(self, stored: StoredMail, recipients: Sequence[str]) -> tuple[str, ...]:
        """Return the tokens of the envelope and the header, without duplicates."""
        normal = (normal_address(address) for address in stored.recipients)
        envelope = plus_parts(tuple(one for one in normal if one), self._mailbox)
        return tuple(dict.fromkeys((*envelope, *tokens_in(recipients, self._mailbox))))


def leading(readings: Sequence[PendingMail]) -> Iterator[PendingMail]:
    """Yield the mails, in the order of arrival, that need not follow an earlier one."""
    for place, one in enumerate(readings):
        if not any(map(one.must_follow, readings[:place])):
            yield one
