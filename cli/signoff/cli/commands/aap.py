"""`signoff aap`: agents of other frameworks, which use the Agent Approval Protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import Json, operator, settings_of, with_decisions, write_json
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say
from signoff.core.base.errors import ConfigError
from signoff.core.base.networks import is_loopback

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.channels.aap.instances import Instance
    from signoff.cli.config.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Agents that ask by the Agent Approval Protocol.")
instance = typer.Typer(no_args_is_help=True, help="Instances: the agents that may ask.")
app.add_typer(instance, name="instance")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name or id of an instance.")]


@instance.command()
def add(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="What it is called; policies name it as their app."),
    ],
    *,
    user: Annotated[
        str,
        typer.Option(
            metavar="USER",
            help="The requester: an id or address of the person for whom it works, who never "
            "decides what it asks. The default is NAME.",
        ),
    ] = "",
    receiver: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="Where its receiver listens, if it pauses instead of waiting: it is notified of "
            "each decision, once it has proven itself.",
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Add an instance, and print the URL and the token that its client needs.

    The token is printed once and stored as a hash.
    """
    settings = settings_of(ctx)

    async def work(decisions: Decisions) -> tuple[Instance, str]:
        from signoff.channels.aap.faults import Fault  # noqa: PLC0415
        from signoff.channels.aap.instances import create  # noqa: PLC0415
        from signoff.channels.aap.notifications import require_url  # noqa: PLC0415

        try:
            if receiver:
                require_url(receiver, allow_private=settings.aap.allow_private)
        except Fault as fault:
            raise ConfigError(
                f"--receiver: {fault.message} [aap] allow_private allows others."
            ) from fault
        return await create(
            decisions.ledger, name, user=user or name, by=operator(), receiver=receiver
        )

    made, token = with_decisions(ctx, work)
    _show(settings, made, token, as_json=as_json)


@instance.command("list")
def list_(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List instances, without their tokens and signing secrets."""

    async def work(decisions: Decisions) -> None:
        from signoff.channels.aap.instances import everyone  # noqa: PLC0415
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

        found = await everyone(decisions.ledger)
        if as_json:
            write_json([_as_json(one) for one in found])
            return
        made = Table("name", "id", "app", "requester", "token", "receiver", "added")
        for one in found:
            receiver = one.receiver.url if one.receiver is not None else ""
            at = tables.moment(one.created_at, decisions.directory)
            tables.add(made, one.name, one.id, one.app, one.user, one.token, receiver, at)
        Output().print(made)

    with_decisions(ctx, work)


@instance.command()
def rotate(ctx: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Print a new token for an instance; the earlier one stops working."""
    settings = settings_of(ctx)

    async def work(decisions: Decisions) -> tuple[Instance, str]:
        from signoff.channels.aap import instances  # noqa: PLC0415

        found = await instances.by_name(decisions.ledger, name)
        return found, await instances.rotate(decisions.ledger, found, by=operator())

    found, token = with_decisions(ctx, work)
    _show(settings, found, token, as_json=as_json)


@instance.command()
def remove(ctx: typer.Context, name: Name, *, as_json: Json = False) -> None:
    """Remove an instance: its token stops working, and its pending requests are withdrawn."""

    async def work(decisions: Decisions) -> Instance:
        from signoff.channels.aap import instances  # noqa: PLC0415

        found = await instances.by_name(decisions.ledger, name)
        await instances.delete(decisions, found, by=operator())
        return found

    gone = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json(_as_json(gone))
    else:
        say(f"{gone.name} was removed.")


def _show(settings: Settings, made: Instance, token: str, *, as_json: bool) -> None:
    from signoff.channels.aap.app import PATH  # noqa: PLC0415 -- starlette

    url = f"{settings.inbox.url.rstrip('/') or _local(settings)}{PATH}"
    if as_json:
        secrets = (
            {}
            if made.receiver is None
            else {
                "registration_id": made.receiver.registration_id,
                "signing_secret": made.receiver.signing_secret,
            }
        )
        write_json({"url": url, "token": token, **_as_json(made), **secrets})
        return
    say(f"export AAP_URL={url}\nexport AAP_TOKEN={token}")
    if made.receiver is not None:
        say(f"export AAP_INSTANCE_ID={made.id}")
        say(f"export AAP_REGISTRATION_ID={made.receiver.registration_id}")
        say(f"export AAP_SECRET={made.receiver.signing_secret}")
    say("Store them now: the token is not shown again.", err=True)
    if not settings.aap.enabled:
        say("The gateway does not serve it yet: set [aap] enabled = true.", err=True)


def _local(settings: Settings) -> str:
    """Return the local URL of the gateway; clients accept plain HTTP only on this machine."""
    gateway = settings.gateway
    here = gateway.host in {"0.0.0.0", "::"} or is_loopback(gateway.host)  # noqa: S104 -- compared, not bound
    return f"http://{'localhost' if here else gateway.host}:{gateway.port}"


def _as_json(made: Instance) -> dict[str, object]:
    shown: dict[str, object] = made.model_dump(
        mode="json", include={"id", "name", "app", "user", "created_at"}
    )
    shown["token_id"] = made.token
    shown["receiver"] = made.receiver.url if made.receiver is not None else ""
    return shown
