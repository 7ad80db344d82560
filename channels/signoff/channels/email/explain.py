"""Why a mail was read as it was: the intake's own reading, written down and deciding nothing."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from signoff.channels.email.authentication.proof import Proof
from signoff.channels.email.mime import text_of_bytes
from signoff.channels.email.quoting import read_reply as own_words
from signoff.channels.email.reading import TWO_TEXTS, IncomingMail, read_mail
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


def explain_mail(raw: bytes, context: ReplyContext | None = None) -> Explanation:
    """Say how the intake would read a message.

    Args:
        raw: The message as it was stored.
        context: What is known about the request it answers.

    Raises:
        UnreadableMail: It cannot be parsed, or is over a cap.
    """
    mail = read_mail(raw)
    sender = Sender(addresses=mail.from_addresses, address=mail.sender or "")
    read = _explained(mail.reply, mail.own_text, context or ReplyContext(), mail)
    return read.model_copy(update={"sender": sender})


def with_proof(read: Explanation, proof: Proof) -> Explanation:
    """Add to an explanation what is proven about who wrote the message."""
    if read.sender is None:
        return read
    proven = (proof.by,) if proof.by else ()
    sender = read.sender.model_copy(update={"proven": proven, "why": proof.why})
    return read.model_copy(update={"sender": sender})


def explain_text(raw: bytes, context: ReplyContext | None = None) -> Explanation:
    """Say how the plain text of a message would be read.

    Args:
        raw: The text, in UTF-8 or else in cp1252.
        context: What is known about the request it answers.
    """
    read = own_words(text_of_bytes(raw))
    return _explained(read.shown, read.answer, context or ReplyContext())


def _explained(
    shown: str, answer: str, context: ReplyContext, mail: IncomingMail | None = None
) -> Explanation:
    first_line = next((line.strip() for line in shown.splitlines() if line.strip()), "")
    read = Explanation(reply=shown, first_line=first_line)
    if mail is not None and mail.automatic:
        why = f"No person wrote this ({mail.automatic}), so nothing in it is an answer."
        return read.model_copy(update={"automatic": True, "sign": mail.automatic, "problem": why})
    reply = read_reply(answer, context)
    if mail is not None and mail.two_texts:
        reply = Unclear(problem=TWO_TEXTS)
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
