"""Why a mail was read as it was: the intake's own reading, written down and deciding nothing."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, JsonValue

from signoff.channels.email.authentication.proof import Proof
from signoff.channels.email.mime import text_of_bytes
from signoff.channels.email.reading import IncomingMail
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


def explain_mail(
    mail: IncomingMail, template: JsonValue = None, *, text: bool = False
) -> Explanation:
    """Say how the intake would read a message.

    Args:
        mail: The message, read as the intake reads it: by `Readers.read`.
        template: The payload template of the request it answers, where that is known.
        text: Whether it was a bare text, of which nobody is the sender: see `mail_of_text`.
    """
    sender = Sender(addresses=mail.from_addresses, address=mail.sender or "")
    return _explained(mail, template).model_copy(update={"sender": None if text else sender})


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


def _explained(mail: IncomingMail, template: JsonValue) -> Explanation:
    shown, answer, sign = mail.reply, mail.own_text, mail.automatic
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
    if mail.doubt:
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
