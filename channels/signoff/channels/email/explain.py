"""Explains how the intake reads a mail, without deciding anything."""

from pydantic import BaseModel, ConfigDict, JsonValue

from signoff.channels.email.authentication.proof import Proof
from signoff.channels.email.parsing.incoming import IncomingMail
from signoff.channels.email.parsing.mime import text_of_bytes
from signoff.core.replies.examples import example_of_approval
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Part, Reject, Unclear
from signoff.core.replies.text import ReplyContext


class MailAuthor(BaseModel):
    """What is known about the author of a mail.

    Attributes:
        addresses: The addresses of every From field.
        address: The single author, or "" if From is ambiguous.
        proven: The proof that the address is the author's; empty if there is none.
        why: The reason, in words.
    """

    model_config = ConfigDict(frozen=True)

    addresses: tuple[str, ...]
    address: str
    proven: tuple[str, ...] = ()
    why: str = "Not checked: name your mail server, or verify signatures (--dns)."


class Explanation(BaseModel):
    """The explanation of how a message is read.

    Attributes:
        automatic: Whether a program wrote it; then it never counts as an answer.
        sign: The sign of that, or "".
        reply: The person's own text.
        first_line: Its first line that is not blank.
        verdict: ``approve``, ``reject``, ``unclear``, or another command, such as ``claim``.
        reason: The reason of a rejection.
        note: The remark after ``note:`` in an approval.
        values: The values for the template.
        problem: Why it is unclear, or "".
        left_over: The words beside an approval that are not known to be harmless.
        example: A valid answer, if this one is not valid.
        parts: The words, each with how it was read.
        sender: The author; None for a bare text.
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
    sender: MailAuthor | None = None


def explain_mail(mail: IncomingMail, context: ReplyContext, *, text: bool = False) -> Explanation:
    """Explain how the intake would read a message.

    Args:
        mail: The message, read by `Readers.read`, as the intake does.
        context: The context of the request that it answers.
        text: Whether it was a bare text without a sender: see `mail_of_text`.
    """
    sender = MailAuthor(addresses=mail.from_addresses, address=mail.sender or "")
    read = _explained(mail, context)
    return read.model_copy(update={"sender": None if text else sender})


def mail_of_text(raw: bytes) -> bytes:
    """Return a bare text as a message without a sender.

    The text is in UTF-16 with a byte order mark, in UTF-8, or else in cp1252.
    """
    head = b"Content-Type: text/plain; charset=utf-8\r\n\r\n"
    return head + text_of_bytes(raw).encode("utf-8", "replace")


def with_proof(read: Explanation, proof: Proof) -> Explanation:
    """Add to an explanation what is proven about the author of the message."""
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
