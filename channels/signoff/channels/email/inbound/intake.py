"""The stage `intake`: mail that was stored is read, and what it says is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple, Protocol

import structlog
from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change, Item
from signoff.broker.monitoring import tracing
from signoff.broker.work import BundleKind, ReadMail, SendBundle
from signoff.channels.answers import ONCE_IN, Answers
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.proof import Proof, Proven
from signoff.channels.email.authentication.requirement import Fault, Finding, judge, owner_of
from signoff.channels.email.inbound.automatic_replies import AutomaticMail
from signoff.channels.email.inbound.duplicates import identity
from signoff.channels.email.inbound.limits import Limits
from signoff.channels.email.inbound.quarantine import lay_aside
from signoff.channels.email.inbound.readers import SentTo, nothing_sent
from signoff.channels.email.inbound.stored import StoredMail, is_known, load, remember
from signoff.channels.email.inbound.threads import why_not_ours
from signoff.channels.email.message_ids import MessageKey
from signoff.channels.email.parsing.addresses import normal_address, plus_parts
from signoff.channels.email.parsing.incoming import IncomingMail, Sort, tokens_in
from signoff.channels.incoming import Answer
from signoff.channels.pipeline.bundles import find_bundle
from signoff.channels.pipeline.cards import time_left
from signoff.channels.pipeline.outbox import backoff, dead_letter, drain, work_of
from signoff.channels.pipeline.reply_tokens import GRACE, Holder, Role, find_holder, redact
from signoff.core.approvals.approval import Approval, Shown, State
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import (
    ApprovalNotFound,
    Conflict,
    LeaseLost,
    LedgerUnavailable,
    UnreadableMail,
)
from signoff.core.directory.people import Person
from signoff.core.policies.policy import EmailProof

log = structlog.get_logger(__name__)

MOST_ATTEMPTS: Final = 5
"""How often a mail is tried before it is quarantined."""

PATIENCE_WITH_DNS: Final = 7
"""How often a mail is tried while the DNS is away, about five minutes; then it is unproven."""

_UNLOOKED: Final = Proof(address="", proven=Proven.NONE, why="nobody has looked")

_SEVERAL: Final = "Your mail went to several requests at once. Answer each in a mail of its own."

_AHEAD: Final = 8
"""How many mails are read ahead of the one that is processed: each may have 1 MiB."""

_PATIENCE: Final = 0.1
"""Seconds that the others wait for a mail whose turn it is; one that takes longer comes last."""

SentLines = Callable[[Approval, str], Collection[str]]
"""Returns the lines of the card that a person was sent."""


class Read(Protocol):
    """Reads a mail, as `read_mail` does and with its errors."""

    def __call__(self, raw: bytes, sent_to: SentTo, /) -> Awaitable[IncomingMail]:
        """Return what stands in it; see `Readers.read`."""
        ...


class Proves(Protocol):
    """Finds out who wrote a mail: an `Authenticator` here, `Provers` where it can do no harm."""

    async def prove(self, raw: bytes, sender: str | None, *, peer: str, now: datetime) -> Proof:
        """Return what is proven about who wrote a mail; see `Authenticator.prove`."""
        ...


async def read_here(raw: bytes, sent_to: SentTo = nothing_sent, /) -> IncomingMail:
    """Read a mail in a thread of this process: reading costs CPU, and others share the loop."""
    from signoff.channels.email.parsing.reading import read_mail  # noqa: PLC0415 -- the parsers

    loop = asyncio.get_running_loop()

    async def lines_of(recipients: tuple[str, ...]) -> Collection[str]:
        return await sent_to(recipients)

    def lines(recipients: tuple[str, ...]) -> Collection[str]:
        return asyncio.run_coroutine_threadsafe(lines_of(recipients), loop).result()

    return await asyncio.to_thread(read_mail, raw, lines)


class Opened(NamedTuple):
    """A mail as it is stored, and as it was read.

    Attributes:
        stored: None where it has been processed meanwhile.
        mail: What stands in it, or why it cannot be read.
        known: The tokens it carries that were issued, and to whom.
        proof: What is proven about its author.
    """

    stored: StoredMail | None = None
    mail: IncomingMail | UnreadableMail | None = None
    known: tuple[tuple[str, Holder], ...] = ()
    proof: Proof = _UNLOOKED


class Intake:
    """Reads stored mail and does what it says.

    Everything a mail does is one commit, which also acknowledges it: a process that dies in between
    has done nothing, and another one takes the mail up.

    Args:
        decisions: Makes the moves.
        mailbox: The address of ours that answers come to.
        sent_lines: What we sent, so that it is not taken for the person's words.
        read: Reads mails; `Readers.read` does it where it can do no harm.
        limits: Counts what decides nothing; without it everything is noted.
        authenticator: Finds out who wrote a mail; without one nothing proves it.
        required: What must be proven about an answer whose policy does not say.
        key: Makes the codes in our Message-IDs; without it anybody could.
        rewriting: Domains of relays that replace our Message-IDs; see `why_not_ours`.
        absence_page: Where people say that they are away, "" where there is no page.
    """

    def __init__(
        self,
        decisions: Decisions,
        *,
        mailbox: str,
        sent_lines: SentLines | None = None,
        read: Read = read_here,
        limits: Limits | None = None,
        authenticator: Proves | None = None,
        required: EmailProof = EmailProof.TOKEN_FROM,
        key: MessageKey | None = None,
        rewriting: Collection[str] = (),
        absence_page: str = "",
    ) -> None:
        self._key = key
        self._rewriting = tuple(rewriting)
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._answers = Answers(decisions, absence_page=absence_page)
        self._automatic_mail = AutomaticMail(decisions.ledger)
        self._mailbox = mailbox
        self._sent_lines = sent_lines
        self._read = read
        self._limits = limits
        self._authenticator = authenticator or Authenticator()
        self._required = required

    async def drain(self) -> int:
        """Work until nothing waits, and return how many items there were.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return await drain(self._ledger, stages.INTAKE, self.work)

    async def work(self, items: Sequence[Item]) -> None:
        """Process leased mails in the order in which they came; one that fails stops no other.

        They are read beside each other, and one that takes long to read is processed last.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        window = asyncio.Semaphore(_AHEAD)
        readings = [asyncio.ensure_future(self._open(item, window)) for item in items]
        try:
            late = dict(zip(readings, items, strict=True))
            for reading in readings:
                await asyncio.wait({reading}, timeout=_PATIENCE)
                if reading.done():
                    await self._try(late.pop(reading), reading, window)
            while late:
                await asyncio.wait(late, return_when=asyncio.FIRST_COMPLETED)
                for reading in [one for one in late if one.done()]:
                    await self._try(late.pop(reading), reading, window)
        finally:
            for reading in readings:
                reading.cancel()
            await asyncio.gather(*readings, return_exceptions=True)

    async def _open(self, item: Item, window: asyncio.Semaphore) -> Opened:
        """Load and read a mail, as soon as there is room for it."""
        await window.acquire()
        work = item.work
        stored = await load(self._ledger, work.mail) if isinstance(work, ReadMail) else None
        if stored is None:
            return Opened()
        known: tuple[tuple[str, Holder], ...] = ()

        async def sent_to(recipients: tuple[str, ...]) -> Collection[str]:
            nonlocal known
            tokens = self._tokens(stored, recipients)
            holders = [(token, await find_holder(self._ledger, token)) for token in tokens]
            known = tuple((token, holder) for token, holder in holders if holder is not None)
            return await self._lines_sent(known[0][1]) if known else ()

        try:
            mail = await self._read(stored.traced, sent_to)
            if not known or mail.automatic:
                return Opened(stored, mail, known)
            now = await self._ledger.now()
            # The DNS may take its time: so here, where the mails do not wait for each other.
            proof = await self._authenticator.prove(
                stored.raw, mail.sender, peer=stored.peer, now=now
            )
        except UnreadableMail as error:
            return Opened(stored, error)
        return Opened(stored, mail, known, proof)

    async def _lines_sent(self, holder: Holder) -> Collection[str]:
        """Return the lines of the card that a mail answers."""
        if self._sent_lines is None:
            return ()
        try:
            return self._sent_lines(await self._ledger.approval(holder.approval), holder.person)
        except ApprovalNotFound:
            return ()

    async def _try(
        self, item: Item, reading: asyncio.Future[Opened], window: asyncio.Semaphore
    ) -> None:
        try:
            await self._one(item, await reading)
        except LeaseLost:
            log.info("intake.lease_lost", item=item.id)
        except LedgerUnavailable:
            raise
        except Conflict as error:
            # Somebody works on another copy of this mail; looking again will show it.
            log.info("intake.disturbed", item=item.id, error=str(error))
            await self._failed(item, str(error))
        except Exception as error:
            log.exception("intake.failed", item=item.id, attempts=item.attempts)
            await self._failed(item, f"{type(error).__name__}: {error}")
        finally:
            window.release()

    async def _one(self, item: Item, opened: Opened) -> None:
        stored, mail, known, proof = opened
        if stored is None or mail is None:
            await self._ledger.commit(Change().ack(item))
            return
        if isinstance(mail, UnreadableMail):
            await self._quarantine(item, stored, str(mail))
            return
        if is_loop(stored):
            mail = replace(mail, automatic=mail.automatic or "it is ours", sort=Sort.OTHER)
        judged = [mail.sort.value, *mail.returned, *("/".join(holder) for _, holder in known)]
        judged += [proof.proven, *(str(self._vouched(proof, token)) for token, _ in known)]
        same = identity(mail, judged=judged, copy=stored.id)
        also = stored.done(Change().ack(item))
        if await is_known(self._ledger, same, *proof.contents):
            await self._ledger.commit(also)
            log.info("mail.known", mail=stored.id)
            return
        remember(also, same)
        holders = [holder for _, holder in known]
        if await self._is_too_much(also, stored, mail, holders, proof):
            return
        if mail.automatic:
            await self._automatic(also, stored, mail, holders)
        elif not known:
            why = "it carries no token that is known"
            await self._ignore(also, stored, why)
        elif known[0][1].role is Role.BUNDLE:
            await self._asked_which(also, stored, mail, known[0], proof)
        else:
            token, holder = known[0]
            source = stored.id[:16]
            answer = Answer(
                holder,
                token,
                source,
                mail.message_id,
                also,
                more=_kept(proof),
                vouched=self._vouched(proof, token),
            )
            try:
                with await self._span(holder):
                    several = len(known) > 1
                    await self._answered(item, answer, stored, mail, proof, several=several)
            except ApprovalNotFound as error:
                await self._ignore(also, stored, str(error))

    async def _span(self, holder: Holder) -> AbstractContextManager[object]:
        """Return a span of the trace that an answer belongs to.

        Raises:
            ApprovalNotFound: There is no such approval.
        """
        if not tracing.enabled():
            return nullcontext()
        approval = await self._ledger.approval(holder.approval)
        return tracing.span("intake", approval, channel=holder.channel)

    async def _asked_which(
        self,
        also: Change,
        stored: StoredMail,
        mail: IncomingMail,
        known: tuple[str, Holder],
        proof: Proof,
    ) -> None:
        """Ask back which request an answer to a bundle means, at most once a day.

        Whatever it says decides nothing. Only the person who got the bundle gets the list again.
        """
        token, holder = known
        author = owner_of(proof.address, self._decisions.directory)
        bundle = await find_bundle(self._ledger, holder.approval)
        told = f"told:bundle:{holder.approval}"
        mine = author is not None and author.id == holder.person
        if bundle is not None and mine and await self._ledger.raw(told) is None:
            also.put_raw(told, mail.message_id or stored.id, ttl=ONCE_IN)
            also.send(
                SendBundle(
                    channel=bundle.channel,
                    person=bundle.person,
                    bundle=holder.approval,
                    purpose=BundleKind.ANSWER,
                    listed=bundle.listed,
                    address=bundle.address,
                    token=token,
                    reply_to=mail.message_id,
                    cause=stored.id[:16],
                )
            )
        await self._ignore(also, stored, "it answers a list of requests and does not say which one")

    async def _answered(
        self,
        item: Item,
        answer: Answer,
        stored: StoredMail,
        mail: IncomingMail,
        proof: Proof,
        *,
        several: bool,
    ) -> None:
        seen = await self._ledger.current(answer.holder.approval)
        approval = seen.approval
        person = self._decisions.directory.get(answer.holder.person)
        if person is not None:
            finding = self._judge(answer, approval, person, proof)
            waits = finding.fault is Fault.UNPROVEN and proof.temporary
            if waits and item.attempts < PATIENCE_WITH_DNS:
                log.info("mail.waits_for_dns", mail=stored.id, why=proof.why)
                await self._ledger.commit(Change().retry(item, after=backoff(item.attempts)))
                return
            if finding.fault is not None:
                addresses = ", ".join(mail.from_addresses[:3]) or stored.sender or ""
                await self._refuse(answer, finding, proof, addresses[:254])
                return
        if _overtakes(approval, answer.holder) and item.attempts < MOST_ATTEMPTS:
            log.info("mail.waits_for_its_card", mail=stored.id, approval=approval.id)
            await self._ledger.commit(Change().retry(item, after=backoff(item.attempts)))
            return
        # A signed mail can be sent again by anyone, with everything unsigned in it changed.
        now = await self._ledger.now()
        for content in proof.contents:
            remember(answer.also, content, within=time_left(approval, now) + GRACE)
        problem = why_not_ours(
            mail, approval, key=await self._message_key(), rewriting=self._rewriting
        )
        problem = problem or mail.doubt
        if several and answer.holder.role is Role.APPROVER:
            problem = _SEVERAL
        await self._answers.take(answer, mail.own_text, problem=problem, seen=seen)

    async def _is_too_much(
        self,
        also: Change,
        stored: StoredMail,
        mail: IncomingMail,
        known: Sequence[Holder],
        proof: Proof,
    ) -> bool:
        """Say whether a mail decides nothing and there were too many of its kind; end it then.

        What the person who was asked has written is never too much here.
        """
        author = owner_of(proof.address, self._decisions.directory)
        proven = proof.proven is Proven.DMARC or proof.temporary
        believed = proven or self._required is not EmailProof.TOKEN_FROM_DMARC
        own = bool(known) and author is not None and author.id == known[0].person and believed
        if self._limits is None or (own and not mail.automatic):
            return False
        source = "/".join(known[0]) if known else ", ".join(mail.from_addresses)
        over = await self._limits.over_noise(source)
        if over == 1:
            await self._ignore(
                also, stored, "too many such mails came in an hour; more are not noted"
            )
        elif over:
            await self._ledger.commit(also)
            log.info("mail.limited", mail=stored.id)
        return over > 0

    def _judge(self, answer: Answer, approval: Approval, person: Person, proof: Proof) -> Finding:
        terms = approval.terms
        return judge(
            proof,
            required=(terms.email if terms is not None else None) or self._required,
            person=person,
            requester=approval.origin.user,
            address=self._address(answer.token),
            directory=self._decisions.directory,
        )

    async def _refuse(self, answer: Answer, finding: Finding, proof: Proof, addresses: str) -> None:
        if finding.fault is Fault.UNPROVEN:
            await self._answers.unproven(answer, finding.why)
            return
        # Mail that nothing proves may be anybody's: it is not answered.
        author = finding.author if proof.proven is Proven.DMARC else None
        await self._answers.stranger(answer, addresses, why=finding.why, author=author)

    def _address(self, token: str) -> str:
        local, _, domain = self._mailbox.rpartition("@")
        return f"{local}+{token}@{domain}"

    def _vouched(self, proof: Proof, token: str) -> bool:
        return proof.vouches_for(self._address(token))

    async def _message_key(self) -> bytes:
        return await self._key.get() if self._key is not None else b""

    def _tokens(self, stored: StoredMail, recipients: Sequence[str]) -> tuple[str, ...]:
        """Return the tokens of the envelope and of the header, each once."""
        normal = (normal_address(address) for address in stored.recipients)
        envelope = plus_parts(tuple(one for one in normal if one), self._mailbox)
        return tuple(dict.fromkeys((*envelope, *tokens_in(recipients, self._mailbox))))

    async def _automatic(
        self,
        also: Change,
        stored: StoredMail,
        mail: IncomingMail,
        known: Sequence[Holder],
    ) -> None:
        holder = await self._automatic_mail.holder(mail, known, key=await self._message_key())
        try:
            if holder is not None:
                await self._automatic_mail.take(holder, mail, also=also)
                return
            why = f"no person wrote it: {mail.automatic}"
        except ApprovalNotFound as error:
            why = str(error)
        await self._ignore(also, stored, why)

    async def _ignore(self, also: Change, stored: StoredMail, why: str) -> None:
        event = _event(await self._ledger.now(), stored, why)
        await self._ledger.commit(also.copy().note([event]))
        log.info("mail.ignored", mail=stored.id, why=why)

    async def _quarantine(self, item: Item, stored: StoredMail, problem: str) -> None:
        now = await self._ledger.now()
        await self._ledger.commit(
            await lay_aside(self._ledger, Change().ack(item), stored, problem, now=now)
        )
        log.error("mail.quarantined", mail=stored.id, problem=redact(problem))

    async def _failed(self, item: Item, problem: str) -> None:
        try:
            if item.attempts < MOST_ATTEMPTS:
                change = Change().retry(item, after=backoff(item.attempts))
                await self._ledger.commit(change)
                return
            work = work_of(item)
            if not isinstance(work, ReadMail):
                await self._ledger.commit(dead_letter(Change(), item, problem))
                return
            stored = await load(self._ledger, work.mail)
            if stored is None:
                await self._ledger.commit(Change().ack(item))
            else:
                await self._quarantine(item, stored, problem)
        except LeaseLost:
            log.info("intake.lease_lost", item=item.id)


def _overtakes(approval: Approval, holder: Holder) -> bool:
    """Say whether an answer is here before the note that its card was delivered.

    How much of the call the card shows stands in that note.
    """
    card = (holder.person, holder.channel)
    under_way = any(
        (one.person, one.channel) == card and not (one.receipt or one.problem)
        for one in approval.asked
    )
    shown = approval.shown_to(holder.person, holder.channel)
    return under_way and approval.state is State.PENDING and shown is Shown.UNKNOWN


def is_loop(stored: StoredMail) -> bool:
    """Say whether a mail is one of ours that came back, by the header that all of ours carry."""
    head = stored.raw.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return b"\nx-signoff-loop:" in b"\n" + head.lower()


def _kept(proof: Proof) -> dict[str, JsonValue]:
    """Return what the audit keeps of a proof."""
    kept = {"from": proof.address, "proven": proof.proven.value, "by": proof.by}
    kept |= {"domain": proof.domain}
    return {"proof": {name: value for name, value in kept.items() if value}}


def _event(now: datetime, stored: StoredMail, why: str) -> Event:
    return Event(what=What.IGNORED_MAIL, at=now, by="email", why=why, more={"mail": stored.id})
