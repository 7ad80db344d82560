"""`signoff api`: describes the REST API without a gateway."""

from __future__ import annotations

import json

import typer

from signoff.cli.commands.context import write_json

app = typer.Typer(no_args_is_help=True, help="The REST API that the gateway serves.")


@app.command()
def openapi() -> None:
    """Print the OpenAPI document of the REST API, as the gateway serves it; needs no settings."""
    from signoff.channels.rest import openapi_json  # noqa: PLC0415 -- help must not wait for it

    write_json(json.loads(openapi_json()))
