"""The stage `intake`: reads stored mail, and carries out what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Final

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
from signoff.channels.email.authentication.requirement import AuthorCheck, Fault, judge, owner_of
from signoff.channels.email.inbound.automatic_replies import AutomaticMail
from signoff.channels.email.inbound.duplicates import identity
from signoff.channels.email.inbound.limits import Limits
from signoff.channels.email.inbound.opening import (
    AHEAD,
    MailOpener,
    Opened,
    PendingMail,
    Proves,
    Read,
    SentLines,
    leading,
    read_here,
)
from signoff.channels.email.inbound.quarantine import quarantine_mail
from signoff.channels.email.inbound.stored import StoredMail, is_known, load, remember
from signoff.channels.email.inbound.threads import why_not_ours
from signoff.channels.email.message_ids import MessageKey
from signoff.channels.email.parsing.incoming import IncomingMail, Sort
from signoff.channels.incoming import Answer
from signoff.channels.pipeline.bundles import find_bundle
from signoff.channels.pipeline.cards import time_left
from signoff.channels.pipeline.outbox import StageWork, backoff, dead_letter, work_of
from signoff.channels.pipeline.reply_tokens import GRACE, Holder, Role, redact
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
"""The most attempts before a mail is quarantined."""

PATIENCE_WITH_DNS: Final = 7
"""The most attempts while the DNS is down, about five minutes; then the mail is unproven."""

_SEVERAL: Final = "Your mail answers several requests at once. Answer each in a separate mail."

_PATIENCE: Final = 0.1


class Intake(StageWork):
    """Reads stored mail and carries out what it says.

    All effects of a mail are one commit, which also acknowledges it: if a process dies before it,
    nothing was done, and another process takes the mail.

    Args:
        decisions: Makes the moves.
        mailbox: Our address for answers.
        sent_lines: Returns the lines that we sent, so that they are not read as the person's words.
        read: Reads mails; `Readers.read` does it in safe processes.
        limits: Counts mails that decide nothing; without it, all of them are recorded.
        authenticator: Proves the authors of mails; without it, nothing is proven.
        required: The required proof for an answer whose policy does not set one.
        key: The key of the codes in our Message-IDs; without it, anybody could compute them.
        rewriting: Domains of relays that replace our Message-IDs; see `why_not_ours`.
        absence_page: The page on which people set an absence, "" if there is none.
        patience: Seconds to wait for the next mail to be read; a slower one is processed last.
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
        patience: float = _PATIENCE,
    ) -> None:
        super().__init__(decisions.ledger, stages.INTAKE)
        self._patience = patience
        self._key = key
        self._rewriting = tuple(rewriting)
        self._decisions = decisions
        self._answers = Answers(decisions, absence_page=absence_page)
        self._automatic_mail = AutomaticMail(decisions.ledger)
        self._mailbox = mailbox
        self._opener = MailOpener(
            decisions.ledger,
            mailbox,
            sent_lines=sent_lines,
            read=read,
            authenticator=authenticator or Authenticator(),
        )
        self._limits = limits
        self._required = required

    async def work(self, items: Sequence[Item]) -> None:
        """Process leased mails in the order of arrival; a failure does not stop the others.

        They are read concurrently. A mail that takes long to read is processed last, and so are the
        later mails about the same approval.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        window = asyncio.Semaphore(AHEAD)
        readings = [PendingMail(item) for item in items]
        for one in readings:
            one.opened = asyncio.ensure_future(self._opener.open(one, window))
        late: list[PendingMail] = []
        try:
            for one in readings:
                await asyncio.wait({one.opened}, timeout=self._patience)
                if one.opened.done() and not any(map(one.must_follow, late)):
                    await self._try(one, window)
                else:
                    late.append(one)
            while late:
                free = {one.opened for one in leading(late)}
                await asyncio.wait(free, return_when=asyncio.FIRST_COMPLETED)
                one = next(one for one in late if one.opened in free and one.opened.done())
                late.remove(one)
                await self._try(one, window)
        finally:
            for one in readings:
                one.opened.cancel()
            await asyncio.gather(*(one.opened for one in readings), return_exceptions=True)

    async def _try(self, reading: PendingMail, window: asyncio.Semaphore) -> None:
        item = reading.item
        try:
            opened = await reading.opened
            if opened is None:
                await self._ledger.commit(Change().ack(item))
            else:
                await self._take(item, opened)
        except LeaseLost:
            log.info("intake.lease_lost", item=item.id)
        except LedgerUnavailable:
            raise
        except Conflict as error:
            # Another process handles another copy of this mail; the next attempt will see that.
            log.info("intake.disturbed", item=item.id, error=str(error))
            await self._failed(item, str(error))
        except Exception as error:
            log.exception("intake.failed", item=item.id, attempts=item.attempts)
            await self._failed(item, f"{type(error).__name__}: {error}")
        finally:
            window.release()

    async def _take(self, item: Item, opened: Opened) -> None:
        """Carry out what a mail says, or record why it decides nothing."""
        stored, mail, tokens, proof = opened
        if isinstance(mail, UnreadableMail):
            await self._quarantine(item, stored, str(mail))
            return
        if is_loop(stored):
            mail = replace(mail, automatic=mail.automatic or "Signoff sent it", sort=Sort.OTHER)
        judged = ["cut"] * stored.is_cut + [
            mail.sort.value,
            *mail.returned,
            *("/".join(holder) for _, holder in tokens),
        ]
        judged += [proof.proven, *(str(self._vouched(proof, token)) for token, _ in tokens)]
        same = identity(mail, judged=judged, copy=stored.id)
        also = stored.done(Change().ack(item))
        if await is_known(self._ledger, same, *proof.contents):
            await self._ledger.commit(also)
            log.info("mail.known", mail=stored.id)
            return
        remember(also, same)
        holders = [holder for _, holder in tokens]
        if await self._is_too_much(also, stored, mail, holders, proof):
            return
        if mail.automatic:
            await self._automatic(also, stored, mail, holders)
        elif not tokens:
            await self._ignore(also, stored, "it has no known token")
        elif tokens[0][1].role is Role.BUNDLE:
            await self._ask_which(also, stored, mail, tokens[0], proof)
        else:
            token, holder = tokens[0]
            answer = Answer(
                holder,
                token,
                stored.id[:16],
                mail.message_id,
                also,
                more=_kept(proof),
                vouched=self._vouched(proof, token),
            )
            try:
                with await self._span(holder):
                    several = len(tokens) > 1
                    await self._take_answer(item, answer, stored, mail, proof, several=several)
            except ApprovalNotFound as error:
                await self._ignore(also, stored, str(error))

    async def _span(self, holder: Holder) -> AbstractContextManager[object]:
        """Return a span in the trace of an answer.

        Raises:
            ApprovalNotFound: There is no such approval.
        """
        if not tracing.enabled():
            return nullcontext()
        approval = await self._ledger.approval(holder.approval)
        return tracing.span("intake", approval, channel=holder.channel)

    async def _ask_which(
        self,
        also: Change,
        stored: StoredMail,
        mail: IncomingMail,
        issued: tuple[str, Holder],
        proof: Proof,
    ) -> None:
        """Ask which request an answer to a bundle means, at most once a day.

        The answer decides nothing. Only the recipient of the bundle gets the list again.
        """
        token, holder = issued
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

    async def _take_answer(
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
            if stored.is_cut and finding.fault in {None, Fault.UNPROVEN}:
                # Its signature is not that of the header alone, so nothing else would be proven.
                await self._answers.refuse_too_large(answer)
                return
            waits = finding.fault is Fault.UNPROVEN and proof.temporary
            if waits and item.attempts < PATIENCE_WITH_DNS:
                log.info("mail.waits_for_dns", mail=stored.id, why=proof.why)
                await self._ledger.commit(Change().retry(item, after=backoff(item.attempts)))
                return
            if finding.fault is not None:
                addresses = ", ".join(mail.from_addresses[:3]) or stored.sender or ""
                await self._refuse(answer, finding, proof, addresses[:254])
                return
        if _precedes_card(approval, answer.holder) and item.attempts < MOST_ATTEMPTS:
            log.info("mail.waits_for_its_card", mail=stored.id, approval=approval.id)
            await self._ledger.commit(Change().retry(item, after=backoff(item.attempts)))
            return
        # Anybody can replay a signed mail with changes to its unsigned parts.
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
        holders: Sequence[Holder],
        proof: Proof,
    ) -> bool:
        """Return whether a mail decides nothing and exceeds the limit; then acknowledge it.

        Mail from the person who was asked never exceeds this limit.
        """
        author = owner_of(proof.address, self._decisions.directory)
        proven = proof.proven is Proven.DMARC or proof.temporary
        believed = proven or self._required is not EmailProof.TOKEN_FROM_DMARC
        own = bool(holders) and author is not None and author.id == holders[0].person and believed
        if self._limits is None or (own and not mail.automatic):
            return False
        source = "/".join(holders[0]) if holders else ", ".join(mail.from_addresses)
        over = await self._limits.over_noise(source)
        if over == 1:
            await self._ignore(
                also, stored, "too many such mails came in an hour; further ones are not recorded"
            )
        elif over:
            await self._ledger.commit(also)
            log.info("mail.limited", mail=stored.id)
        return over > 0

    def _judge(
        self, answer: Answer, approval: Approval, person: Person, proof: Proof
    ) -> AuthorCheck:
        terms = approval.terms
        return judge(
            proof,
            required=(terms.email if terms is not None else None) or self._required,
            person=person,
            requester=approval.origin.user,
            address=self._address(answer.token),
            directory=self._decisions.directory,
        )

    async def _refuse(
        self, answer: Answer, finding: AuthorCheck, proof: Proof, addresses: str
    ) -> None:
        if finding.fault is Fault.UNPROVEN:
            await self._answers.refuse_unproven(answer, finding.why)
            return
        # Unproven mail may come from anybody, so it gets no reply.
        author = finding.author if proof.proven is Proven.DMARC else None
        await self._answers.refuse_stranger(answer, addresses, why=finding.why, author=author)

    def _address(self, token: str) -> str:
        local, _, domain = self._mailbox.rpartition("@")
        return f"{local}+{token}@{domain}"

    def _vouched(self, proof: Proof, token: str) -> bool:
        return proof.vouches_for(self._address(token))

    async def _message_key(self) -> bytes:
        return await self._key.get() if self._key is not None else b""

    async def _automatic(
        self,
        also: Change,
        stored: StoredMail,
        mail: IncomingMail,
        holders: Sequence[Holder],
    ) -> None:
        holder = await self._automatic_mail.holder(mail, holders, key=await self._message_key())
        try:
            if holder is not None:
                await self._automatic_mail.take(holder, mail, also=also)
                return
            why = f"no person wrote it: {mail.automatic}"
        except ApprovalNotFound as error:
            why = str(error)
        await self._ignore(also, stored, why)

    async def _ignore(self, also: Change, stored: StoredMail, why: str) -> None:
        now, more = await self._ledger.now(), {"mail": stored.id}
        event = Event(what=What.IGNORED_MAIL, at=now, by="email", why=why, more=more)
        await self._ledger.commit(also.copy().note([event]))
        log.info("mail.ignored", mail=stored.id, why=why)

    async def _quarantine(self, item: Item, stored: StoredMail, problem: str) -> None:
        now = await self._ledger.now()
        await self._ledger.commit(
            await quarantine_mail(self._ledger, Change().ack(item), stored, problem, now=now)
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


def _precedes_card(approval: Approval, holder: Holder) -> bool:
    """Return whether an answer arrived before the record that its card was delivered.

    That record says how much of the call the card shows.
    """
    card = (holder.person, holder.channel)
    under_way = any(
        (one.person, one.channel) == card and not (one.receipt or one.problem)
        for one in approval.asked
    )
    shown = approval.shown_to(holder.person, holder.channel)
    return under_way and approval.state is State.PENDING and shown is Shown.UNKNOWN


def is_loop(stored: StoredMail) -> bool:
    """Return whether a mail is one of ours that came back, by the header of all our mails."""
    head = stored.raw.replace(b"\r\n", b"\n").partition(b"\n\n")[0]
    return b"\nx-signoff-loop:" in b"\n" + head.lower()


def _kept(proof: Proof) -> dict[str, JsonValue]:
    """Return the parts of a proof that the audit keeps."""
    kept = {"from": proof.address, "proven": proof.proven.value, "by": proof.by}
    kept |= {"domain": proof.domain}
    return {"proof": {name: value for name, value in kept.items() if value}}
