"""Why a mail was read as it was: the intake's own reading, written down and deciding nothing."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from signoff.channels.email.authentication.proof import Proof
from signoff.channels.email.parsing.incoming import IncomingMail
from signoff.channels.email.parsing.mime import text_of_bytes
from signoff.core.replies.examples import example_of_approval
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Part, Reject, Unclear
from signoff.core.replies.text import ReplyContext


class Sender(BaseModel):
    """What is known about who wrote a mail.

    Attributes:
        addresses: The addresses of every From field.
        address: The one author, or "" where From can be read in more ways than one.
        proven: What proves that the address is the author's; empty means that nothing does.
        why: Why, in words.
    """

    model_config = ConfigDict(frozen=True)

    addresses: tuple[str, ...]
    address: str
    proven: tuple[str, ...] = ()
    why: str = "Not checked: name your mail server, or verify signatures (--dns)."


class Explanation(BaseModel):
    """How a message is read.

    Attributes:
        automatic: Whether a program wrote it; then nothing in it is an answer.
        sign: By what that was seen, or "".
        reply: The person's own text.
        first_line: Its first line that is not blank.
        verdict: ``approve``, ``reject``, ``unclear``, or another command, such as ``claim``.
        reason: The reason of a rejection.
        note: The remark that stands behind ``note:`` in an approval.
        values: The values given for the template.
        problem: Why it is unclear, or "".
        left_over: The words beside a yes that are not known to be harmless.
        example: An answer that would have worked, where this one did not.
        parts: Which words were read as what.
        sender: Who wrote it; None for a bare text.
    """

    model_config = ConfigDict(frozen=True)

    automatic: bool = False
    sign: str = ""
    reply: str
    first_line: str
    verdict: str = "unclear"
    reason: str = ""
    note: str = ""
    values: dict[str, JsonValue] = {}
    problem: str = ""
    left_over: tuple[str, ...] = ()
    example: str = ""
    parts: tuple[Part, ...] = ()
    sender: Sender | None = None


def explain_mail(
    mail: IncomingMail, context: ReplyContext | None = None, *, text: bool = False
) -> Explanation:
    """Say how the intake would read a message.

    Args:
        mail: The message, read as the intake reads it: by `Readers.read`.
        context: What is known about the request it answers.
        text: Whether it was a bare text, of which nobody is the sender: see `mail_of_text`.
    """
    sender = Sender(addresses=mail.from_addresses, address=mail.sender or "")
    read = _explained(mail, context or ReplyContext())
    return read.model_copy(update={"sender": None if text else sender})


def mail_of_text(raw: bytes) -> bytes:
    """Return a bare text as a message without a sender.

    Args:
        raw: The text, in UTF-16 with its mark, in UTF-8, or else in cp1252.
    """
    head = b"Content-Type: text/plain; charset=utf-8\r\n\r\n"
    return head + text_of_bytes(raw).encode("utf-8", "replace")


def with_proof(read: Explanation, proof: Proof) -> Explanation:
    """Add to an explanation what is proven about who wrote the message."""
    if read.sender is None:
        return read
    proven = (proof.by,) if proof.by else ()
    sender = read.sender.model_copy(update={"proven": proven, "why": proof.why})
    return read.model_copy(update={"sender": sender})


def _explained(mail: IncomingMail, context: ReplyContext) -> Explanation:
    first_line = next((line.strip() for line in mail.reply.splitlines() if line.strip()), "")
    read = Explanation(reply=mail.reply, first_line=first_line)
    if mail.automatic:
        why = f"No person wrote this ({mail.automatic}), so nothing in it is an answer."
        return read.model_copy(update={"automatic": True, "sign": mail.automatic, "problem": why})
    reply = Unclear(problem=mail.doubt) if mail.doubt else read_reply(mail.own_text, context)
    found: dict[str, object] = {"parts": reply.parts, "verdict": type(reply).__name__.lower()}
    match reply:
        case Approve():
            found |= {"note": reply.note, "values": reply.values or {}}
        case Reject():
            found |= {"reason": reply.reason}
        case Unclear():
            found |= {"problem": reply.problem, "left_over": reply.left_over}
            found |= {"example": example_of_approval(context.fields)}
    return read.model_copy(update=found)
