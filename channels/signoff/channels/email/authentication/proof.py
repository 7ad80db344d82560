"""What is proven about who wrote a mail."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Proven(StrEnum):
    """How far the author of a mail is known."""

    NONE = "none"
    """There is no one author: no From, several, or one that can be read in two ways."""
    FROM = "from"
    """The From says so, which the person who sends a mail chooses."""
    DMARC = "dmarc"
    """The domain of the From has vouched for it: an aligned pass of DKIM or SPF (RFC 7489)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is proven about who wrote a mail.

    Attributes:
        address: The one address of From, "" where there is none.
        proven: How far that is known.
        by: What the proof rests on, in words; "" where nothing is proven.
        domain: The domain that vouches, "" where nothing is proven.
        why: In words, what was found or what is missing.
        recipients: The addresses of To and Cc for which the domain vouches too; None where it does
            not matter, because a mail that passes SPF was not sent on by somebody else.
        temporary: Whether trying again later may prove more.
        open: Whether a signature leaves open how the mail is read, and it is not read in the one
            way in which it must have been written; see `is_read_as_signed`.
        contents: What was signed, of each signature that may vouch; see `Signature.content`.
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
        """Say whether the domain vouches that its user has written to this address.

        Without it a signed mail that was written to somebody else could be sent on to a token.
        """
        if self.proven is not Proven.DMARC:
            return False
        if self.recipients is None:
            return True
        return recipient.lower() in {one.lower() for one in self.recipients}
