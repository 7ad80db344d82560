"""Calls of users who are not in the directory: asked about or refused, as set."""

from __future__ import annotations

import pytest

from builders import CLEO, MARA, NOON, RILEY, people
from channels.conftest import Channels
from channels.test_who_wrote_it import answer, intake_of, take
from signoff.channels.forecast import call_facts
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.approvals.run import RunState
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import EmailProof, Fallback, Policy
from signoff.core.routing.targets import targets_of
from signoff.core.simulation.forecast import End
from signoff.core.simulation.timeline import simulate
from signoff.worker.refusals import refusal

UNKNOWN = ("stranger", "oidc|riley", "riley+x@example.com", "R1ley")


@pytest.fixture
def directory() -> Directory:
    """The usual people; only they may request."""
    return Directory([MARA, CLEO, RILEY], strangers=False)


@pytest.mark.parametrize("user", UNKNOWN)
async def test_call_of_a_forbidden_unknown_requester_is_rejected(
    channels: Channels, user: str
) -> None:
    """Nobody is asked; the run gets a rejection with the reason, as does the audit."""
    approval = await channels.open(user=user)
    await channels.router.drain()
    await channels.delivery.drain()
    after = await channels.ledger.approval(approval.id)
    assert (after.state, after.asked) == (State.REJECTED, ())
    assert channels.channel.delivered == []
    run = await channels.ledger.run(after.origin.run)
    assert run.state is RunState.ANSWERED
    assert (await channels.whats(approval))[-1] is What.REJECTED
    told = refusal(after)
    assert "nobody was asked" in told["error"]
    assert "not in the directory" in told["reason"]


@pytest.mark.parametrize("user", ["riley", "RILEY@example.com", "r.voss@example.net"])
async def test_known_people_ask_as_ever(channels: Channels, user: str) -> None:
    """They are recognised by id and by each address."""
    approval, _ = await channels.ask(user=user)
    assert (approval.state, set(approval.approvers)) == (State.PENDING, {"mara"})


@pytest.mark.parametrize(
    ("strangers", "whats"),
    [(True, [What.ASKED, What.TIMED_OUT]), (False, [What.REJECTED])],
)
def test_policy_explain_predicts_the_rejection(strangers: bool, whats: list[What]) -> None:
    """`policy explain` shows what the router does."""
    line = simulate(
        [Policy(name="p", ask=("mara",))],
        Fallback(),
        Directory([MARA], strangers=strangers),
        call_facts("reimburse", user="stranger"),
        start=NOON,
        reach=lambda found, rules: targets_of(found, rules, {"email"}),
    )
    assert [one.what for one in line.steps] == whats
    assert line.end is End.REJECT


@pytest.mark.parametrize("directory", [people()], ids=["all may ask"])
@pytest.mark.parametrize("user", ["guest@example.org", "oidc|guest@example.org"])
async def test_an_unknown_requester_does_not_answer_by_another_spelling(
    channels: Channels, directory: Directory, user: str
) -> None:
    """If anybody may answer, the requester still may not."""
    assert directory.strangers
    channels.policies = (Policy(name="p", ask=("mara",), within="4h", email=EmailProof.TOKEN),)
    approval, token = await channels.ask(user=user)
    intake = intake_of(channels, required=EmailProof.TOKEN)
    for sender in ("guest@example.org", "guest+2@example.org", "Guest@EXAMPLE.org"):
        await take(channels, answer(token, sender=sender), intake=intake)
        assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    await take(channels, answer(token, sender="other@example.org"), intake=intake)
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
