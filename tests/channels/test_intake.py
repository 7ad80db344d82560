"""An answer by mail decides, gets a question back, or is ignored."""

import asyncio
import json
from collections.abc import Collection, Sequence
from datetime import timedelta
from email.message import EmailMessage

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import CLEO, MARA, present
from channels.conftest import Channels
from channels.writing import subject_of
from signoff.broker import stages
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.opening import read_here
from signoff.channels.email.inbound.quarantine import quarantine_key
from signoff.channels.email.inbound.readers import SentTo
from signoff.channels.email.inbound.stored import load, mail_id, mail_key, store
from signoff.channels.email.outbound.channel import sent_lines
from signoff.channels.email.parsing.reading import CUT_MARKER, IncomingMail, SentLines
from signoff.channels.email.parsing.reading import read_mail as read_whole
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.outbox import backoff
from signoff.channels.pipeline.port import Kind, Message
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock

MAILBOX = "approvals@signoff.example"
DAYS = {"approved_days": 0}


def reply(
    token: str, text: str, *, sender: str = "Mara Lind <mara@example.com>", **headers: str
) -> bytes:
    """Return a mail that answers a token."""
    local, _, domain = MAILBOX.partition("@")
    mail = EmailMessage()
    mail["From"] = sender
    mail["To"] = f"{local}+{token}@{domain}" if token else MAILBOX
    mail["Subject"] = subject_of(token)
    mail["Message-ID"] = "<reply@mail.example>"
    for name, value in headers.items():
        del mail[name.replace("_", "-")]
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail.as_bytes()


async def take(
    channels: Channels,
    raw: bytes,
    *,
    sender: str | None = "mara@example.com",
    recipients: Sequence[str] = (),
) -> list[Message]:
    """Store a mail, and run the intake and the deliveries."""
    await store(channels.ledger, raw, sender=sender, recipients=recipients)
    channels.channel.delivered.clear()
    await channels.intake.drain()
    await channels.delivery.drain()
    assert (await channels.ledger.backlog())["intake"] == 0
    return list(channels.channel.delivered)


async def test_a_yes_approves_and_resumes(channels: Channels) -> None:
    """One commit decides, passes the run on and acknowledges the mail."""
    approval, token = await channels.ask()

    (told,) = await take(channels, reply(token, "approve\nnote: fine by me\n\n> quoted\n"))

    after = await channels.ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert (present(after.decision).by, present(after.decision).channel) == ("mara", "email")
    assert present(after.decision).reason == "fine by me"
    assert (await channels.ledger.run(after.origin.run)).state is RunState.ANSWERED
    assert (await channels.ledger.backlog())[stages.resume("finance")] == 1
    assert (told.kind, told.headline) == (Kind.OUTCOME, "Recorded: you approved reimburse")


async def test_a_no_rejects_with_its_reason(channels: Channels) -> None:
    """The model reads the person's reason."""
    approval, token = await channels.ask()
    await take(channels, reply(token, "reject over budget"))
    after = await channels.ledger.approval(approval.id)
    assert (after.state, present(after.decision).reason) == (State.REJECTED, "over budget")


@pytest.mark.parametrize("text", ["approve\napproved_days: 3", "approve 3"])
async def test_values_go_to_the_tool(channels: Channels, text: str) -> None:
    """An approval with a value fills the template."""
    approval, token = await channels.ask(template=DAYS, tool="request_time_off", days=5)
    await take(channels, reply(token, text))
    assert present((await channels.ledger.approval(approval.id)).decision).payload == {
        "approved_days": 3
    }


async def test_a_signature_is_not_a_condition(channels: Channels) -> None:
    """Names and numbers below an answer do not matter."""
    approval, token = await channels.ask()
    await take(channels, reply(token, "approve\n\nMara Lind\n+49 170 1234567\n\nwww.example.com"))
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


async def test_alias_address_in_another_case_identifies_the_person(channels: Channels) -> None:
    """Programs write a person's other addresses in another case."""
    approval, token = await channels.ask()
    mail = reply(token.upper(), "yes", sender="M.Lind@Example.NET", Subject=subject_of(token))
    await take(channels, mail)
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


async def test_token_in_the_envelope_recipient_is_enough(channels: Channels) -> None:
    """If a relay rewrote the To header, the envelope's recipient identifies the request."""
    approval, token = await channels.ask()
    raw = reply("", "approve", Subject=subject_of(token))
    await take(channels, raw, recipients=[f"approvals+{token}@signoff.example"])
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


@pytest.mark.parametrize(
    ("template", "text", "problem", "example"),
    [
        (None, "banana", "banana", "approve"),
        (None, "", "no words of yours", "approve"),
        (None, "approve: 900", "“900”", "approve"),
        (None, "approve if he agrees", "", "approve"),
        (None, "approve with amount=many", "many", "approve"),
        (DAYS, "approve", "approved_days", "approve\napproved_days: 3"),
        (DAYS, "approve\napproved_days: many", "many", "approve\napproved_days: 3"),
        ({"days": 5, "note": ""}, "approve\ndays: x\nnote: y", '"x"', "approve\nnote: text"),
    ],
)
async def test_unclear_answer_gets_a_question_with_an_example(
    channels: Channels,
    template: dict[str, int] | dict[str, object] | None,
    text: str,
    problem: str,
    example: str,
) -> None:
    """The person reads what was wrong, with an example that works."""
    approval, token = await channels.ask(template=template)

    (told,) = await take(channels, reply(token, text))

    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    (*_, noted) = await channels.whats(approval)
    assert noted in {What.NOT_UNDERSTOOD, What.REFUSED_ANSWER}
    assert told.kind is Kind.NOTICE
    assert told.headline.startswith("Nothing is decided yet")
    assert problem in told.text
    assert told.example.startswith(example)
    assert (told.token, told.reply_to) == (token, "<reply@mail.example>")
    assert told.thread == approval.asked[0].receipt


async def test_unclear_mails_get_three_notices_a_day(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """Ten unclear mails on a day get three notices; after a day without any there are more."""
    channels = still_channels
    channels.policies = (Policy(name="slow", ask=("mara",), within="1w"),)
    approval, token = await channels.ask()
    told = []
    for n in range(10):
        told += await take(channels, reply(token, f"banana {n}"))
    assert "It is open until Mon 9 Mar 2026" in told[0].text
    assert [one.text for one in told] == [
        told[0].text.replace("banana 0", f"banana {n}") for n in range(3)
    ]
    clock.advance(timedelta(hours=1))
    assert await take(channels, reply(token, "apple")) == []
    assert (await channels.whats(approval)).count(What.NOT_UNDERSTOOD) == 11
    client = channels.ledger.store.client
    (guard,) = await client.keys(f"{channels.ledger.store.prefix}told:*")
    assert 0 < await client.pttl(guard) <= 86_400_000


async def test_after_nonsense_a_clear_answer_counts(channels: Channels) -> None:
    """The token stays valid after a question back."""
    approval, token = await channels.ask()
    await take(channels, reply(token, "banana"))
    await take(channels, reply(token, "approve"))
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED


AUTOMATIC = {
    "Auto-Submitted": "auto-replied",
    "Precedence": "bulk",
    "List-Id": "<list.example.com>",
    "X-Autoreply": "yes",
}


async def test_own_mail_that_returns_is_not_answered(channels: Channels) -> None:
    """A card that a mail rule sends back starts no conversation."""
    approval, token = await channels.ask()
    assert await take(channels, reply(token, "approve", X_Signoff_Loop="signoff.example")) == []
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    quoted = "X-Signoff-Loop: signoff.example\n\napprove"
    assert len(await take(channels, reply(token, quoted))) == 1


@pytest.mark.parametrize("name", AUTOMATIC)
async def test_automatic_replies_decide_nothing_and_get_no_answer(
    channels: Channels, name: str
) -> None:
    """An out-of-office reply that says "approve" is recorded and ignored."""
    approval, token = await channels.ask()
    told = await take(
        channels, reply(token, "approve", **{name.replace("-", "_"): AUTOMATIC[name]})
    )
    assert told == []
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    noted = What.IGNORED_MAIL if name in {"Precedence", "List-Id"} else What.AWAY
    assert (await channels.whats(approval))[-1] is noted


async def test_the_empty_return_path_is_a_robots(channels: Channels) -> None:
    """A mail without an envelope sender comes from a program."""
    approval, token = await channels.ask()
    assert await take(channels, reply(token, "approve"), sender="") == []
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING


@pytest.mark.parametrize("token", ["", "a" * 26, "short"])
async def test_a_mail_without_a_known_token_is_ignored(channels: Channels, token: str) -> None:
    """The audit records it, and it gets no answer."""
    assert await take(channels, reply(token, "approve")) == []


async def test_token_decides_only_its_own_approval(channels: Channels) -> None:
    """A token is valid for one approval."""
    first, first_token = await channels.ask(purpose="one")
    second, _ = await channels.ask(purpose="two")
    await take(channels, reply(first_token, "approve"))
    assert (await channels.ledger.approval(first.id)).state is State.APPROVED
    assert (await channels.ledger.approval(second.id)).state is State.PENDING


async def test_a_mail_to_two_requests_decides_neither(channels: Channels) -> None:
    """One answer cannot belong to two questions."""
    first, one = await channels.ask(purpose="one")
    second, two = await channels.ask(purpose="two")
    to = f"approvals+{one}@signoff.example, approvals+{two}@signoff.example"
    (told,) = await take(channels, reply("", "approve", To=to))
    assert "Answer each in a separate mail" in told.text
    for approval in (first, second):
        assert (await channels.ledger.approval(approval.id)).state is State.PENDING


async def test_answer_after_the_deadline_does_not_count(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """After the deadline it does not count, even if no timer has run yet."""
    channels = still_channels
    approval, token = await channels.ask()
    clock.advance(timedelta(hours=4))

    (told,) = await take(channels, reply(token, "approve"))

    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert told.headline == "Too late: the time to decide on reimburse is over"
    assert (await channels.whats(approval))[-1] is What.REFUSED_ANSWER
    await channels.decider.time_out(approval.id)
    await channels.delivery.drain()
    again = await take(channels, reply(token, "approve, please"))
    assert [one.headline for one in again] == [told.headline]


async def test_second_answer_gets_the_name_of_the_first_decider(channels: Channels) -> None:
    """The second answer changes nothing, and its writer reads who decided."""
    channels.policies = (Policy(name="both", ask=("mara", "cleo")),)
    approval, _ = await channels.ask()
    token = next(m.token for m in channels.channel.delivered if m.person == "cleo")
    await channels.decider.reject(approval.id, MARA, channel="cli", reason="no")
    await channels.delivery.drain()

    (told,) = await take(channels, reply(token, "approve", sender=CLEO.email))

    assert (await channels.ledger.approval(approval.id)).state is State.REJECTED
    assert told.headline == "Already decided: reimburse was rejected by Mara Lind"


async def test_repeated_approval_is_answered_once_and_thanks_is_not(channels: Channels) -> None:
    """A second yes learns that the first one counted; a later "thanks" gets no answer."""
    approval, token = await channels.ask()
    await take(channels, reply(token, "approve"))
    (told,) = await take(channels, reply(token, "approve!"))
    assert told.headline == "You had already approved reimburse"
    assert await take(channels, reply(token, "approve.")) == []
    assert await take(channels, reply(token, "Thanks a lot")) == []
    assert present((await channels.ledger.approval(approval.id)).decision).reason == ""


async def test_the_requester_cannot_decide_by_mail(
    channels: Channels, directory: Directory
) -> None:
    """A sender who turns out to be the requester is told that they may not decide."""
    from deciding import Decider

    approval, token = await channels.ask()
    mara = MARA.model_copy(update={"aliases": ("riley",)})
    channels.decider = Decider(channels.ledger, Directory([mara, CLEO]))
    (told,) = await take(channels, reply(token, "approve"))
    assert told.headline == "You cannot decide reimburse"
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING


async def test_person_who_left_cannot_decide(channels: Channels) -> None:
    """A person who is not in the settings any more cannot decide with any token."""
    from deciding import Decider

    approval, token = await channels.ask()
    channels.decider = Decider(channels.ledger, Directory([CLEO]))
    await take(channels, reply(token, "approve"))
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert (await channels.whats(approval))[-1] is What.REFUSED_ANSWER


async def test_a_processed_mail_is_forgotten_but_for_its_hash(channels: Channels) -> None:
    """The text is deleted from the ledger; its hash stays for a week."""
    _, token = await channels.ask()
    raw = reply(token, "approve: secret words")
    await take(channels, raw)
    key = mail_key(mail_id(raw, sender="mara@example.com", recipients=[]))
    assert await load(channels.ledger, key) is None
    async with channels.ledger.store.translated_client() as client:
        assert (
            b"secret" not in present(await client.get(channels.ledger.store.prefix + key)).encode()
        )
        left = await channels.ledger.store.client.pttl(channels.ledger.store.prefix + key)
    assert timedelta(days=6) < timedelta(milliseconds=left) <= timedelta(days=7)


async def test_mail_over_a_limit_is_quarantined(channels: Channels) -> None:
    """A mail over a limit is quarantined with its bytes, and the others are processed."""
    approval, token = await channels.ask()
    bomb = b"".join(b"X-H%d: %s\r\n" % (n, b"x" * 1000) for n in range(100)) + reply(token, "yes")
    await store(channels.ledger, bomb, sender="mara@example.com", recipients=[])
    await take(channels, reply(token, "approve"))

    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    found = await channels.ledger.raw(
        quarantine_key(mail_id(bomb, sender="mara@example.com", recipients=[]))
    )
    assert found is not None
    assert json.loads(found[1])["problem"]


async def test_a_reader_that_breaks_ends_in_quarantine(
    still_channels: Channels, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mail that our own code cannot process is tried a few times and then quarantined."""
    channels = still_channels
    approval, token = await channels.ask()
    poison = reply(token, "poison")

    def read_mail(raw: bytes, sent_lines: SentLines = ()) -> IncomingMail:
        if b"poison" in raw:
            raise KeyError("a bug")
        return read_whole(raw, sent_lines)

    monkeypatch.setattr("signoff.channels.email.parsing.reading.read_mail", read_mail)
    await store(channels.ledger, poison, sender="mara@example.com", recipients=[])
    await store(channels.ledger, reply(token, "approve"), sender="mara@example.com", recipients=[])
    for attempt in range(1, 8):
        await channels.intake.drain()
        clock.advance(timedelta(seconds=backoff(attempt) * 2))

    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    assert (await channels.ledger.backlog())["intake"] == 0
    async with channels.ledger.store.translated_client() as client:
        assert len(await client.keys(f"{channels.ledger.store.prefix}quarantine:*")) == 1


async def test_two_concurrent_answers_make_one_decision(channels: Channels) -> None:
    """Of an approval and a rejection at the same time, one counts and the other is told."""
    channels.policies = (Policy(name="both", ask=("mara", "cleo")),)
    approval, _ = await channels.ask()
    tokens = {m.person: m.token for m in channels.channel.delivered}
    yes = reply(tokens["mara"], "approve")
    no = reply(tokens["cleo"], "reject: too dear", sender=CLEO.email)
    for raw in (yes, no):
        await store(channels.ledger, raw, sender="x@example.com", recipients=[])
    claim = await channels.ledger.claim(stages.INTAKE)

    await asyncio.gather(*(channels.intake.work([item]) for item in claim.items))

    after = await channels.ledger.approval(approval.id)
    assert after.state in {State.APPROVED, State.REJECTED}
    whats = await channels.whats(approval)
    assert whats.count(What.REFUSED_ANSWER) == 1
    assert len([one for one in whats if one in {What.APPROVED, What.REJECTED}]) == 1
    assert (await channels.ledger.backlog())["intake"] == 0


async def test_worker_without_its_lease_commits_nothing(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """A worker that was too slow commits nothing, because another has the mail."""
    channels = still_channels
    approval, token = await channels.ask()
    await store(channels.ledger, reply(token, "approve"), sender="m@example.com", recipients=[])
    (slow,) = (await channels.ledger.claim(stages.INTAKE, lease=30)).items
    clock.advance(timedelta(seconds=31))
    await channels.ledger.claim(stages.INTAKE, lease=30)

    await channels.intake.work([slow])

    assert (await channels.ledger.approval(approval.id)).state is State.PENDING


async def test_an_unmarked_quote_is_not_the_reason(
    channels: Channels, directory: Directory
) -> None:
    """Our own lines below an answer are left out, even without marks and cut marker."""
    approval, token = await channels.ask()
    mail_settings = EmailSettings(mailbox=MAILBOX)

    def lines(approval: Approval, person: str) -> Collection[str]:
        return sent_lines(approval, person, directory=directory, settings=mail_settings)

    channels_intake = Intake(channels.decider, mailbox=MAILBOX, sent_lines=lines)
    ours = lines(approval, "mara")
    quoted = "\n".join(line for line in sorted(ours) if CUT_MARKER not in line)
    await store(
        channels.ledger,
        reply(token, f"reject\n{quoted}\n"),
        sender="m@example.com",
        recipients=[],
    )
    await channels_intake.drain()
    after = await channels.ledger.approval(approval.id)
    assert (after.state, present(after.decision).reason) == (State.REJECTED, "")


def test_copied_card_line_with_a_value_counts_as_a_value(directory: Directory) -> None:
    """If a person copies "amount: 2500" from the card, the value is theirs."""
    from builders import asked_approval

    approval = asked_approval(template={"amount": 0})
    lines = sent_lines(
        approval, "mara", directory=directory, settings=EmailSettings(mailbox=MAILBOX)
    )
    assert not any(line.strip().startswith("amount") for line in lines)
    assert any(line.strip().startswith("purpose") for line in lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(text=st.text(max_size=300))
async def test_no_text_breaks_the_intake(channels: Channels, text: str) -> None:
    """Any mail ends as a decision, a question or a note."""
    _, token = await channels.ask(purpose=new_token())
    raw = b"\r\n".join(
        [
            b"From: mara@example.com",
            f"To: approvals+{token}@signoff.example".encode(),
            b"Content-Type: text/plain; charset=utf-8",
            b"",
            text.encode("utf-8", "surrogatepass"),
        ]
    )
    await take(channels, raw)
    async with channels.ledger.store.translated_client() as client:
        assert not await client.keys(f"{channels.ledger.store.prefix}quarantine:*")


async def test_each_mail_is_parsed_once(channels: Channels) -> None:
    """Its header identifies the card, whose lines are then compared."""
    approval, token = await channels.ask()
    reads: list[bytes] = []

    async def read(raw: bytes, sent_to: SentTo, /) -> IncomingMail:
        reads.append(raw)
        return await read_here(raw, sent_to)

    def lines(one: Approval, person: str) -> Collection[str]:
        assert (one.id, person) == (approval.id, MARA.id)
        return {"Please answer this card."}

    intake = Intake(channels.decider, mailbox=MAILBOX, sent_lines=lines, read=read)
    raw = reply(token, "approve\nPlease answer this card.")
    await store(channels.ledger, raw, sender="mara@example.com", recipients=())
    await intake.drain()
    assert len(reads) == 1
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
