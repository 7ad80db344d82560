"""What is proven about the author of a mail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Proven(StrEnum):
    """The degree to which the author of a mail is proven."""

    NONE = "none"
    """There is not exactly one author: no From, several, or an ambiguous one."""
    FROM = "from"
    """Only the From names the author, and the sender of a mail chooses it freely."""
    DMARC = "dmarc"
    """The domain of the From vouches for it: an aligned pass of DKIM or SPF (RFC 7489)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is proven about the author of a mail.

    Attributes:
        address: The single address of From, "" if there is not exactly one.
        proven: The degree of proof.
        by: The basis of the proof, in words; "" if nothing is proven.
        domain: The domain that vouches, "" if nothing is proven.
        why: What was found or what is missing, in words.
        recipients: The addresses of To and Cc for which the domain also vouches. None if they do
            not matter, because a mail that passes SPF was not forwarded by somebody else.
        temporary: Whether another attempt may prove more.
        open: Whether a signature does not cover how the mail is read, and the mail is not in the
            one form in which it must have been written; see `is_read_as_signed`.
        contents: The signed content of each signature that may vouch; see `Signature.content`.
    """

    address: str
    proven: Proven
    by: str = ""
    domain: str = ""
    why: str = ""
    recipients: tuple[str, ...] | None = ()
    temporary: bool = False
    open: bool = False
    contents: tuple[str, ...] = ()

    def vouches_for(self, recipient: str) -> bool:
        """Return whether the domain vouches that its user wrote to this address.

        Without this check, a signed mail to somebody else could be forwarded to the address of a
        token.
        """
        if self.proven is not Proven.DMARC:
            return False
        if self.recipients is None:
            return True
        return recipient.lower() in {one.lower() for one in self.recipients}
