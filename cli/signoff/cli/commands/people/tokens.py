"""`signoff tokens`: creates, lists and revokes the tokens of the REST API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import (
    Json,
    length_of,
    operator,
    person_of,
    with_decisions,
    write_json,
)
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.core.access.api_tokens import Access
    from signoff.core.access.scopes import Scope

app = typer.Typer(no_args_is_help=True, help="Tokens for the REST API.")


@app.command()
def create(
    ctx: typer.Context,
    *,
    scope: Annotated[
        list[str],
        typer.Option(
            help="A scope: runs:submit, runs:read, approvals:read, approvals:decide, "
            "approvals:withdraw, audit:read, instances:manage, admin. May be given several times.",
        ),
    ],
    person: Annotated[
        str,
        typer.Option(
            metavar="PERSON", help="The person as whom it acts: an id or address in [[people]]."
        ),
    ] = "",
    user: Annotated[
        list[str] | None,
        typer.Option(
            metavar="USER",
            help="For a system: an ADK user for whom it submits, or *; can be repeated.",
        ),
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option("--app", metavar="APP", help="Only for this agent; can be repeated."),
    ] = None,
    name: Annotated[str, typer.Option(help="The token's name in the audit log.")] = "",
    expires: Annotated[
        str, typer.Option(metavar="DURATION", help="How long it is valid: 90d.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Create a token. It is printed once and stored as a hash.

    A person's token (--person) decides as that person. A system's token (--user) submits runs for
    users and decides nothing.
    """
    scopes = frozenset(_scope(one) for one in scope)
    within = length_of(expires, "--expires") if expires else None

    async def work(decisions: Decisions) -> tuple[str, Access]:
        from signoff.broker import api_tokens  # noqa: PLC0415

        now = await decisions.ledger.now()
        whose = person_of(decisions.directory, person) if person else None
        return await api_tokens.create(
            decisions.ledger,
            scopes=scopes,
            by=operator(),
            name=name,
            person=whose.id if whose is not None else "",
            address=whose.email if whose is not None else "",
            users=tuple(user or ()),
            apps=tuple(agent or ()),
            expires_at=now + within if within is not None else None,
        )

    token, access = with_decisions(ctx, work)
    if as_json:
        write_json({"token": token, **_as_json(access)})
    else:
        say(token)
        say(f"Store it now: it is not shown again. `signoff tokens revoke {access.id}`", err=True)


@app.command("list")
def list_(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List tokens, without their secrets."""

    async def work(decisions: Decisions) -> None:
        from signoff.broker.api_tokens import all_tokens  # noqa: PLC0415
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

        found, now = await all_tokens(decisions.ledger), await decisions.ledger.now()
        if as_json:
            write_json([_as_json(one) for one in found])
            return
        made = Table("id", "name", "of", "scopes", "apps", "expires")
        for one in found:
            whose = decisions.directory.get(one.person)
            of = one.person or ", ".join(one.users)
            if whose is not None and not whose.is_still(one.address):
                of = f"{of} (not accepted: it is of {one.address})"
            ends = tables.moment(one.expires_at, decisions.directory)
            ends = "expired" if one.has_expired(now) else ends
            scopes = ", ".join(sorted(one.scopes))
            tables.add(made, one.id, one.name, of, scopes, ", ".join(one.apps), ends)
        Output().print(made)

    with_decisions(ctx, work)


@app.command()
def revoke(
    ctx: typer.Context,
    token_id: Annotated[str, typer.Argument(metavar="ID", help="The id: 10 letters and digits.")],
    *,
    as_json: Json = False,
) -> None:
    """Revoke a token at once."""

    async def work(decisions: Decisions) -> Access:
        from signoff.broker import api_tokens  # noqa: PLC0415

        return await api_tokens.revoke(decisions.ledger, token_id, by=operator())

    gone = with_decisions(ctx, work)
    if as_json:
        write_json(_as_json(gone))
    else:
        say(f"{gone.shown} was revoked.")


def _scope(text: str) -> Scope:
    from signoff.core.access.scopes import Scope  # noqa: PLC0415

    try:
        return Scope(text)
    except ValueError as error:
        # Instances get the other scope with their token, and nothing else has it.
        known = ", ".join(one for one in Scope if one is not Scope.REQUESTS_SUBMIT)
        raise typer.BadParameter(f"it takes {known}, not {text!r}", param_hint="--scope") from error


def _as_json(access: Access) -> dict[str, object]:
    return access.model_dump(mode="json", exclude={"sha256"})
