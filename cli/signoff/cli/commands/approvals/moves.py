"""`signoff approvals claim`, `ask`, `extend` …: the moves other than decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from signoff.cli.commands.context import (
    Json,
    length_of,
    operator,
    person_of,
    with_decisions,
    write_json,
)
from signoff.cli.commands.options import ApprovalId, As
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.core.approvals.approval import Approval
    from signoff.core.approvals.moves import Actor, Move
    from signoff.core.directory.people import Directory

CHANNEL: Final = "cli"

Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text; quote it.")]
MaybeAs = Annotated[
    str,
    typer.Option("--as", metavar="PERSON", help="The person. Without it you act as the operator."),
]
Reason = Annotated[str, typer.Option(help="Why.")]


def claim(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    person: As,
    length: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="DURATION",
            help="How long: 30m, at most a day. The default is the queue's.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Reserve the decision for one approver for a while."""
    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    move = moves.Claim(length=length_of(length, "--for") if length else None)

    def outcome(done: Approval, directory: Directory) -> str:
        from signoff.cli.commands.approvals.tables import moment  # noqa: PLC0415

        if done.claimed is None:
            return "released"
        name = directory.shown(done.claimed.by)
        return f"claimed by {name} until {moment(done.claimed.until, directory)}"

    _take(ctx, approval_id, person, lambda *_: move, outcome, as_json=as_json)


def release(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    person: MaybeAs = "",
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Release a claim, so that all approvers can decide again."""
    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    move = moves.Release(reason=reason)
    _take(ctx, approval_id, person, lambda *_: move, lambda *_: "released", as_json=as_json)


def reassign(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    to: Annotated[str, typer.Option(metavar="PERSON", help="The new approver.")],
    reason: Reason,
    of: Annotated[
        str, typer.Option("--from", metavar="PERSON", help="Whose seat. The default is --as.")
    ] = "",
    person: MaybeAs = "",
    as_json: Json = False,
) -> None:
    """Reassign an approver's seat to another person, who gets a card."""
    if not of and not person:
        raise typer.BadParameter("name the approver: --from, or --as for your own seat")

    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    def move(_: Approval, directory: Directory) -> Move:
        whose = person_of(directory, of or person)
        return moves.Reassign(of=whose, to=person_of(directory, to), reason=reason)

    def outcome(done: Approval, directory: Directory) -> str:
        return f"{directory.shown(done.handovers[-1].to)} decides it now"

    _take(ctx, approval_id, person, move, outcome, as_json=as_json)


def remind(
    ctx: typer.Context, approval_id: ApprovalId, *, person: MaybeAs = "", as_json: Json = False
) -> None:
    """Remind approvers who have not answered, at most once an hour."""
    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    def outcome(done: Approval, directory: Directory) -> str:
        found = (directory.get(one) for one in done.ballot.awaited)
        names = ", ".join(one.shown for one in found if one is not None)
        return f"{names} will be reminded"

    _take(ctx, approval_id, person, lambda *_: moves.Remind(), outcome, as_json=as_json)


def ask(
    ctx: typer.Context,
    approval_id: ApprovalId,
    text: Text,
    *,
    person: As,
    as_json: Json = False,
) -> None:
    """Ask the requester a question. The answer appears on the card."""
    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    def outcome(done: Approval, directory: Directory) -> str:
        return f"{directory.shown(done.origin.user)} is asked"

    _take(ctx, approval_id, person, lambda *_: moves.AskBack(text=text), outcome, as_json=as_json)


def comment(
    ctx: typer.Context,
    approval_id: ApprovalId,
    text: Text,
    *,
    person: MaybeAs = "",
    as_json: Json = False,
) -> None:
    """Comment on the card. The requester's comment answers an open question."""
    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    def move(seen: Approval, directory: Directory) -> Move:
        answers = person and seen.is_requester(person_of(directory, person), directory)
        return moves.AnswerBack(text=text) if answers else moves.Comment(text=text)

    outcome = "the comment is on the card"
    _take(ctx, approval_id, person, move, lambda *_: outcome, as_json=as_json)


def extend(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    by: Annotated[str, typer.Option(metavar="DURATION", help="By how much: 30m, 4h, 1d.")],
    reason: Reason,
    person: MaybeAs = "",
    as_json: Json = False,
) -> None:
    """Extend the deadline, by at most the level's original length."""
    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    move = moves.Extend(by=length_of(by, "--by"), reason=reason)

    def outcome(done: Approval, directory: Directory) -> str:
        from signoff.cli.commands.approvals.tables import moment  # noqa: PLC0415

        return f"open until {moment(done.deadline, directory)}"

    _take(ctx, approval_id, person, lambda *_: move, outcome, as_json=as_json)


def break_glass(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    person: As,
    reason: Reason,
    as_json: Json = False,
) -> None:
    """Run a frozen or unanswered call alone. The policy names who may (`break_glass`).

    All approvers are notified, with the reason.
    """
    from signoff.core.approvals import moves  # noqa: PLC0415 -- the domain takes a while

    move, outcome = moves.BreakGlass(reason=reason), "it runs, and everybody is told"
    _take(ctx, approval_id, person, lambda *_: move, lambda *_: outcome, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the commands to ``signoff approvals``."""
    app.command("break-glass")(break_glass)
    for one in (claim, release, reassign, remind, ask, comment, extend):
        app.command()(one)


def actor_of(directory: Directory, person: str) -> Actor:
    """Return the actor of a decision at the terminal. Operators decide nothing.

    Raises:
        ConfigError: There is no such person.
    """
    from signoff.core.approvals.moves import Actor  # noqa: PLC0415

    # With --as, the assurance is only that of an account: anybody at the terminal can use it.
    return Actor(person_of(directory, person), CHANNEL)


def mover_of(
    move: Move, seen: Approval, directory: Directory, person: str, *, by: str = ""
) -> Actor:
    """Return the actor of a move that is no decision: a person, or an operator.

    Args:
        move: The move.
        seen: The approval.
        directory: The people.
        person: The person who moves; "" for the user of the terminal, who runs Signoff. A person
            with the role makes the moves of operators in their role, as on the page and by REST.
        by: The name for the audit log; the default is the user's name.

    Raises:
        ConfigError: There is no such person.
    """
    from signoff.core.approvals import moves  # noqa: PLC0415
    from signoff.core.approvals.collaboration import Operator, acting  # noqa: PLC0415
    from signoff.core.approvals.parts import Assurance  # noqa: PLC0415
    from signoff.core.directory.people import Role  # noqa: PLC0415

    if not person:
        return moves.Actor(Operator(name=by or operator()), CHANNEL, assurance=Assurance.TERMINAL)
    actor = actor_of(directory, person)
    who = acting(seen, actor.person, directory)
    own_seat = isinstance(move, moves.Reassign) and move.of.id == actor.person.id
    as_approver = isinstance(move, moves.Claim | moves.AskBack | moves.BreakGlass)
    if own_seat or as_approver or not isinstance(who, Operator):
        return actor
    return moves.Actor(who, CHANNEL, {"role": Role.OPERATOR.value})


def _take(
    ctx: typer.Context,
    approval_id: str,
    person: str,
    move_of: Callable[[Approval, Directory], Move],
    outcome_of: Callable[[Approval, Directory], str],
    *,
    as_json: bool,
) -> None:
    """Take a move, and print its outcome."""

    async def work(decisions: Decisions) -> None:
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415

        directory = decisions.directory
        seen = await decisions.ledger.approval(approval_id)
        move = move_of(seen, directory)
        actor = mover_of(move, seen, directory, person)
        taken = await decisions.take(approval_id, move, actor)
        done = taken.approval_or_raise()
        if as_json:
            write_json(tables.as_json(done))
        else:
            say(f"{done.id}: {outcome_of(done, directory)}.")

    with_decisions(ctx, work, rings=True)
