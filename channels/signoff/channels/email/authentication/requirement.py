"""Checks whether an answer by mail comes from the person who was asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from signoff.channels.email.authentication.proof import Proof, Proven
from signoff.channels.email.parsing.addresses import normal_address
from signoff.core.directory.identity import may_be_same
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import EmailProof


class Fault(StrEnum):
    """The reason why an answer is refused."""

    STRANGER = "stranger"
    """The address does not belong to anybody in the directory."""
    SOMEBODY_ELSE = "somebody_else"
    """The author was not asked by this card."""
    UNPROVEN = "unproven"
    """The author claims to be the person who was asked, but less is proven than required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorCheck:
    """The result of the check of an answer.

    Attributes:
        fault: Why the answer is refused, None if it is accepted.
        why: The reason in words.
        author: The owner of the address in its From, None if nobody in the directory owns it.
    """

    fault: Fault | None = None
    why: str = ""
    author: Person | None = None


def judge(
    proof: Proof,
    *,
    required: EmailProof,
    person: Person,
    requester: str,
    address: str,
    directory: Directory,
) -> AuthorCheck:
    """Check whether an answer counts as the answer of the person who was asked.

    Args:
        proof: What is proven about its author.
        required: The required proof.
        person: The person who was asked by the card with this token.
        requester: The user for whom the agent acts, who never decides.
        address: The reply address of that card, including the token. A domain that vouches must
            vouch for a mail to it.
        directory: The people.
    """
    author = owner_of(proof.address, directory)
    if proof.proven is Proven.NONE:
        own = author is not None and author.id == person.id
        return AuthorCheck(fault=Fault.UNPROVEN if own else Fault.STRANGER, why=proof.why)
    if author is not None and author.id != person.id:
        why = f"it is from {author.id}, who was not asked by this card"
        return AuthorCheck(fault=Fault.SOMEBODY_ELSE, why=why, author=author)
    if author is None and (
        required is not EmailProof.TOKEN or may_be_same(proof.address, requester)
    ):
        why = "the sender is not the person who was asked"
        return AuthorCheck(fault=Fault.STRANGER, why=why)
    if required is not EmailProof.TOKEN_FROM_DMARC or proof.vouches_for(address):
        return AuthorCheck(author=author)
    why = proof.why
    if proof.open:
        why += (
            "; but that leaves open how the mail is read (Content-Type), so it could have been "
            "made to say something else"
        )
    elif proof.proven is Proven.DMARC:
        why += (
            f"; but {proof.domain} does not vouch that it was written to this card's address: "
            "it may have been sent on"
        )
    return AuthorCheck(fault=Fault.UNPROVEN, why=why, author=author)


def owner_of(address: str, directory: Directory) -> Person | None:
    """Return the owner of an address; domains are compared in their ASCII form (RFC 5890)."""
    if not address:
        return None
    # Usually the address is written as in the directory, so that this look-up finds it.
    found = directory.find(address)
    if found is not None and _has(found, address):
        return found
    return next((person for person in directory if _has(person, address)), None)


def _has(person: Person, address: str) -> bool:
    return any(_same(address, own) for own in (person.email, *person.aliases))


def _same(one: str, other: str) -> bool:
    # The local part is compared case-insensitively, as every large provider does.
    plain = normal_address(other.strip())
    return plain is not None and one.lower() == plain.lower()
