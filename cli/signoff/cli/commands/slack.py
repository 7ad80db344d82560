"""`signoff slack`: sets up the Slack app."""

from __future__ import annotations

from typing import Annotated

import typer

from signoff.cli.commands.context import write_json

app = typer.Typer(no_args_is_help=True, help="The Slack app.")


@app.command()
def manifest(
    *,
    name: Annotated[str, typer.Option(help="The app's name.")] = "Signoff",
    url: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="The gateway's public address, for clicks by HTTP. The default is Socket Mode.",
        ),
    ] = "",
) -> None:
    """Print the manifest of the Slack app, for api.slack.com/apps, *From a manifest*."""
    from signoff.channels.slack.manifest import manifest as made  # noqa: PLC0415 -- slack-sdk

    if url and not url.startswith("https://"):
        raise typer.BadParameter("Slack posts to https:// addresses only", param_hint="--url")
    write_json(made(name=name, url=url))
