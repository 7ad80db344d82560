"""`signoff people`: who is in the directory, and who has a second factor."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.session import Json, person_of, settings_of, with_desk, write_json
from signoff.core.errors import ConfigError

if TYPE_CHECKING:
    from signoff.broker.desk import Desk
    from signoff.channels.inbox.factors import Factors

app = typer.Typer(
    no_args_is_help=True, help="The people, and the second factors with which they sign in."
)

Who = Annotated[
    str,
    typer.Argument(metavar="PERSON", help="An id or address in [[people]].", show_default=False),
]


@app.command("list")
def list_(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List the people, and whether they are enrolled for the inbox page."""

    async def work(desk: Desk) -> None:
        from signoff.channels.inbox.factors import enrolled  # noqa: PLC0415 -- cryptography
        from signoff.cli.commands import show as shows  # noqa: PLC0415 -- rich

        found = set(await enrolled(desk.ledger))
        if as_json:
            people = [{**one.model_dump(), "enrolled": one.id in found} for one in desk.directory]
            write_json(people)
            return
        made = shows.table("id", "name", "address", "enrolled")
        for one in desk.directory:
            shows.add(made, one.id, one.name, one.email, "yes" if one.id in found else "")
        shows.console().print(made)

    with_desk(ctx, work)


@app.command()
def enroll(
    ctx: typer.Context,
    person: Who,
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Make a new secret; the old one is void.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Give somebody a second factor: prints its secret once, to be scanned by an authenticator app.

    Whoever has the secret can make the codes. Show it to that person alone.
    """
    settings = settings_of(ctx)
    if not settings.inbox.url:
        raise ConfigError(
            "There is no inbox page to sign in to. Set url and secret_key under [inbox].",
            key="inbox",
        )

    async def work(desk: Desk) -> str:
        from signoff.channels.inbox.factors import Factors  # noqa: PLC0415 -- cryptography

        factors: Factors = Factors(desk.ledger, settings.inbox.secret_key)
        who = person_of(desk.directory, person)
        return await factors.enroll(who, by=_operator(), replace=replace)

    uri = with_desk(ctx, work)
    if as_json:
        write_json({"person": person, "uri": uri})
        return
    import segno  # noqa: PLC0415

    segno.make(uri, micro=False).terminal(compact=True, border=2)
    typer.echo(f"{uri}\n\nScan it with an authenticator app. It is not shown again.")


@app.command()
def unenroll(ctx: typer.Context, person: Who, *, as_json: Json = False) -> None:
    """Take somebody's second factor away, and sign them out everywhere.

    PERSON may also be the id of somebody who is not in [[people]] any more.
    """

    async def work(desk: Desk) -> bool:
        from signoff.channels.inbox.factors import unenroll as take_away  # noqa: PLC0415

        found = desk.directory.find(person)
        return await take_away(desk.ledger, found.id if found else person, by=_operator())

    if not with_desk(ctx, work):
        raise ConfigError(f"{person} is not enrolled; `signoff people list` shows who is.")
    if as_json:
        write_json({"person": person, "enrolled": False})
    else:
        typer.echo(f"{person} has no second factor any more.")


def _operator() -> str:
    return f"{getpass.getuser()} (cli)"
