"""What people are told of grants: given, used, used up, revoked."""

from __future__ import annotations

from datetime import tzinfo

from signoff.channels.words.phrases import Words, moment, one_paragraph
from signoff.core.approvals.approval import Approval, State
from signoff.core.cards.card import one_line, topic
from signoff.core.grants.grant import Grant, givers
from signoff.core.replies.examples import example_of_grant

_REVOKE = "revoke"
"""What is answered, and what a button says, to take a grant back."""


def granted(approval: Approval, grant: Grant, *, zone: tzinfo) -> Words:
    """Return to the person who gave a grant what it covers, and how it is taken back."""
    vary, limits = grant.scope.vary, grant.scope.limits
    differ = f"{', '.join(map(one_line, vary))} may differ; " if vary else ""
    within = f" It must hold that {' and '.join(map(one_line, limits))}." if limits else ""
    calls = "call" if grant.uses == 1 else "calls"
    return Words(
        f"Granted: calls like this of {topic(approval)} until {moment(grant.expires_at, zone)}",
        f"The next {grant.uses} {calls} like it, for the same requester, will be approved in your "
        f"name, and you will not be asked: {differ}everything else has to be the same.{within}"
        f"\n\nYou are told of the first and of the last one. {_how_back(grant)}",
        _REVOKE,
    )


def revoked(approval: Approval, grant: Grant) -> Words:
    """Return to the person who took a grant back what it had decided."""
    return Words(
        f"Revoked: no more calls like this of {topic(approval)} are approved in your name",
        f"It has approved {grant.used} of {grant.uses}. You are asked about the next one again.",
    )


def example_of_offer(approval: Approval) -> str:
    """Return how similar calls are approved too, "" where nobody may."""
    rules = approval.terms.grants if approval.terms is not None else None
    if rules is None or not givers(approval):
        return ""
    return f'To approve similar calls too, write "{example_of_grant(rules.longest)}".'


def no_grant(approval: Approval, problem: str) -> Words:
    """Return that no grant was given, and what became of the call itself."""
    if approval.state is State.PENDING:
        return Words(
            f"Nothing is decided yet: {topic(approval)} waits, and calls like it too",
            one_paragraph(f"{problem} You can approve this call by itself."),
            "approve",
        )
    return Words(f"Nothing has changed for calls like {topic(approval)}", one_paragraph(problem))


def used(approval: Approval, grant: Grant, *, zone: tzinfo) -> Words:
    """Return to the person who gave a grant that it was used for the first time."""
    return Words(
        f"First use: a call like {topic(approval)} was approved in your name",
        f"You granted it for {grant.uses} calls until {moment(grant.expires_at, zone)}; "
        f"{grant.left} are left. {_how_back(grant)} `signoff grants show {grant.id}` lists what it "
        "has decided.",
        _REVOKE,
    )


def used_up(approval: Approval, grant: Grant) -> Words:
    """Return to the person who gave a grant that nothing of it is left."""
    return Words(
        f"Used up: what you granted for {topic(approval)} has approved {grant.uses} of "
        f"{grant.uses} calls",
        f"You are asked about the next one again. `signoff grants show {grant.id}` lists them.",
    )


def _how_back(grant: Grant) -> str:
    return (
        f"Answer “{_REVOKE}” to take it back at once. Your Signoff administrator can do so too: "
        f"it is {grant.id}."
    )
