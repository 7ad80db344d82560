"""`signoff archive`: move ended runs out of Redis into files, and verify the files."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from signoff.cli.commands.context import Json, length_of, settings_of, with_decisions, write_json
from signoff.cli.commands.options import Limit
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import export_json, say
from signoff.core.base.counts import counted

if TYPE_CHECKING:
    from signoff.broker.archive.archiver import Archived
    from signoff.broker.archive.files import ArchiveFiles
    from signoff.broker.archive.reading import ArchivedItem, Verified
    from signoff.broker.decisions import Decisions
    from signoff.core.approvals.approval import Approval
    from signoff.core.approvals.events import Event
    from signoff.core.approvals.run import Run
    from signoff.core.grants.grant import Grant

app = typer.Typer(no_args_is_help=True, help="The archive of ended runs and approvals.")

Subject = Annotated[str, typer.Argument(metavar="ID", help="A run, an approval or a grant.")]


def files_of(ctx: typer.Context) -> ArchiveFiles:
    """Return the archive of the settings."""
    from signoff.broker.archive.files import ArchiveFiles  # noqa: PLC0415

    return ArchiveFiles(settings_of(ctx).archive_folder)


@app.command()
def run(
    ctx: typer.Context,
    *,
    after: Annotated[
        str,
        typer.Option(
            metavar="DURATION", help="The default is [retention] after. 0s is everything."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Archive runs that ended long enough ago, and remove them from Redis.

    A run stays while it is in doubt, or has pending approvals, open grants or unfinished work.
    """
    settings = settings_of(ctx)
    age = settings.retention.after
    if after:
        age = timedelta() if after == "0s" else length_of(after, "--after")
    if age is None:
        raise typer.BadParameter(
            "[retention] after is not set: name the age here", param_hint="--after"
        )

    async def work(decisions: Decisions) -> Archived:
        from signoff.broker.archive.archiver import Archiver  # noqa: PLC0415

        archiver = Archiver(
            decisions.ledger, files_of(ctx), after=age, feeds=bool(settings.webhooks)
        )
        return await archiver.once()

    done = with_decisions(ctx, work)
    if as_json:
        write_json(
            {
                "files": done.files,
                "runs": done.runs,
                "entries": done.entries,
                "sessions": done.sessions,
                "busy": done.busy,
            }
        )
    elif done.busy:
        say("Another process is archiving right now.")
    else:
        entries = counted(done.entries, "audit entry", "audit entries")
        files = counted(len(done.files), "file")
        say(f"Archived: {counted(done.runs, 'run')} and {entries}, in {files}.")


@app.command("list")
def list_(ctx: typer.Context, *, limit: Limit = 100, as_json: Json = False) -> None:
    """List archived runs and approvals, the last archived first."""
    from collections import deque  # noqa: PLC0415

    async def work(decisions: Decisions) -> list[ArchivedItem]:
        from signoff.broker.archive.reading import items  # noqa: PLC0415

        last: deque[ArchivedItem] = deque(maxlen=limit)
        async for one in items(decisions.ledger, files_of(ctx)):
            last.append(one)
        return list(reversed(last))

    found = with_decisions(ctx, work)
    if as_json:
        write_json([_summary(one) for one in found])
        return
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

    made = Table("id", "kind", "app", "user", "state", "at", "file")
    for one in found:
        row = _summary(one)
        tables.add(
            made,
            *(str(row[name]) for name in ("id", "kind", "app", "user", "state", "at")),
            f"{one.sequence:06}.jsonl",
        )
    if found:
        Output().print(made)
    else:
        say("The archive is empty.")


@app.command()
def show(ctx: typer.Context, subject: Subject, *, as_json: Json = False) -> None:
    """Show an archived run, approval or grant, and what happened to it."""

    async def work(decisions: Decisions) -> tuple[Run | Approval | Grant, list[Event]]:
        from signoff.broker.archive.reading import find  # noqa: PLC0415

        return await find(decisions.ledger, files_of(ctx), subject)

    found, events = with_decisions(ctx, work)
    record = _masked(found).model_dump(mode="json", exclude_defaults=True)
    if as_json:
        write_json({"record": record, "events": [one.model_dump(mode="json") for one in events]})
        return
    say(json.dumps(record, indent=2, ensure_ascii=False))
    for one in events:
        why = f"  {one.why}" if one.why else ""
        say(f"{one.at:%Y-%m-%d %H:%M:%S}  {one.what.value:<14}  {one.by}{why}")


@app.command()
def verify(
    ctx: typer.Context,
    *,
    head: Annotated[
        str, typer.Option(help="A head that was stored earlier, which must be in the chain.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Check every file, and the audit's chain from the archive into Redis."""
    report(verified(ctx, head), as_json=as_json)


@app.command()
def export(
    ctx: typer.Context,
    *,
    subject: Annotated[
        str, typer.Option("--of", metavar="ID", help="Only this run, approval or grant.")
    ] = "",
) -> None:
    """Print archived records as lines of JSON. `signoff audit export` prints the audit."""

    async def work(decisions: Decisions) -> None:
        from signoff.broker.archive.reading import items  # noqa: PLC0415

        async for one in items(decisions.ledger, files_of(ctx)):
            if subject in {"", one.record.id}:
                export_json(one.record.to_line())

    with_decisions(ctx, work)


def verified(ctx: typer.Context, head: str) -> Verified:
    """Verify the archive and the ledger."""

    async def work(decisions: Decisions) -> Verified:
        from signoff.broker.archive import reading  # noqa: PLC0415

        return await reading.verify(decisions.ledger, files_of(ctx), expect_head=head)

    return with_decisions(ctx, work)


def report(found: Verified, *, as_json: bool) -> None:
    """Print the result of the verification."""
    if as_json:
        archive = {"archived": found.archived, "files": found.files} if found.files else {}
        unproved = {"unproved": found.unproved} if found.unproved else {}
        write_json({"entries": found.entries, "head": found.head, **archive, **unproved})
        return
    archive_words = (
        f" {found.archived:,} of them in {counted(found.files, 'file')} of the archive."
        if found.files
        else ""
    )
    if found.unproved:
        archive_words += f" {found.unproved:,} were erased: an export does not prove their text."
    entries = counted(found.entries, "entry", "entries")
    say(f"{entries}, unbroken.{archive_words} Head: {found.head or 'none yet'}")


def _masked(found: Run | Approval | Grant) -> Run | Approval | Grant:
    """Return a record without the values that its policy hides; the files contain them."""
    from signoff.core.approvals.approval import Approval  # noqa: PLC0415
    from signoff.core.approvals.masking import masked  # noqa: PLC0415
    from signoff.core.grants.grant import Grant  # noqa: PLC0415

    if isinstance(found, Grant):
        return found.masked
    return masked(found) if isinstance(found, Approval) else found


def _summary(item: ArchivedItem) -> dict[str, Any]:
    from signoff.core.approvals.approval import Approval  # noqa: PLC0415
    from signoff.core.approvals.run import Run  # noqa: PLC0415

    one = item.value
    found: dict[str, Any] = {"id": item.record.id, "kind": item.record.kind, "file": item.sequence}
    match one:
        case Run():
            at = one.submitted_at
            more = {"app": one.app, "user": one.user, "state": one.state.value}
        case Approval():
            at = one.opened_at
            more = {"app": one.origin.app, "user": one.origin.user, "state": one.state.value}
        case _:
            at = one.at
            more = {"app": one.scope.app, "user": one.scope.user, "state": "ended"}
    return {**found, **more, "at": f"{at:%Y-%m-%d %H:%M:%S}"}
