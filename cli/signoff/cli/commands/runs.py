"""`signoff run` and `signoff runs`: send a message to an agent, and show runs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.boundary import REFUSED
from signoff.cli.commands.context import Json, operator, settings_of, with_decisions, write_json
from signoff.cli.commands.options import By, Limit, RunId
from signoff.cli.composition.kinds import login
from signoff.cli.printing import Output
from signoff.cli.terminal import say
from signoff.core.base.errors import AppNotFound, RunError, SignoffError

if TYPE_CHECKING:
    from signoff.broker.decisions import Decisions
    from signoff.cli.config.settings import Settings
    from signoff.core.approvals.run import Run

app = typer.Typer(no_args_is_help=True, help="Submitted runs.")


def _app_names() -> list[str]:
    """Return the names of agents for shell completion in this folder."""
    from signoff.cli.config.settings import load_settings  # noqa: PLC0415 -- help must not wait
    from signoff.worker.agent_folders import app_names  # noqa: PLC0415

    try:
        settings = load_settings()
        return [*app_names(settings.agents_folder), *settings.agents.remote]
    except SignoffError:
        return []


class RunUnfinished(RunError):
    """The run has not ended within the time to wait; it continues."""


def run(
    ctx: typer.Context,
    app_name: Annotated[
        str,
        typer.Argument(
            metavar="APP", help="The name of the agent's folder.", autocompletion=_app_names
        ),
    ],
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help="The message.")],
    *,
    user: Annotated[
        str,
        typer.Option(
            help="The requester, who can never decide the request. The default is the logged-in "
            "user."
        ),
    ] = "",
    session: Annotated[str, typer.Option(help="An ADK session to continue.")] = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the run has ended.")] = False,
    until_asked: Annotated[
        bool,
        typer.Option("--until-asked", help="Wait until somebody has been asked, or it has ended."),
    ] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait; 0 waits forever.")] = 0,
    as_json: Json = False,
) -> None:
    """Send a message to an agent."""
    _require_app(settings_of(ctx), app_name)

    async def work(decisions: Decisions) -> Run:
        from signoff.broker.submit import submit  # noqa: PLC0415 -- redis takes a while to import

        start = await decisions.ledger.now() - timedelta(milliseconds=1)
        submitted = await submit(
            decisions.ledger, app_name, message, user=user or login(), session=session
        )
        if not (wait or until_asked):
            return submitted
        try:
            async with asyncio.timeout(timeout or None):
                since_ms = int(start.timestamp() * 1000)
                return await _follow(decisions, submitted, since_ms=since_ms, asked=until_asked)
        except TimeoutError as error:
            now = await decisions.ledger.run(submitted.id)
            raise RunUnfinished(
                f"Run {now.id} is still {now.state} after {timeout:g} s and continues. "
                f"`signoff runs show {now.id}` shows its state."
            ) from error

    done = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json(done.model_dump(mode="json"))
    else:
        told = done.problem or done.text
        say(told if wait and not until_asked else done.id)
        if until_asked and done.ended:
            # Scripts read the id from standard output.
            say(f"{done.state.replace('_', ' ').capitalize()}: {told}", err=True)
    if done.problem:
        raise typer.Exit(REFUSED)


@app.command("list")
def list_(ctx: typer.Context, *, limit: Limit = 50, as_json: Json = False) -> None:
    """List runs, the latest first."""

    async def work(decisions: Decisions) -> list[Run]:
        from signoff.broker.ledger import listing  # noqa: PLC0415 -- redis

        listed = partial(listing.runs, decisions.ledger)
        part = await listing.part(
            listed, lambda _: True, before=None, limit=limit, most=max(limit, listing.SCANNED)
        )
        return list(part.found)

    found = with_decisions(ctx, work)
    if as_json:
        write_json([one.model_dump(mode="json") for one in found])
    elif found:
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

        Output().print(tables.runs_table(found, settings_of(ctx).everybody))
    else:
        say("There are no runs.")


@app.command()
def show(
    ctx: typer.Context,
    run_id: RunId,
    *,
    as_json: Json = False,
) -> None:
    """Show a run: its state and its timeline."""

    async def work(decisions: Decisions) -> None:
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415

        found = await decisions.ledger.run(run_id)
        events = await decisions.ledger.history(run_id)
        if as_json:
            write_json(tables.as_json(found, events))
        else:
            tables.print_run(Output(), found, decisions.directory, events)

    with_decisions(ctx, work)


@app.command()
def settle(
    ctx: typer.Context,
    run_id: RunId,
    *,
    reason: Annotated[str, typer.Option(help="What happened, for the audit log.")],
    by: By = "",
    as_json: Json = False,
) -> None:
    """Settle a run in doubt, after somebody has checked what its tool did.

    The agent is not notified. After that, the run can be archived.
    """

    async def work(decisions: Decisions) -> None:
        from signoff.broker.ledger.change import Change  # noqa: PLC0415 -- redis
        from signoff.core.approvals.events import What  # noqa: PLC0415

        found, now = await decisions.ledger.run(run_id), await decisions.ledger.now()
        if not found.ended:
            raise RunError(f"Run {run_id} is {found.state}: it has not ended.")
        who = by or operator()
        event = found.note(What.SETTLED, now=now, by=who, why=reason)
        await decisions.ledger.commit(Change().note([event]))

    with_decisions(ctx, work)
    if as_json:
        write_json({"id": run_id, "settled": True})
    else:
        say(f"{run_id} is settled.")


async def _follow(decisions: Decisions, submitted: Run, *, since_ms: int, asked: bool) -> Run:
    """Follow the audit log until the run has ended; print who is asked meanwhile.

    The log is read from `since_ms` on, in milliseconds since the epoch. With `asked`, it also ends
    when a card has been delivered, or nobody can be asked.
    """
    from signoff.broker.ledger.follow import follow  # noqa: PLC0415
    from signoff.core.approvals.events import What  # noqa: PLC0415

    # Without it, nothing at all is printed for an agent that was added after the workers started.
    say(f"Waiting for a worker that runs {submitted.app} ({submitted.id}) …", err=True)
    ends = {What.COMPLETED, What.FAILED, What.IN_DOUBT}
    async for event in follow(decisions.ledger.store, subject=submitted.id, start=f"{since_ms}-0"):
        if event.what is What.ASKED:
            people = event.more.get("people")
            names = ", ".join(map(str, people)) if isinstance(people, list) else ""
            say(f"Waiting for {names} ({event.approval}) …", err=True)
        elif event.what is What.UNROUTABLE:
            say(f"The policy cannot be followed: {event.why} ({event.approval})", err=True)
        elif event.what in ends:
            found = await decisions.ledger.run(submitted.id)
            if found.ended:
                return found
        if asked and event.what in {What.DELIVERED, What.UNROUTABLE}:
            return await decisions.ledger.run(submitted.id)
    raise AssertionError("following ends only with the run")


def _require_app(settings: Settings, name: str) -> None:
    """Refuse an unknown agent; if the agents are on other machines, accept any name.

    Raises:
        AppNotFound: There is no such agent.
    """
    if settings.may_have_agent(name):
        return
    from signoff.worker.agent_folders import app_names  # noqa: PLC0415 -- only for the message

    folder = settings.agents_folder
    names = ", ".join(sorted({*app_names(folder), *settings.agents.remote})) or "none"
    raise AppNotFound(f"There is no agent {name!r} in {folder}. There are: {names}.")
