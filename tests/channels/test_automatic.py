"""Mail that no person wrote does not decide, and moves on a request that would wait."""

import pytest

from builders import present
from channels.conftest import Channels
from channels.writing import subject_of
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.message_ids import message_id
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.policies.policy import OnOutOfOffice, Policy

MAILBOX = "approvals@signoff.example"
AWAY = Policy(name="expenses", ask=("mara",), on_out_of_office=OnOutOfOffice.DEFAULT)


def report(token: str, action: str = "failed", status: str = "5.1.1", returned: str = "") -> bytes:
    """Return a delivery status notification (RFC 3464)."""
    to = f"approvals+{token}@signoff.example" if token else MAILBOX
    lines = [
        "From: Mail Delivery System <mailer-daemon@mx.example>",
        f"To: {to}",
        "Subject: Undelivered Mail Returned to Sender",
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"',
        "",
        "--b",
        "Content-Type: text/plain",
        "",
        "It did not arrive.",
        "--b",
        "Content-Type: message/delivery-status",
        "",
        "Reporting-MTA: dns; mx.example",
        "",
        "Final-Recipient: rfc822; mara@example.com",
        f"Action: {action}",
        f"Status: {status}",
        "",
        "--b",
        "Content-Type: text/rfc822-headers",
        "",
        "From: Signoff <approvals@signoff.example>",
        f"Message-ID: {returned}",
        "",
        "--b--",
        "",
    ]
    return "\r\n".join(lines).encode()


def plain(token: str, *head: str, text: str) -> bytes:
    """Return a mail with one text."""
    to = f"To: approvals+{token}@signoff.example"
    return "\r\n".join([*head, to, "", text, ""]).encode()


async def take(channels: Channels, raw: bytes, sender: str = "") -> None:
    """Take in a mail; nobody gets a message about it."""
    before = len(channels.channel.delivered)
    await store(channels.ledger, raw, sender=sender, recipients=[MAILBOX])
    await channels.intake.drain()
    await channels.delivery.drain()
    assert len(channels.channel.delivered) == before
    await channels.router.drain()


async def asked(channels: Channels, approval: Approval) -> list[tuple[str, bool]]:
    """Return the approvers, and whether their cards count as delivered."""
    after = await channels.ledger.approval(approval.id)
    assert after.state is State.PENDING
    return [(one.person, not one.problem) for one in after.asked]


QMAIL = plain(
    "{token}",
    "From: MAILER-DAEMON@mx.example",
    "Subject: failure notice",
    text="Hi. This is the qmail-send program at mx.example.\r\n"
    "This is a permanent error; I've given up. Sorry it didn't work out.",
)
EXIM = plain(
    "{token}",
    "From: Mail Delivery System <Mailer-Daemon@mx.example>",
    "X-Failed-Recipients: mara@example.com",
    "Auto-Submitted: auto-replied",
    "Subject: Mail delivery failed: returning message to sender",
    text="This message was created automatically by mail delivery software.",
)
EXCHANGE = plain(
    "{token}",
    "From: System Administrator <postmaster@example.com>",
    "Subject: Unzustellbar: Approval needed: reimburse (finance)",
    text="Ihre Nachricht hat einige oder alle Empfänger nicht erreicht.",
)


@pytest.mark.parametrize("raw", [report("{token}"), QMAIL, EXIM, EXCHANGE])
async def test_a_returned_card_asks_the_default(channels: Channels, raw: bytes) -> None:
    """A returned card counts as undelivered, and the default is asked immediately."""
    approval, token = await channels.ask()
    await take(channels, raw.replace(b"{token}", token.encode()))
    assert await asked(channels, approval) == [("mara", False), ("cleo", True)]
    assert What.UNDELIVERED in await channels.whats(approval)


EXIM_WAITS = plain(
    "{token}",
    "From: Mail Delivery System <Mailer-Daemon@mx.example>",
    "Auto-Submitted: auto-replied",
    "Subject: Warning: message 1abc delayed 24 hours",
    text="No action is required on your part. Delivery attempts will continue.",
)


@pytest.mark.parametrize("raw", [report("{token}", "delayed", "4.4.1"), EXIM_WAITS])
async def test_a_delayed_card_is_noted_and_waited_for(channels: Channels, raw: bytes) -> None:
    """The audit has the delay, and nobody else is asked."""
    approval, token = await channels.ask()
    await take(channels, raw.replace(b"{token}", token.encode()))
    assert await asked(channels, approval) == [("mara", True)]
    assert (await channels.whats(approval))[-1] is What.DELAYED


async def test_bounce_without_a_token_is_matched_by_message_id(
    channels: Channels,
) -> None:
    """If the provider uses its own envelope sender, the Message-ID identifies the card."""
    approval, _ = await channels.ask()
    ours = message_id(f"card:{approval.id}:mara", approval.id, "signoff.example")
    await take(channels, report("", returned=ours))
    assert await asked(channels, approval) == [("mara", False), ("cleo", True)]


@pytest.mark.parametrize(
    "returned",
    [
        "<signoff.aaaaaaaaaaaaaaaaaaaaaaaaaa.{approval}@signoff.example>",
        "<signoff.aaaaaaaaaaaaaaaaaaaaaaaaaa.ap_nothing@signoff.example>",
        "<{approval}@signoff.example>",
        "",
    ],
)
async def test_a_report_about_no_card_of_ours_is_ignored(channels: Channels, returned: str) -> None:
    """A report that names no sent mail changes nothing."""
    approval, _ = await channels.ask()
    await take(channels, report("", returned=returned.format(approval=approval.id)))
    assert await asked(channels, approval) == [("mara", True)]


async def test_forged_bounce_does_not_exclude_the_approver(channels: Channels) -> None:
    """A forged bounce only makes the default be asked; the approver may still answer."""
    approval, token = await channels.ask()
    await take(channels, report(token), sender="mallory@evil.example")
    reply = plain(
        token,
        "From: Mara Lind <mara@example.com>",
        f"Subject: {subject_of(token)}",
        text="approve",
    )
    await store(channels.ledger, reply, sender="mara@example.com", recipients=[MAILBOX])
    await channels.intake.drain()
    after = await channels.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by) == (State.APPROVED, "mara")


OUT_OF_OFFICE = plain(
    "{token}",
    "From: Mara Lind <mara@example.com>",
    "Auto-Submitted: auto-replied",
    "Subject: Abwesenheitsnotiz: bis 3. Mai",
    text="approve",
)


async def test_an_absence_is_noted_and_waited_for(channels: Channels) -> None:
    """By default the absence is noted for the person, and nobody else is asked."""
    approval, token = await channels.ask()
    raw = OUT_OF_OFFICE.replace(b"{token}", token.encode())
    await take(channels, raw)
    assert await asked(channels, approval) == [("mara", True)]
    (mara,) = (await channels.ledger.approval(approval.id)).asked
    assert mara.away == "Abwesenheitsnotiz: bis 3. Mai"
    await take(channels, raw + b"once more\r\n")
    assert (await channels.whats(approval)).count(What.AWAY) == 1


async def test_absence_counts_as_unreachable_when_the_policy_sets_it(channels: Channels) -> None:
    """The absent person counts as not reached, keeps the card, and may still answer."""
    channels.policies = (AWAY,)
    approval, token = await channels.ask()
    await take(channels, OUT_OF_OFFICE.replace(b"{token}", token.encode()))
    assert await asked(channels, approval) == [("mara", True), ("cleo", True)]


async def test_default_is_not_asked_while_another_approver_is_reachable(channels: Channels) -> None:
    """If another person was reached, the default is not asked."""
    channels.policies = (AWAY.model_copy(update={"ask": ("mara", "cleo")}),)
    approval, _ = await channels.ask()
    card = next(one for one in channels.channel.delivered if one.person == "mara")
    await take(channels, OUT_OF_OFFICE.replace(b"{token}", card.token.encode()))
    assert [person for person, _ in await asked(channels, approval)] == ["mara", "cleo"]


COMPLAINT = report("{token}").replace(b"message/delivery-status", b"message/feedback-report")
LISTED = plain(
    "{token}",
    "From: Mara Lind <mara@example.com>",
    "List-Id: <all.example.com>",
    "Subject: Re: Approval needed",
    text="approve",
)


@pytest.mark.parametrize("raw", [COMPLAINT, LISTED])
async def test_lists_and_complaints_are_dropped(channels: Channels, raw: bytes) -> None:
    """They are recorded and change nothing."""
    approval, token = await channels.ask()
    await take(channels, raw.replace(b"{token}", token.encode()), sender="list@example.com")
    assert await asked(channels, approval) == [("mara", True)]
    assert (await channels.whats(approval))[-1] is What.IGNORED_MAIL


async def test_late_bounce_after_the_decision_is_only_recorded(channels: Channels) -> None:
    """A late bounce of a decided request is only recorded."""
    approval, token = await channels.ask()
    await channels.decider.withdraw(approval.id, by="riley", reason="never mind")
    before = await channels.ledger.approval(approval.id)
    await store(channels.ledger, report(token), sender="", recipients=[MAILBOX])
    await channels.intake.drain()
    assert await channels.ledger.approval(approval.id) == before
    assert (await channels.whats(approval))[-1] is What.IGNORED_MAIL
