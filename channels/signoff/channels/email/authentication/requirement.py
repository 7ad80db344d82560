"""Whether an answer by mail is the answer of the person who was asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from signoff.channels.email.addresses import normal_address
from signoff.channels.email.authentication.proof import Proof, Proven
from signoff.core.identity import may_be_same
from signoff.core.people import Directory, Person
from signoff.core.policy import EmailProof


class Fault(StrEnum):
    """Why an answer is not taken."""

    STRANGER = "stranger"
    """It is from an address that nobody in the directory has."""
    SOMEBODY_ELSE = "somebody_else"
    """It is from somebody who was not asked by this card."""
    UNPROVEN = "unproven"
    """It says that it is from the person who was asked, and less is proven than is required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about an answer.

    Attributes:
        fault: Why it is not taken, None if it is.
        why: In words.
        author: Whose address stands in its From, None if nobody's in the directory.
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
) -> Finding:
    """Say whether an answer counts as the answer of the person who was asked.

    Args:
        proof: What is proven about its author.
        required: What has to be proven.
        person: Who was asked by the card whose token it carries.
        requester: The user on whose behalf the agent acts, who never decides.
        address: The address of that card, token included: a domain that vouches must vouch for a
            mail to it.
        directory: The people.
    """
    author = owner_of(proof.address, directory)
    if proof.proven is Proven.NONE:
        own = author is not None and author.id == person.id
        return Finding(fault=Fault.UNPROVEN if own else Fault.STRANGER, why=proof.why)
    if author is not None and author.id != person.id:
        why = f"it is from {author.id}, who was not asked by this card"
        return Finding(fault=Fault.SOMEBODY_ELSE, why=why, author=author)
    if author is None and (
        required is not EmailProof.TOKEN or may_be_same(proof.address, requester)
    ):
        why = "the sender is not the person who was asked"
        return Finding(fault=Fault.STRANGER, why=why)
    if required is not EmailProof.TOKEN_FROM_DMARC or proof.vouches_for(address):
        return Finding(author=author)
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
    return Finding(fault=Fault.UNPROVEN, why=why, author=author)


def owner_of(address: str, directory: Directory) -> Person | None:
    """Return whose address this is; domains are compared in their ASCII form (RFC 5890)."""
    if not address:
        return None
    # Most often it is written as in the directory, which finds it at once.
    found = directory.find(address)
    if found is not None and _has(found, address):
        return found
    return next((person for person in directory if _has(person, address)), None)


def _has(person: Person, address: str) -> bool:
    return any(_same(address, own) for own in (person.email, *person.aliases))


def _same(one: str, other: str) -> bool:
    # The local part is compared without regard to case, as every large provider does.
    plain = normal_address(other.strip())
    return plain is not None and one.lower() == plain.lower()
