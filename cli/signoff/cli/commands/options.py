"""Arguments and options that several commands have."""

from typing import Annotated

import typer

ApprovalId = Annotated[str, typer.Argument(metavar="ID", help="The id: ap_ and 16 letters.")]
RunId = Annotated[str, typer.Argument(metavar="ID", help="The id: run_ and 16 digits.")]
PersonArgument = Annotated[
    str,
    typer.Argument(metavar="PERSON", help="An id or address in [[people]].", show_default=False),
]
As = Annotated[
    str,
    typer.Option("--as", metavar="PERSON", help="The approver: an id or address in [[people]]."),
]
By = Annotated[str, typer.Option(help="Who does it. The default is the logged-in user.")]
Limit = Annotated[int, typer.Option(min=1, help="The most to show.")]
AuditReason = Annotated[str, typer.Option(help="The reason, for the audit log.")]
