"""`signoff approvals claim`, `ask`, `extend` …: what people do short of deciding."""

from __future__ import annotations

import getpass
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.session import Json, person_of, with_desk, write_json
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.collaboration import Along, Handling
    from signoff.broker.decisions import Desk
    from signoff.core.approvals.approval import Approval
    from signoff.core.approvals.collaboration import Who
    from signoff.core.directory.people import Directory

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="The id: ap_ and 16 letters.")]
Text = Annotated[str, typer.Argument(metavar="TEXT", help="The text; quote it.")]
As = Annotated[
    str,
    typer.Option("--as", metavar="PERSON", help="The approver: an id or address in [[people]]."),
]
MaybeAs = Annotated[
    str,
    typer.Option("--as", metavar="PERSON", help="The person. Without it you act as the operator."),
]
Reason = Annotated[str, typer.Option(help="Why.")]


def length_of(text: str) -> timedelta:
    """Read how long, by the clock.

    Raises:
        typer.BadParameter: It is no duration, or one of working time.
    """
    from signoff.core.base.durations import parse_span  # noqa: PLC0415

    try:
        span = parse_span(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if span.business:
        raise typer.BadParameter("this is time by the clock: leave out `business`")
    return span.length


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
    span = length_of(length) if length else None

    async def move(desk: Desk, handling: Handling) -> Approval:
        return await handling.claim(approval_id, person_of(desk.directory, person), length=span)

    def said(done: Approval, directory: Directory) -> str:
        from signoff.cli.commands.show import moment  # noqa: PLC0415

        if done.claimed is None:
            return "released"
        by = directory.get(done.claimed.by)
        name = by.shown if by else done.claimed.by
        return f"claimed by {name} until {moment(done.claimed.until)}"

    _make(ctx, move, said, as_json=as_json)


def release(
    ctx: typer.Context,
    approval_id: ApprovalId,
    *,
    person: MaybeAs = "",
    reason: Reason = "",
    as_json: Json = False,
) -> None:
    """Release a claim, so that all approvers can decide again."""

    async def move(desk: Desk, handling: Handling) -> Approval:
        return await handling.release(approval_id, _who(desk, person), reason=reason)

    _make(ctx, move, lambda _, __: "released", as_json=as_json)


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
        raise typer.BadParameter("say whose place it is: --from, or --as for one's own")

    async def move(desk: Desk, handling: Handling) -> Approval:
        return await handling.reassign(
            approval_id,
            _who(desk, person),
            of=person_of(desk.directory, of or person),
            to=person_of(desk.directory, to),
            reason=reason,
            along=_along(person),
        )

    def said(done: Approval, directory: Directory) -> str:
        who = directory.get(done.handovers[-1].to)
        return f"{who.shown if who else done.handovers[-1].to} decides it now"

    _make(ctx, move, said, as_json=as_json)


def remind(
    ctx: typer.Context, approval_id: ApprovalId, *, person: MaybeAs = "", as_json: Json = False
) -> None:
    """Remind approvers who have not answered, at most once an hour."""

    async def move(desk: Desk, handling: Handling) -> Approval:
        return await handling.remind(approval_id, _who(desk, person))

    def said(done: Approval, directory: Directory) -> str:
        found = (directory.get(one) for one in done.ballot.awaited)
        names = ", ".join(one.shown for one in found if one is not None)
        return f"{names} will be reminded"

    _make(ctx, move, said, as_json=as_json)


def ask(
    ctx: typer.Context,
    approval_id: ApprovalId,
    text: Text,
    *,
    person: As,
    as_json: Json = False,
) -> None:
    """Ask the requester a question. The answer appears on the card."""

    async def move(desk: Desk, handling: Handling) -> Approval:
        return await handling.ask_back(approval_id, person_of(desk.directory, person), text=text)

    def said(done: Approval, directory: Directory) -> str:
        requester = directory.find(done.origin.user)
        return f"{requester.shown if requester else done.origin.user} is asked"

    _make(ctx, move, said, as_json=as_json)


def comment(
    ctx: typer.Context,
    approval_id: ApprovalId,
    text: Text,
    *,
    person: MaybeAs = "",
    as_json: Json = False,
) -> None:
    """Comment on the card. The requester's comment answers an open question."""

    async def move(desk: Desk, handling: Handling) -> Approval:
        from signoff.core.directory.people import Person  # noqa: PLC0415

        who = _who(desk, person)
        approval = await desk.ledger.approval(approval_id)
        if isinstance(who, Person) and approval.is_requester(who, desk.directory):
            return await handling.answer_back(approval_id, who, text=text)
        return await handling.comment(approval_id, who, text=text)

    _make(ctx, move, lambda _, __: "the comment stands on the card", as_json=as_json)


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
    span = length_of(by)

    async def move(desk: Desk, handling: Handling) -> Approval:
        return await handling.extend(approval_id, _who(desk, person), by=span, reason=reason)

    def said(done: Approval, _: Directory) -> str:
        from signoff.cli.commands.show import moment  # noqa: PLC0415

        return f"open until {moment(done.deadline)}"

    _make(ctx, move, said, as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add the commands to ``signoff approvals``."""
    for one in (claim, release, reassign, remind, ask, comment, extend):
        app.command()(one)


def operator() -> str:
    """Return what stands in the audit for whoever sits at the terminal."""
    return f"{getpass.getuser()} (cli)"


def _along(person: str) -> Along:
    """Return how well it is known who moves: as somebody else, not better than by an account."""
    from signoff.broker.collaboration import Along  # noqa: PLC0415 -- redis takes a while
    from signoff.core.approvals.parts import Assurance  # noqa: PLC0415

    return Along(assurance=Assurance.ACCOUNT if person else Assurance.TERMINAL)


def _who(desk: Desk, person: str) -> Who:
    from signoff.core.approvals.collaboration import Operator  # noqa: PLC0415

    return person_of(desk.directory, person) if person else Operator(name=operator())


def _make(
    ctx: typer.Context,
    move: Callable[[Desk, Handling], Awaitable[Approval]],
    said: Callable[[Approval, Directory], str],
    *,
    as_json: bool,
) -> None:
    async def work(desk: Desk) -> None:
        from signoff.broker.collaboration import Handling  # noqa: PLC0415 -- redis takes a while
        from signoff.cli.commands import show as shows  # noqa: PLC0415

        done = await move(desk, Handling(desk))
        if as_json:
            write_json(shows.as_json(done))
        else:
            say(f"{done.id}: {said(done, desk.directory)}.")

    with_desk(ctx, work, rings=True)
