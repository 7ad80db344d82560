"""Proves the author of a mail: by the results of our mail server, or by its own verification."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Final, Self

from pydantic import JsonValue

from signoff.channels.email.authentication.dmarc import aligned, wants_strict_dkim
from signoff.channels.email.authentication.lookup import Records, Txt, is_name
from signoff.channels.email.authentication.proof import Proof, Proven
from signoff.channels.email.authentication.results import Results, topmost
from signoff.channels.email.authentication.settings import AuthenticationSettings
from signoff.channels.email.authentication.signatures import Signature, signatures_in, verify
from signoff.channels.email.parsing.addresses import parse_addresses
from signoff.channels.email.parsing.mime import Headers, Part, parse_headers, parse_mail

_MOST_VERIFIED: Final = 5
_REPORTED: Final = ("subject", "date", "message-id")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Authenticator:
    """Proves the author of a mail.

    Args:
        authserv_id: The name of our mail server in ``Authentication-Results``; "" for none.
        relays: The networks from which that server delivers mail. Anybody can deliver mail from
            elsewhere, with any field on top.
        dkim: Whether signatures are also verified here.
        strict: Whether only the exact domain of the From may vouch, and not its organisation.
        txt: Looks up TXT records in the DNS.

    Attributes:
        trust: The arguments as JSON, except `txt`.
        txt: Looks up TXT records in the DNS; None without `dkim`.
    """

    def __init__(
        self,
        *,
        authserv_id: str = "",
        relays: Iterable[Network | str] = (),
        dkim: bool = False,
        strict: bool = False,
        txt: Records | None = None,
    ) -> None:
        self._server = authserv_id
        self._relays = tuple(ipaddress.ip_network(one) for one in relays)
        self._strict = strict
        self.txt = (txt or Txt()) if dkim else None
        self.trust: dict[str, JsonValue] = {
            "authserv_id": authserv_id,
            "relays": [str(one) for one in self._relays],
            "dkim": dkim,
            "strict": strict,
        }

    @classmethod
    def of(cls, settings: AuthenticationSettings, *, dkim: bool) -> Self:
        """Return an authenticator with the settings of `[email.authentication]`.

        Their `dkim` may be unset, so the argument says whether signatures are verified here.
        """
        return cls(
            authserv_id=settings.authserv_id,
            relays=settings.relays,
            dkim=dkim,
            strict=settings.alignment == "strict",
            txt=Txt(settings.nameservers, timeout=settings.timeout),
        )

    async def prove(self, raw: bytes, sender: str | None, *, peer: str, now: datetime) -> Proof:
        """Return what is proven about the author of a mail.

        Args:
            raw: The mail as it was received.
            sender: The single address of its From, None if there is not exactly one.
            peer: The IP address that delivered it, "" if we fetched it from the mailbox.
            now: The current time.

        Raises:
            MailTooLarge: Its header exceeds a limit.
        """
        headers = parse_headers(raw)
        if sender is None and not headers.broken:
            why = "its From does not have exactly one unambiguous address"
            return Proof(address="", proven=Proven.NONE, why=why)
        if sender is None or headers.broken or headers.repeated:
            why = "its header has lines that mail programs may read differently"
            if headers.repeated:
                twice = headers.repeated.title()
                why = f"it has two {twice} fields, and somebody may have added one"
            return Proof(address=sender or _claimed(headers), proven=Proven.NONE, why=why)
        mail = _CheckedMail(raw, headers, sender, signatures_in(headers))
        reported = self._by_server(mail, peer)
        if reported.proven is Proven.DMARC or self.txt is None:
            return reported
        verified = await self._verified(mail, self.txt, now)
        if verified.proven is Proven.DMARC or not self._server:
            return verified
        return replace(verified, why=f"{reported.why}; {verified.why}")

    def _by_server(self, mail: _CheckedMail, peer: str) -> Proof:
        """Return what the results of our mail server prove."""
        if not self._server:
            return mail.claimed("this installation does not check it")
        if peer and not self._trusted(peer):
            return mail.claimed(f"it came from {peer}, which is not one of our mail servers")
        results = topmost(mail.headers, self._server)
        if results is None:
            return mail.claimed(f"{self._server} added no results to it")
        return self._judged(mail, results)

    def _judged(self, mail: _CheckedMail, results: Results) -> Proof:
        dmarc = results.of("dmarc")
        # With two results, text from the sender may be in the field.
        if len(dmarc) > 1:
            return mail.claimed(f"the results of {self._server} are ambiguous")
        if not dmarc or dmarc[0].value == "none":
            return self._by_dkim(mail, results)
        if dmarc[0].value != "pass" or dmarc[0].domain("header.from") != mail.domain:
            return mail.claimed(f"{self._server} says that dmarc={dmarc[0].value}")
        return self._by_dmarc(mail, results)

    def _by_dmarc(self, mail: _CheckedMail, results: Results) -> Proof:
        sent = any(
            one.value == "pass" and self._may_vouch(one.domain("smtp.mailfrom"), mail.domain)
            for one in results.of("spf")
        )
        # The result does not say which signature passed; without signatures, it was SPF.
        own = [one for one in mail.found if self._may_vouch(one.domain, mail.domain)]
        by_sender = sent or not mail.headers.every("dkim-signature")
        recipients = None if by_sender else mail.covered(own or mail.found)
        why = f"{self._server} says that dmarc=pass for {mail.domain}"
        return mail.vouched(self._by, mail.domain, why, recipients, own)

    def _by_dkim(self, mail: _CheckedMail, results: Results) -> Proof:
        best: Proof | None = None
        for one in results.of("dkim"):
            signer = one.domain("header.d", "header.i")
            if (
                one.value != "pass"
                or not is_name(signer)
                or not self._may_vouch(signer, mail.domain)
            ):
                continue
            start = "".join(one.properties.get("header.b", "").split())
            exact = "header.d" in one.properties
            meant = [
                signature
                for signature in mail.found
                if aligned(signature.domain, signer, strict=exact)
                and signature.value.startswith(start)
            ]
            why = f"{self._server} says that dkim=pass for {signer}"
            proof = mail.vouched(self._by, signer, why, mail.covered(meant), meant)
            best = _better(best, proof)
        return best or mail.claimed(f"{self._server} reports no pass for {mail.domain}")

    async def _verified(self, mail: _CheckedMail, txt: Records, now: datetime) -> Proof:
        """Return what the signatures of the mail prove."""
        own = [one for one in mail.found if self._may_vouch(one.domain, mail.domain)]
        if not own:
            return mail.claimed(f"it has no DKIM signature of {mail.domain}")
        best: Proof | None = None
        problems: dict[str, None] = {}
        temporary = False
        for signature in own[:_MOST_VERIFIED]:
            problem = await verify(mail.raw, mail.headers, signature, txt, now=now)
            if problem == "" and signature.domain != mail.domain:
                problem = await _misaligned(mail.domain, txt)
            if problem is None:
                temporary = True
                problems[f"the DNS could not be asked about {signature.domain}"] = None
            elif problem:
                problems[f"the DKIM signature of {signature.domain}: {problem}"] = None
            else:
                best = _better(best, mail.signed(signature))
        why = "; ".join(problems)
        return best or replace(mail.claimed(why), temporary=temporary)

    @property
    def _by(self) -> str:
        return f"Authentication-Results of {self._server}"

    def _may_vouch(self, domain: str, author: str) -> bool:
        return aligned(domain, author, strict=self._strict)

    def _trusted(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._relays)


@dataclass(frozen=True)
class _CheckedMail:
    """A mail during the check."""

    raw: bytes
    headers: Headers
    sender: str
    found: tuple[Signature, ...]

    @property
    def domain(self) -> str:
        return self.sender.rpartition("@")[2].lower()

    def covered(self, signatures: Sequence[Signature]) -> tuple[str, ...]:
        """Return the recipients that all signatures cover, because any of them may have passed.

        If the mail has signatures that were not parsed, one of those may have passed.
        """
        if not signatures or len(self.found) < len(self.headers.every("dkim-signature")):
            return ()
        first, *rest = [self.recipients(signature) for signature in signatures]
        return tuple(one for one in first if all(one in other for other in rest))

    def recipients(self, signature: Signature) -> tuple[str, ...]:
        """Return the recipients that a signature covers; none if it leaves the reading open."""
        return signature.recipients(self.headers) if self.is_sealed(signature) else ()

    def is_sealed(self, signature: Signature) -> bool:
        """Return whether the mail is read as it was signed; see `is_read_as_signed`."""
        from signoff.channels.email.authentication.coverage import (  # noqa: PLC0415 -- the parsers
            is_read_as_signed,
        )

        return is_read_as_signed(self._mail, signature.covers)

    @cached_property
    def _mail(self) -> Part:
        return parse_mail(self.raw)

    def claimed(self, why: str) -> Proof:
        return Proof(address=self.sender, proven=Proven.FROM, why=why)

    def vouched(
        self,
        by: str,
        domain: str,
        why: str,
        recipients: tuple[str, ...] | None,
        signatures: Sequence[Signature],
    ) -> Proof:
        return Proof(
            address=self.sender,
            proven=Proven.DMARC,
            by=by,
            domain=domain,
            why=why,
            recipients=recipients,
            contents=tuple(one.content(self.headers) for one in signatures),
            open=recipients is not None and not all(map(self.is_sealed, signatures)),
        )

    def signed(self, signature: Signature) -> Proof:
        by = f"DKIM signature of {signature.domain}, verified here"
        why = f"the DKIM signature of {signature.domain} holds"
        present = (name for name in _REPORTED if self.headers.every(name))
        if bare := [name for name in present if name not in signature.covers]:
            why += f"; it does not cover {', '.join(bare)}"
        return self.vouched(by, signature.domain, why, self.recipients(signature), [signature])


def _claimed(headers: Headers) -> str:
    """Return the single address of the From of a mail that proves nothing, "" if there is none."""
    authors = [parse_addresses(value) for value in headers.every("from")]
    single = len(authors) == 1 and authors[0].certain and len(authors[0].addresses) == 1
    return authors[0].addresses[0] if single else ""


def _better(one: Proof | None, other: Proof) -> Proof:
    """Return the proof that names the recipients, with the signed contents of both."""
    if one is None:
        return other
    best = one if one.recipients else other
    return replace(best, contents=(*one.contents, *other.contents))


async def _misaligned(author: str, txt: Records) -> str | None:
    strict = await wants_strict_dkim(author, txt)
    if strict is None:
        return None
    return f"{author} requires its exact domain in signatures (adkim=s)" if strict else ""
