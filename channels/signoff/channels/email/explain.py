"""Why a mail was read as it was: the intake's own reading, written down and deciding nothing."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from signoff.channels.email.authentication.proof import Proof
from signoff.channels.email.mime import text_of_bytes
from signoff.channels.email.quoting import read_reply
from signoff.channels.email.reading import IncomingMail, read_mail
from signoff.core.command import Verdict, example_for, read_command
from signoff.core.entries import pairs_below


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
    why: str = "Nobody has looked: name your mail server, or verify signatures (--dns)."


class Explanation(BaseModel):
    """How a message is read.

    Attributes:
        automatic: Whether a programme wrote it; then nothing in it is an answer.
        sign: By what that was seen, or "".
        reply: The person's own text.
        first_line: Its first line that is not blank.
        verdict: Approve, reject or unclear.
        reason: The reason given.
        values: The values given: typed where a template is known, else as they were written.
        problem: Why it is unclear, or "".
        example: An answer that would have worked, where this one did not.
        sender: Who wrote it; None for a bare text.
    """

    model_config = ConfigDict(frozen=True)

    automatic: bool = False
    sign: str = ""
    reply: str
    first_line: str
    verdict: Verdict
    reason: str = ""
    values: dict[str, JsonValue] = {}
    problem: str = ""
    example: str = ""
    sender: Sender | None = None


def explain_mail(raw: bytes, template: JsonValue = None) -> Explanation:
    """Say how the intake would read a message.

    Args:
        raw: The message as it was stored.
        template: The payload template of the request it answers, where that is known.

    Raises:
        UnreadableMail: It cannot be parsed, or is over a cap.
    """
    mail = read_mail(raw)
    sender = Sender(addresses=mail.from_addresses, address=mail.sender or "")
    return _explained(mail.reply, mail.own_text, template, mail).model_copy(
        update={"sender": sender}
    )


def with_proof(read: Explanation, proof: Proof) -> Explanation:
    """Add to an explanation what is proven about who wrote the message."""
    if read.sender is None:
        return read
    proven = (proof.by,) if proof.by else ()
    sender = read.sender.model_copy(update={"proven": proven, "why": proof.why})
    return read.model_copy(update={"sender": sender})


def explain_text(raw: bytes, template: JsonValue = None) -> Explanation:
    """Say how the plain text of a message would be read.

    Args:
        raw: The text, in UTF-8 or else in cp1252.
        template: The payload template of the request it answers, where that is known.
    """
    read = read_reply(text_of_bytes(raw))
    return _explained(read.shown, read.answer, template)


def _explained(
    shown: str, answer: str, template: JsonValue, mail: IncomingMail | None = None
) -> Explanation:
    sign = mail.automatic if mail is not None else ""
    first_line = next((line.strip() for line in shown.splitlines() if line.strip()), "")
    values: dict[str, JsonValue] = {}
    rest = answer
    if template is None:
        pairs, rest = pairs_below(answer)
        values = dict(pairs)
    command = read_command(rest, template)
    read = Explanation(reply=shown, first_line=first_line, verdict=Verdict.UNCLEAR)
    if sign:
        why = f"No person wrote this ({sign}), so nothing in it is an answer."
        return read.model_copy(update={"automatic": True, "sign": sign, "problem": why})
    if mail is not None and mail.doubt:
        return read.model_copy(update={"problem": mail.doubt, "example": example_for(template)})
    if command.verdict is Verdict.UNCLEAR:
        example = example_for(template)
        return read.model_copy(update={"problem": command.problem, "example": example})
    return read.model_copy(
        update={
            "verdict": command.verdict,
            "reason": command.reason,
            "values": command.values or values,
        }
    )
