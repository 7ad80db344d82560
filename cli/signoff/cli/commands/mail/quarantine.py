"""`signoff mail quarantine`: the mails that could not be read."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signoff.cli.commands.context import Json, operator, with_decisions, write_json
from signoff.cli.commands.options import AuditReason, By, Limit
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.channels.email.inbound.quarantine import Quarantined

app = typer.Typer(no_args_is_help=True, help="Unreadable mails, which are kept for 30 days.")

MailId = Annotated[str, typer.Argument(metavar="ID", help="The id, or the beginning of it.")]


@app.command("list")
def list_(ctx: typer.Context, *, limit: Limit = 100, as_json: Json = False) -> None:
    """List mails in quarantine, the latest first."""

    async def work(decisions: Decisions) -> None:
        from signoff.channels.email.inbound.quarantine import list_quarantine  # noqa: PLC0415
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415

        found = await list_quarantine(decisions.ledger, limit=limit)
        if as_json:
            write_json([_summary(one) for one in found])
            return
        directory = decisions.directory
        made = Table("id", tables.time_column(directory), "from", "subject", "bytes", "problem")
        for one in found:
            row = _summary(one)
            cells = (row["from"], row["subject"], f"{row['size']:,}", row["problem"])
            tables.add(made, one.id[:12], tables.moment(one.at, directory), *cells)
        if found:
            Output().print(made)
        else:
            say("No mail is in quarantine.")

    with_decisions(ctx, work)


@app.command()
def show(
    ctx: typer.Context,
    mail_id: MailId,
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the mail itself, with its tokens.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show why a mail is in quarantine, and its header."""

    async def work(decisions: Decisions) -> Quarantined:
        from signoff.channels.email.inbound.quarantine import find  # noqa: PLC0415

        return await find(decisions.ledger, mail_id)

    mail = with_decisions(ctx, work)
    if raw:
        sys.stdout.buffer.write(mail.raw)
        sys.stdout.buffer.flush()
        return
    from signoff.core.cards.card import shown  # noqa: PLC0415

    head = [shown(line) for line in mail.head()]
    if as_json:
        write_json({**_summary(mail), "header": head})
        return
    summary = _summary(mail)
    for name in ("id", "at", "problem", "sender", "recipients", "size"):
        value = summary[name]
        text = (
            ", ".join(value) if isinstance(value, list) else "unknown" if value is None else value
        )
        say(f"{name + ':':<12}{text}")
    say("\n" + "\n".join(f"  {line}" for line in head))


@app.command()
def retry(
    ctx: typer.Context, mail_id: MailId, *, reason: AuditReason, by: By = "", as_json: Json = False
) -> None:
    """Process a mail again, after its problem was fixed."""

    async def work(decisions: Decisions) -> Quarantined:
        from signoff.channels.email.inbound import quarantine  # noqa: PLC0415

        mail = await quarantine.find(decisions.ledger, mail_id)
        await quarantine.retry(decisions.ledger, mail, by=by or operator(), why=reason)
        return mail

    _done(with_decisions(ctx, work, rings=True), "will be processed again", as_json=as_json)


@app.command()
def drop(
    ctx: typer.Context, mail_id: MailId, *, reason: AuditReason, by: By = "", as_json: Json = False
) -> None:
    """Delete a mail permanently."""

    async def work(decisions: Decisions) -> Quarantined:
        from signoff.channels.email.inbound import quarantine  # noqa: PLC0415

        mail = await quarantine.find(decisions.ledger, mail_id)
        await quarantine.drop(decisions.ledger, mail, by=by or operator(), why=reason)
        return mail

    _done(with_decisions(ctx, work), "is deleted", as_json=as_json)


def _done(mail: Quarantined, what: str, *, as_json: bool) -> None:
    if as_json:
        write_json(_summary(mail))
    else:
        say(f"{mail.id[:12]} {what}.")


def _summary(mail: Quarantined) -> dict[str, Any]:
    from signoff.channels.pipeline.reply_tokens import redact  # noqa: PLC0415
    from signoff.core.cards.card import one_line  # noqa: PLC0415

    return {
        "id": mail.id,
        "at": mail.at.isoformat(),
        "problem": one_line(mail.problem),
        "from": one_line(mail.field("from")),
        "subject": one_line(mail.field("subject")),
        "sender": None if mail.sender is None else one_line(redact(mail.sender)),
        "recipients": [one_line(redact(one)) for one in mail.recipients],
        "size": len(mail.raw),
    }
