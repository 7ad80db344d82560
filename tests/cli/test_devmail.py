"""The development mailbox: real SMTP, a Maildir, and replies in the form of a mail client."""

from __future__ import annotations

import asyncio
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path

import pytest

from ports import free_port
from signoff.channels.email.parsing.reading import read_mail
from signoff.cli.demo.dev_mailbox import (
    DevMailbox,
    MailNotFound,
    build_reply,
    find,
    parse,
    recipients_of,
    reply,
    send,
    stored,
    text_of,
)
from signoff.core.base.errors import MailDeferred, MailRefused

CARD = EmailMessage(policy=SMTP)
CARD["From"] = "Signoff <approvals@example.com>"
CARD["To"] = "Mara Lind <mara@example.com>"
CARD["Reply-To"] = "approvals+token@example.com"
CARD["Subject"] = "Zustimmung nötig: reimburse"
CARD["Date"] = "Mon, 02 Mar 2026 12:00:00 +0000"
CARD["Message-ID"] = "<card.1@example.com>"
CARD["References"] = "<older@example.com>"
CARD.set_content("To say yes:  approve\n\nGrüße\n")
CARD.add_alternative("<p>To say yes: approve</p>", subtype="html")


async def deliver(mailbox: DevMailbox, message: EmailMessage = CARD) -> None:
    """Send a mail to Mara as Signoff does."""
    await send(message, host=mailbox.host, port=mailbox.port, recipients=["mara@example.com"])


async def test_mailbox_wait_ends_when_a_mail_arrives(tmp_path: Path) -> None:
    """A wait that began before the mail ends with it; a later one returns immediately."""
    async with DevMailbox(tmp_path / "mail") as mailbox:
        waiting = asyncio.create_task(mailbox.wait_for(lambda one: True, within=60))
        await asyncio.sleep(0)
        await deliver(mailbox)
        message = await waiting
        assert message["Subject"] == CARD["Subject"]
        assert recipients_of(message) == ("mara@example.com",)
        assert text_of(message).startswith("To say yes:  approve")
        again = await mailbox.wait_for(lambda one: "nötig" in one["Subject"], within=60)
        assert again is message
    ((number, on_disk),) = stored(tmp_path / "mail")
    assert number == "1"
    assert on_disk["Message-ID"] == "<card.1@example.com>"


async def test_mailbox_wait_ignores_other_mails_and_times_out(tmp_path: Path) -> None:
    """Only a matching mail ends the wait, and the wait has a limit."""
    other = parse(CARD.as_bytes())
    other.replace_header("Subject", "other")
    async with DevMailbox(tmp_path / "mail") as mailbox:
        waiting = asyncio.create_task(
            mailbox.wait_for(lambda one: one["Subject"] == "other", within=60)
        )
        await deliver(mailbox)
        await deliver(mailbox, other)
        assert (await waiting)["Subject"] == "other"
        with pytest.raises(TimeoutError):
            await mailbox.wait_for(lambda one: one["Subject"] == "third", within=0.01)


async def test_mail_that_was_there_stays_and_is_numbered_in_its_order(tmp_path: Path) -> None:
    """A restarted mailbox continues with its folder."""
    for subject in ("first", "second"):
        message = parse(CARD.as_bytes())
        message.replace_header("Subject", subject)
        async with DevMailbox(tmp_path / "mail") as mailbox:
            await deliver(mailbox, message)
    assert [mail["Subject"] for _, mail in stored(tmp_path / "mail")] == ["first", "second"]
    assert find(tmp_path / "mail", "1")["Subject"] == "first"
    assert find(tmp_path / "mail", "last")["Subject"] == "second"


async def test_the_last_mail_to_answer_is_not_one_whose_replies_are_not_read(
    tmp_path: Path,
) -> None:
    """A message about an earlier request may come after the card."""
    card, notice = parse(CARD.as_bytes()), parse(CARD.as_bytes())
    card.replace_header("Subject", "the card")
    notice.replace_header("Subject", "it has run")
    del notice["Reply-To"]
    folder = tmp_path / "mail"
    async with DevMailbox(folder) as mailbox:
        for message in (card, notice):
            await deliver(mailbox, message)
    assert find(folder, "last")["Subject"] == "it has run"
    assert find(folder, "last", answerable=True)["Subject"] == "the card"
    assert find(folder, "2", answerable=True)["Subject"] == "it has run"


@pytest.mark.parametrize("number", ["1", "last", "x"])
def test_missing_mail_is_a_plain_error(tmp_path: Path, number: str) -> None:
    """An empty or missing folder is not a program error."""
    assert stored(tmp_path / "none") == []
    with pytest.raises(MailNotFound, match="No mail has come"):
        find(tmp_path / "none", number)


def test_reply_keeps_the_thread_and_quotes_the_original() -> None:
    """It goes to the Reply-To in the thread, with one "Re:" and the quoted original."""
    made = build_reply(CARD, "approve", "Mara Lind <mara@example.com>")
    assert made["To"] == "approvals+token@example.com"
    assert made["From"] == "Mara Lind <mara@example.com>"
    assert made["Subject"] == "Re: Zustimmung nötig: reimburse"
    assert made["In-Reply-To"] == "<card.1@example.com>"
    assert made["References"] == "<older@example.com> <card.1@example.com>"
    assert made["Message-ID"].strip().endswith("@example.com>")
    lines = text_of(made).splitlines()
    assert lines[:5] == [
        "approve",
        "",
        "On Mon, 02 Mar 2026 at 12:00, Signoff <approvals@example.com> wrote:",
        "> To say yes:  approve",
        ">",
    ]
    assert "> Grüße" in lines


async def test_long_message_ids_arrive_unchanged_as_from_a_mail_client(tmp_path: Path) -> None:
    """Ids that are longer than a line are not encoded, and the text and the subject stay."""
    card = parse(CARD.as_bytes())
    long = f"<{'1.' * 60}card@example.com>"
    del card["Message-ID"]
    card["Message-ID"] = long
    async with DevMailbox(tmp_path / "inbound") as inbound:
        words = "approve " + "ö" * 400
        await reply(card, words, "Mara <mara@example.com>", host="127.0.0.1", port=inbound.port)
        await inbound.wait_for(lambda one: True, within=60)
    (path,) = (tmp_path / "inbound" / "new").iterdir()
    read = read_mail(path.read_bytes())
    assert f"In-Reply-To: {long}".encode() in path.read_bytes()
    assert read.in_reply_to == long
    assert read.references == ("<older@example.com>", long)
    assert read.subject == "Re: Zustimmung nötig: reimburse"
    assert read.own_text == words


def test_second_reply_has_one_re_and_its_own_message_id() -> None:
    """Each reply has its own Message-ID."""
    first = build_reply(CARD, "approve", "mara@example.com")
    second = build_reply(first, "sorry, reject", "mara@example.com")
    assert second["Subject"] == first["Subject"]
    assert second["Message-ID"] != first["Message-ID"]
    assert second["To"] == "mara@example.com"


def test_a_mail_without_a_date_can_be_answered() -> None:
    """Old mail programs send all kinds of things."""
    bare = EmailMessage(policy=SMTP)
    bare["From"] = "approvals@example.com"
    bare["Subject"] = "x"
    made = build_reply(bare, "approve", "mara@example.com")
    assert "an earlier day" in text_of(made)
    assert made["In-Reply-To"] is None


async def test_a_reply_goes_to_the_server_by_smtp(tmp_path: Path) -> None:
    """The address in the envelope is the Reply-To, which carries the token."""
    async with DevMailbox(tmp_path / "inbound") as inbound:
        await reply(CARD, "approve", "Mara <mara@example.com>", host="127.0.0.1", port=inbound.port)
        received = await inbound.wait_for(lambda one: True, within=60)
    assert recipients_of(received) == ("approvals+token@example.com",)


async def test_unavailable_server_is_retried_and_refusal_is_final() -> None:
    """An unavailable server means a retry, and a refusal is final."""
    with pytest.raises(MailDeferred, match=r"cannot be reached.*signoff gateway"):
        await send(CARD, host="127.0.0.1", port=free_port(), recipients=["mara@example.com"])

    class Refusing(DevMailbox):
        async def handle_RCPT(self, *_: object) -> str:  # noqa: N802
            return "550 5.1.1 No such mailbox here"

    async with Refusing(Path("mail")) as mailbox:
        with pytest.raises(MailRefused, match="No such mailbox"):
            await deliver(mailbox)
