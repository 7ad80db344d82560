"""`signoff grants`: approve similar calls in advance, and revoke these grants."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signoff.cli.commands.approvals.moves import CHANNEL
from signoff.cli.commands.context import (
    Json,
    length_of,
    operator,
    person_of,
    settings_of,
    with_decisions,
    write_json,
)
from signoff.cli.commands.options import AuditReason, By, Limit
from signoff.cli.printing import Output, Table, Text
from signoff.cli.terminal import say
from signoff.core.base.counts import counted

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.core.approvals.approval import Approval
    from signoff.core.directory.people import Directory
    from signoff.core.grants.grant import Grant

app = typer.Typer(no_args_is_help=True, help='"Approve this and calls like it for 4 hours".')

GrantId = Annotated[
    str,
    typer.Argument(metavar="ID", help="The id: gr_ and 16 letters, or the approval it came from."),
]


@app.command()
def give(
    ctx: typer.Context,
    approval_id: Annotated[
        str, typer.Argument(metavar="APPROVAL", help="The approval. A pending one is approved.")
    ],
    *,
    length: Annotated[
        str, typer.Option("--for", metavar="DURATION", help="How long: 30m, 4h, 1d.")
    ],
    uses: Annotated[
        int | None,
        typer.Option(min=1, help="How many further calls. The default is the policy's maximum."),
    ] = None,
    person: Annotated[
        str,
        typer.Option(
            "--as",
            metavar="PERSON",
            help="The giver. The default is the person who approved the call.",
        ),
    ] = "",
    limit: Annotated[
        str, typer.Option(metavar="CEL", help="A narrower limit: 'args.amount <= 100'.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    as_json: Json = False,
) -> None:
    """Approve a call, and similar calls for a while."""
    span = length_of(length, "--for")

    async def work(decisions: Decisions) -> Grant:
        from signoff.core.approvals.moves import Actor  # noqa: PLC0415 -- the domain
        from signoff.core.grants.moves import GiveGrant  # noqa: PLC0415

        who = person or _approver(await decisions.ledger.approval(approval_id))
        move = GiveGrant(span=span, uses=uses, limit=limit, reason=reason)
        actor = Actor(person_of(decisions.directory, who), CHANNEL)
        return (await decisions.take(approval_id, move, actor)).grant_or_raise()

    done = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json(_record(done))
        return
    from signoff.cli.commands.approvals.tables import moment  # noqa: PLC0415 -- the domain

    until = moment(done.expires_at, settings_of(ctx).everybody)
    say(
        f"{done.id}: {_covers(done)}, {counted(done.uses, 'time')} until {until}.\n"
        f"`signoff grants revoke {done.id} --reason …` takes it back."
    )


@app.command("list")
def list_(
    ctx: typer.Context,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Include ended ones.")] = False,
    limit: Limit = 100,
    as_json: Json = False,
) -> None:
    """List grants, the latest first."""

    async def work(decisions: Decisions) -> None:
        from signoff.broker.grants import Grants  # noqa: PLC0415

        now = await decisions.ledger.now()
        given = await Grants(decisions.ledger).all()
        found = [one for one in given if everything or one.state(now) == "open"][:limit]
        if as_json:
            write_json([_json(one, now) for one in found])
        elif found:
            _print_list(found, decisions.directory, now)
        else:
            say("There are no grants." if everything else "There are no open grants.")

    with_decisions(ctx, work)


@app.command()
def show(ctx: typer.Context, grant_id: GrantId, *, as_json: Json = False) -> None:
    """Show a grant: what it covers, and what it has decided."""

    async def work(decisions: Decisions) -> None:
        from signoff.broker.grants import Grants  # noqa: PLC0415
        from signoff.core.approvals.masking import masked  # noqa: PLC0415

        grants = Grants(decisions.ledger)
        grant = await grants.get(grant_id)
        used = await grants.uses(grant)
        now = await decisions.ledger.now()
        if as_json:
            uses = [
                {"approval": one.id, "run": one.origin.run, "args": masked(one).call.args}
                for one in used
            ]
            write_json({**_json(grant, now), "decided": uses})
        else:
            _print(grant, used, decisions.directory, now)

    with_decisions(ctx, work)


@app.command()
def revoke(
    ctx: typer.Context,
    grant_id: GrantId,
    *,
    reason: AuditReason,
    by: By = "",
    as_json: Json = False,
) -> None:
    """Revoke a grant at once."""
    who = by or operator()

    async def work(decisions: Decisions) -> Grant:
        from signoff.core.approvals.collaboration import Operator  # noqa: PLC0415 -- the domain
        from signoff.core.approvals.moves import Actor  # noqa: PLC0415

        actor = Actor(Operator(name=who), CHANNEL)
        return (await decisions.revoke(grant_id, reason, actor)).grant_or_raise()

    done = with_decisions(ctx, work)
    if as_json:
        write_json(_record(done))
    else:
        say(f"{done.id} is revoked; it has decided {done.used} of {done.uses}.")


def _approver(approval: Approval) -> str:
    by = approval.decision.by if approval.decision is not None else ""
    if not by:
        raise typer.BadParameter(
            f"nobody has approved {approval.id} yet; say who does", param_hint="--as"
        )
    return by


def _covers(grant: Grant) -> str:
    """Return one line that describes the calls that a grant covers."""
    from signoff.core.base.shown_text import one_line, shown_name, shown_value, unbroken  # noqa: PLC0415

    scope = grant.masked.scope
    args = scope.args
    fixed = [f"{shown_name(name)}={unbroken(shown_value(args[name]))}" for name in args]
    varied = [f"any {one_line(name)}" for name in scope.vary]
    limits = f" where {' and '.join(map(one_line, scope.limits))}" if scope.limits else ""
    return f"{one_line(scope.tool)}({', '.join([*fixed, *varied])}){limits}"


def _record(grant: Grant) -> dict[str, Any]:
    """Return a grant as JSON, without hidden values."""
    return grant.masked.model_dump(mode="json")


def _json(grant: Grant, now: datetime) -> dict[str, Any]:
    return {**_record(grant), "state": grant.state(now)}


def _print_list(found: Iterable[Grant], directory: Directory, now: datetime) -> None:
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

    made = Table("id", "state", "by", "covers", "requester", "used", "until")
    for one in found:
        person = directory.get(one.by)
        used = f"{one.used} of {one.uses}"
        who = (person.shown if person else one.by, _covers(one), one.scope.user)
        tables.add(
            made, one.id, one.state(now), *who, used, tables.moment(one.expires_at, directory)
        )
    Output().print(made)


def _print(grant: Grant, used: Iterable[Approval], directory: Directory, now: datetime) -> None:
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain
    from signoff.core.cards.card import rows_of  # noqa: PLC0415

    person, scope = directory.get(grant.by), grant.scope
    revoked = (
        f"{tables.moment(grant.revoked_at, directory)} by {grant.revoked_by}: {grant.revoked_why}"
    )
    facts = {
        "id": grant.id,
        "state": grant.state(now),
        "covers": _covers(grant),
        "of": f"{scope.app} ({scope.agent})" if scope.agent else scope.app,
        "requester": scope.user,
        "policy": scope.policy,
        "given by": f"{person.shown if person else grant.by}, by {grant.channel}",
        "reason": grant.reason,
        "given": tables.moment(grant.at, directory),
        "until": tables.moment(grant.expires_at, directory),
        "used": f"{grant.used} of {grant.uses}",
        "came from": grant.approval,
        "revoked": revoked if grant.revoked_at else "",
    }
    made = Table("", "")
    for name, value in facts.items():
        if value:
            tables.add(made, name, value)
    out = Output()
    out.print(made)
    uses = Table("approval", tables.time_column(directory), "run", "call")
    for one in used:
        at = one.decision.at if one.decision else None
        call = ", ".join(f"{row.name}={row.value}" for row in rows_of(one, one.call.args))
        tables.add(
            uses, one.id, tables.moment(at, directory), one.origin.run, f"{one.call.name}({call})"
        )
    if uses.rows:
        out.print(Text("\ndecided", style="bold"))
        out.print(uses)
