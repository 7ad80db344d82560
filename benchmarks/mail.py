"""``python -m benchmarks.mail``: the cost of an answer by mail, compared with a plain decision.

In one process with its readers, on a separate Redis; each side handles the same answers:

- decide: `Decisions.take`, one after the other: the limit of the ledger alone;
- read: mails are stored, read in the readers, and decided, without proof of their authors;
- proven: the same, and signatures (RSA, 2048 bits) are verified; the DNS answers immediately;
- bombs: like read, with mails of 1 MiB among them; only the others are counted.

Rounds are interleaved and each is compared with its neighbours, so that other load on the machine
slows all sides.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import secrets
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from statistics import median

import dkim
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from rich.console import Console

from benchmarks.office import DIRECTORY, MARA, open_pause
from benchmarks.process import quieten
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.lookup import Txt
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.readers import Provers, Readers
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.inbound.threads import subject_tag
from signoff.channels.email.parsing.mime import LARGEST_MAIL
from signoff.channels.pipeline.reply_tokens import Holder, issue_token
from signoff.core.approvals.approval import State
from signoff.core.approvals.moves import Actor, Approve
from signoff.core.approvals.parts import Asked
from signoff.core.policies.policy import EmailProof, Fallback

MAILBOX = "approvals@signoff.example"
SIDES = ("decide", "read", "proven", "bombs")

_EVERY = 20
"""One of this number of answers is a bomb."""

_BOMBS = (b"On " + b"a " * (LARGEST_MAIL // 2), b"\n" * LARGEST_MAIL, b"> " * (LARGEST_MAIL // 2))


class Published(Txt):
    """The DNS of the author's domain without a network."""

    def __init__(self, records: dict[str, str]) -> None:
        super().__init__()
        self._records = records

    async def records(self, name: str) -> tuple[bytes, ...] | None:
        """Return the records of a name."""
        found = self._records.get(name)
        return () if found is None else (found.encode(),)


class Author:
    """Writes and signs answers as the mail server of the person does."""

    def __init__(self) -> None:
        key = rsa.generate_private_key(65537, 2048)
        self._key = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.domain = MARA.email.partition("@")[2]
        self.records = {
            f"s._domainkey.{self.domain}": "v=DKIM1; p=" + base64.b64encode(public).decode(),
            f"_dmarc.{self.domain}": "v=DMARC1; p=reject",
        }

    def answer(self, approval: str, token: str, *, date: str, signed: bool) -> bytes:
        """Return an approval above a quoted card."""
        mail = EmailMessage()
        mail["From"] = MARA.email
        mail["To"] = self.address(token)
        mail["Date"] = date
        mail["Subject"] = f"Re: Approval needed: reimburse (finance) {subject_tag(approval)}"
        mail["Message-ID"] = f"<{secrets.token_hex(8)}@{self.domain}>"
        quoted = "\n".join(f"> line {n} of the card that was sent" for n in range(40))
        mail.set_content(f"approve\nnote: fine by me\n\nOn Monday Signoff wrote:\n{quoted}\n")
        raw = mail.as_bytes().replace(b"\n", b"\r\n")
        if not signed:
            return raw
        names = [b"from", b"to", b"subject", b"date", b"message-id"]
        line = dkim.sign(raw, b"s", self.domain.encode(), self._key, include_headers=names)
        return bytes(line) + raw

    def bomb(self, token: str, kind: int) -> bytes:
        """Return a mail of 1 MiB that is hard to read."""
        head = (
            f"From: x@evil.example\r\nTo: {self.address(token)}\r\nMessage-ID: <{kind}@x>\r\n\r\n"
        )
        return (head.encode() + _BOMBS[kind % len(_BOMBS)])[:LARGEST_MAIL]

    @staticmethod
    def address(token: str) -> str:
        """Return the address for an answer."""
        local, _, domain = MAILBOX.partition("@")
        return f"{local}+{token}@{domain}"


@dataclass(slots=True)
class Office:
    """Opens requests and answers them in the four ways."""

    ledger: Ledger
    author: Author
    decisions: Decisions = field(init=False)
    readers: Readers = field(default_factory=Readers)
    provers: dict[bool, Provers] = field(init=False)

    def __post_init__(self) -> None:
        self.decisions = Decisions(self.ledger, DIRECTORY)
        txt = Published(self.author.records)
        self.provers = {dkim: Provers(Authenticator(dkim=dkim, txt=txt)) for dkim in (False, True)}

    async def close(self) -> None:
        """End all processes."""
        for one in (self.readers, *self.provers.values()):
            await one.close()

    async def round(self, side: str, count: int) -> float:
        """Answer this number of requests in one of the ways, and return the rate per second.

        Raises:
            RuntimeError: A request was not approved.
        """
        opened = [await self._open() for _ in range(count)]
        if side == "decide":
            took = await self._decide([approval for approval, _ in opened])
        else:
            took = await self._answer(side, opened)
        after = await self.ledger.approvals([approval for approval, _ in opened])
        if any(one.state is not State.APPROVED for one in after):
            raise RuntimeError(f"An answer did not count on the side {side!r}.")
        return count / took

    async def _decide(self, approvals: Sequence[str]) -> float:
        started = time.perf_counter()
        for one in approvals:
            await self.decisions.take(one, Approve(reason="fine by me"), Actor(MARA, "email"))
        return time.perf_counter() - started

    async def _answer(self, side: str, opened: Sequence[tuple[str, str]]) -> float:
        """Store the answers and run the intake; return the seconds until the last decision."""
        proven = side == "proven"
        date = format_datetime(await self.ledger.now())
        for place, (approval, token) in enumerate(opened):
            if side == "bombs" and place % _EVERY == 0:
                await store(self.ledger, self.author.bomb(token, place), sender=None, recipients=[])
            raw = self.author.answer(approval, token, date=date, signed=proven)
            await store(self.ledger, raw, sender=None, recipients=[])
        intake = Intake(
            self.decisions,
            mailbox=MAILBOX,
            read=self.readers.read,
            authenticator=self.provers[proven],
            required=EmailProof.TOKEN_FROM_DMARC if proven else EmailProof.TOKEN_FROM,
        )
        started = await self.ledger.now()
        await intake.drain()
        decided = await self.ledger.approvals([approval for approval, _ in opened])
        ends = [one.decision.at for one in decided if one.decision is not None]
        return max(((end - started).total_seconds() for end in ends), default=1e-9)

    async def _open(self) -> tuple[str, str]:
        """Open a request as if asked by mail; return its id and its token."""
        now = await self.ledger.now()
        opened = open_pause(now, route=False)
        within = timedelta(hours=4)
        asked = Asked(person=MARA.id, channel="email", address=MARA.email)
        terms = Fallback(ask=(MARA.id,)).terms({})
        approval, events = opened.approval.ask(terms, (asked,), now=now)
        change = Change(writes=opened.change.writes[:1], audit=list(opened.change.audit))
        token = issue_token(change, Holder(approval.id, MARA.id, "email"), within=within)
        await self.ledger.commit(change.put(approval, was=None).note(events))
        return approval.id, token


async def measure(rounds: int, count: int, *, fsync: str, folder: Path, console: Console) -> None:
    """Measure everything and print it."""
    with EmbeddedRedis(folder / "redis", fsync=fsync) as server:
        ledger = Ledger(Store.open(server.url))
        office = Office(ledger, Author())
        rates: dict[str, list[float]] = {side: [] for side in SIDES}
        try:
            for side in SIDES:
                await office.round(side, 2)
            for place in range(rounds):
                for side in SIDES:
                    rates[side].append(await office.round(side, count))
                line = " ".join(f"{side} {found[-1]:,.1f}/s" for side, found in rates.items())
                console.print(f"Round {place + 1} of {rounds}: {line}", highlight=False)
        finally:
            await office.close()
            await ledger.close()
    console.print("Ratios, the median of the rounds:")
    for name, other in (("read", "decide"), ("proven", "read"), ("bombs", "read")):
        pairs = zip(rates[name], rates[other], strict=True)
        console.print(f"  {name} / {other}: {median(one / two for one, two in pairs):.2f}")


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mail", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="always")
    given = parser.parse_args()
    quieten()
    rounds, count = (1, 20) if given.quick else (7, 400)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        asyncio.run(
            measure(rounds, count, fsync=given.fsync, folder=Path(folder), console=Console())
        )


if __name__ == "__main__":
    main()
