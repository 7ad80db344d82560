"""`signoff card`: previews a card before it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from datetime import datetime

    from signoff.broker.decisions import Decisions
    from signoff.cli.config.settings import Settings
    from signoff.core.approvals.approval import Approval
    from signoff.core.directory.people import Directory


def card(
    ctx: typer.Context,
    approval_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of an approval: ap_ and 16 letters.")
    ] = "",
    *,
    form: Annotated[
        str, typer.Option("--for", metavar="FORM", help="slack, email or text.")
    ] = "text",
    sample: Annotated[
        bool, typer.Option("--sample", help="Use sample approvals, one of each kind.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print a card exactly as it would be sent, except for the reply token of a mail.

    Nothing is sent. A sample needs no Redis.
    """
    from signoff.channels.preview import FORMS  # noqa: PLC0415 -- help must not wait for it

    if form not in FORMS:
        raise typer.BadParameter(f"it takes {', '.join(FORMS)}, not {form!r}", param_hint="--for")
    if bool(approval_id) == sample:
        raise typer.BadParameter("give the id of an approval, or --sample")
    settings = settings_of(ctx)
    if sample:
        _write_samples(settings, form, as_json=as_json)
        return

    async def work(decisions: Decisions) -> None:
        approval = await decisions.ledger.approval(approval_id)
        now = await decisions.ledger.now()
        text, body = _formed(settings, approval, decisions.directory, form, now)
        if as_json:
            write_json(body)
        else:
            say(text)

    with_decisions(ctx, work)


def _write_samples(settings: Settings, form: str, *, as_json: bool) -> None:
    from datetime import UTC, datetime  # noqa: PLC0415 -- help must not wait for it

    from signoff.channels.samples import PEOPLE, samples  # noqa: PLC0415

    now = datetime.now(UTC).replace(microsecond=0)
    bodies = {}
    for kind, approval in samples(now).items():
        text, bodies[kind] = _formed(settings, approval, PEOPLE, form, now)
        if not as_json:
            say(f"── {kind} ──", err=True)
            say(text)
    if as_json:
        write_json(bodies)


def _formed(
    settings: Settings, approval: Approval, directory: Directory, form: str, now: datetime
) -> tuple[str, dict[str, Any]]:
    """Return a card in the requested form, as text and as JSON."""
    from signoff.channels.preview import FORMS, message  # noqa: PLC0415

    link = settings.inbox.link_to(approval.id)
    sent = message(approval, directory, channel=form, now=now, link=link)
    return FORMS[form](sent, settings.email)
