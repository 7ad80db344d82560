"""`signoff inbox`: the inbox page, from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import typer

from signoff.cli.commands.context import Json, person_of, settings_of, with_decisions, write_json
from signoff.cli.commands.options import PersonArgument
from signoff.cli.terminal import say
from signoff.core.base.errors import ConfigError

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.cli.config.settings import Settings

app = typer.Typer(no_args_is_help=True, help="The inbox page.")


def require_page(settings: Settings) -> None:
    """Refuse settings without an inbox page.

    Raises:
        ConfigError: The settings have no inbox page.
    """
    if not settings.inbox.url:
        raise ConfigError(
            "There is no inbox page to sign in to. Start `signoff up` in this folder, or set "
            "url and secret_key under [inbox].",
            key="inbox",
        )


@app.callback()
def _group() -> None:
    """Keep this a group, although it has only one command."""


@app.command()
def link(ctx: typer.Context, person: PersonArgument, *, as_json: Json = False) -> None:
    """Print a link that signs a person in to the page on this machine, once, for ten minutes.

    For development: it works only if the page's url is on this machine.
    """
    from signoff.core.base.networks import is_loopback  # noqa: PLC0415 -- with the settings

    settings = settings_of(ctx)
    require_page(settings)
    url = settings.inbox.url
    if not is_loopback(urlsplit(url).hostname or ""):
        raise ConfigError(
            f"{url} is not on this machine: people sign in to it as [inbox] sign_in says. A "
            "link that works in any browser is for development alone.",
            key="inbox.url",
        )

    async def work(decisions: Decisions) -> str:
        from signoff.channels.inbox.auth.links import make_link  # noqa: PLC0415 -- redis
        from signoff.channels.inbox.auth.sessions import How  # noqa: PLC0415
        from signoff.channels.inbox.settings import ROOT  # noqa: PLC0415

        who = person_of(decisions.directory, person)
        path, _ = await make_link(decisions.ledger, who.id, how=How.LOCAL, to=f"{ROOT}/")
        return path

    address = f"{url}{with_decisions(ctx, work)}"
    if as_json:
        write_json({"person": person, "link": address})
    else:
        say(address)
