"""The JSON of `signoff approvals show` is stable: a vote has all its fields in one table."""

from __future__ import annotations

from builders import CLEO, MARA, NOON, make_approval, people
from signoff.cli.commands.approvals.tables import as_json
from signoff.core.approvals.approval import Asked, Shown
from signoff.core.policies.levels import Seat, Start
from signoff.core.policies.policy import Terms


def test_vote_is_one_flat_json_object() -> None:
    """Person, channel and reason are beside the verdict, as before votes held decisions."""
    start = Start(0, 0, (Seat(person="mara"), Seat(person="cleo")), NOON.replace(hour=18))
    cards = tuple(
        Asked(person=one.id, channel="email", address=one.email, shown=Shown.COMPLETE)
        for one in (MARA, CLEO)
    )
    terms = Terms(policy="two", ask=("mara", "cleo"), quorum=2)
    asked, _ = make_approval().ask(terms, cards, now=NOON, start=start)
    voted, _ = asked.approve(MARA, people(), channel="email", now=NOON, reason="fine")
    (vote,) = as_json(voted)["votes"]
    assert {name: vote[name] for name in ("by", "verdict", "channel", "reason", "level")} == {
        "by": "mara",
        "verdict": "approve",
        "channel": "email",
        "reason": "fine",
        "level": 0,
    }
    assert "decision" not in vote
