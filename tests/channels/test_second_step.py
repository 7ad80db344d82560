"""With a second step: the effect of a mail, and the replies to its writer."""

import pytest

from builders import MARA, present
from channels.conftest import Channels
from signoff.broker.work import RouteApproval
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.port import Kind, Message
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import mark_of
from signoff.core.approvals.run import RunState
from signoff.core.policies.policy import Edits, Fallback, Policy

MAILBOX = "approvals@signoff.example"
INBOX = InboxSettings(url="https://approvals.example.com", secret_key="k" * 32)
POLICY = Policy(name="expenses", ask=("mara",), within="4h", second_step="args.amount > 100")


@pytest.fixture
def office(channels: Channels) -> Channels:
    """Return the stages under a policy that needs a second step above 100."""
    channels.inbox, channels.policies = INBOX, (POLICY,)
    return channels


async def take(office: Channels, token: str, text: str) -> list[Message]:
    """Answer a token, and return the replies to Mara."""
    return await office.receive(MARA, token, text, route=False)


async def test_approval_by_mail_needs_confirmation_and_decides_nothing(office: Channels) -> None:
    """The run waits; the person reads where and until when to confirm."""
    approval, token = await office.ask()

    (told,) = await take(office, token, "approve\nnote: fine by me")

    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.step_of("mara")).reason) == (State.PENDING, "fine by me")
    assert (await office.ledger.run(after.origin.run)).state is RunState.PAUSED
    assert (told.kind, told.headline) == (
        Kind.NOTICE,
        "One more step: confirm your yes to reimburse",
    )
    assert told.link == f"https://approvals.example.com/inbox/approvals/{approval.id}"
    assert "Note: fine by me" in told.text
    assert f"{after.deadline:%H:%M} UTC" in told.text
    assert (await office.whats(approval))[-1] is What.FIRST_STEP


async def test_last_answer_before_the_second_step_counts(office: Channels) -> None:
    """A later answer replaces the first with its values, and the reply says so."""
    approval, token = await office.ask(template={"days": 0}, amount=500)
    await take(office, token, "approve 3")

    (told,) = await take(office, token, "approve 5")

    assert "replaces your earlier answer" in told.text
    assert "days = 5" in told.text
    after = await office.ledger.approval(approval.id)
    assert [step.payload for step in after.steps] == [{"days": 5}]


async def test_proposed_values_need_the_second_step(office: Channels) -> None:
    """They would be a rejection with a proposal, and need the second step too."""
    approval, token = await office.ask(amount=500)
    (told,) = await take(office, token, "approve with amount=300")
    assert "With amount = 300 instead of what was shown." in told.text
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_rejection_counts_at_once_even_after_an_approval(office: Channels) -> None:
    """A person who sees a forged approval can stop it by mail."""
    approval, token = await office.ask()
    await take(office, token, "approve")
    (told,) = await take(office, token, "reject: that was not me")
    assert told.kind is Kind.OUTCOME
    assert (await office.ledger.approval(approval.id)).state is State.REJECTED


async def test_confirmed_approval_resumes_the_run_and_informs_everybody(office: Channels) -> None:
    """The second step decides as the first one said, and everybody is told."""
    approval, token = await office.ask()
    await take(office, token, "approve\nnote: fine")
    step = present((await office.ledger.approval(approval.id)).step_of("mara"))
    office.channel.delivered.clear()

    await office.decider.confirm(approval.id, MARA, channel="inbox", mark=mark_of(step))
    await office.delivery.drain()

    (told,) = office.channel.delivered
    assert told.headline == "Recorded: you approved reimburse"
    assert told.link == ""
    after = await office.ledger.approval(approval.id)
    assert (present(after.decision).reason, present(after.decision).channel) == ("fine", "inbox")
    assert (await office.ledger.run(after.origin.run)).state is RunState.ANSWERED


async def test_below_the_threshold_a_mail_decides(office: Channels) -> None:
    """The policy determines which requests need a second step."""
    approval, token = await office.ask(amount=50)
    await take(office, token, "approve")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_a_mail_that_bounces_does_not_lower_the_bar(office: Channels) -> None:
    """The default is asked instead, and needs two steps as well."""
    office.fallback = Fallback(ask=("cleo",))
    approval, _ = await office.ask()
    change_to = await office.ledger.approval(approval.id)
    from signoff.broker.ledger.change import Change
    from signoff.channels.pipeline.results import refuse

    change = Change()
    now = await office.ledger.now()
    refuse(change, change_to, "mara", channel="email", reason="no such user", now=now)
    await office.ledger.commit(change)
    await office.router.drain()
    after = await office.ledger.approval(approval.id)
    assert [one.person for one in after.asked] == ["mara", "cleo"]
    assert after.in_two_steps


async def test_proposal_by_mail_creates_a_new_request(office: Channels) -> None:
    """With `edits = "approve"`, a proposal by mail would be an approval of one step."""
    free = Policy(name="p", ask=("mara",), within="4h", edits=Edits.APPROVE)
    office.policies = (free,)
    first, token = await office.ask(amount=5000)
    await take(office, token, "approve with amount=4000")
    rejected = await office.ledger.approval(first.id)
    assert present(rejected.decision).proposal == {"amount": 4000}
    office.policies = (free.model_copy(update={"second_step": "true"}),)
    from builders import make_call, make_origin
    from signoff.broker.ledger.change import Change
    from signoff.core.approvals.approval import Approval

    run = await office.decider.submit("finance", "again", user="riley")
    opened, events = Approval.open(
        make_origin(run=run.id, session=run.session, confirmation="adk-2"),
        make_call(amount=4000),
        hint="",
        template=None,
        now=await office.ledger.now(),
        supersedes=first.id,
    )
    change = Change().put(opened, was=None).note(events)
    submitted = await office.ledger.run(run.id)
    change.put(submitted.paused([opened.id]), was=submitted)
    change.send(RouteApproval(approval=opened.id))
    await office.ledger.commit(change)

    office.channel.delivered.clear()
    await office.router.drain()
    await office.delivery.drain()

    assert (await office.ledger.approval(opened.id)).state is State.PENDING
    kinds = {one.card.approval: one.kind for one in office.channel.delivered}
    assert kinds == {first.id: Kind.STATUS, opened.id: Kind.CARD}, "Riley reads of the no"


@pytest.mark.parametrize("amount", [50, 500])
async def test_card_states_that_two_steps_are_needed(office: Channels, amount: int) -> None:
    """Every card links to its page; with two steps it says that a mail is not enough."""
    await office.ask(amount=amount)
    (card,) = office.channel.delivered
    settings = EmailSettings(mailbox=MAILBOX)
    for text in (plain_text(card, settings), html(card, settings)):
        assert card.link in text
        assert ("A reply alone does not approve this request." in text) is (amount > 100)
        assert card.token not in card.link
    office.inbox = InboxSettings()
    await office.ask(amount=50)
    bare = office.channel.delivered[-1]
    assert bare.link == ""
    assert "on its page" not in html(bare, settings)
