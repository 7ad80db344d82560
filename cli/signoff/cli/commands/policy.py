"""`signoff policy`: predicts, tests and compares policies."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.boundary import REFUSED
from signoff.cli.commands.context import Json, settings_of, with_decisions, write_json
from signoff.cli.commands.moments import At, moment_of, zone_of
from signoff.cli.printing import Output, Table

if TYPE_CHECKING:
    from pydantic import JsonValue

    from signoff.broker.decisions import Decisions
    from signoff.cli.config.settings import Settings
    from signoff.core.directory.people import Directory
    from signoff.core.directory.queues import Rotations
    from signoff.core.grants.grant import Grant

    _Present = tuple[Directory, Rotations, list[Grant]]

app = typer.Typer(
    no_args_is_help=True, help="Try policies before you use them, and see how they changed."
)

Zone = Annotated[
    str, typer.Option(metavar="ZONE", help="The time zone. The default is this machine's.")
]


@app.command()
def history(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Only this policy; `default` is [default].")
    ] = "",
    *,
    as_json: Json = False,
) -> None:
    """List the versions of the policies: when each was loaded, by whom, and what changed.

    Processes record them when they start to route. An approval names its version.
    """

    async def work(decisions: Decisions) -> None:
        from signoff.broker import policy_history  # noqa: PLC0415
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415
        from signoff.cli.terminal import say  # noqa: PLC0415
        from signoff.core.policies.history import PolicyVersion, changed  # noqa: PLC0415

        versions = await policy_history.history(decisions.ledger)
        known = [one for one in versions if name in {"", one.policy}]
        if as_json:
            write_json([one.model_dump(mode="json") for one in known])
            return
        if not known:
            say("No version is known yet. `signoff channels` notes them when it starts.")
            return
        latest: dict[str, PolicyVersion] = {}
        made = Table("loaded", "policy", "version", "changed", "by")
        for one in known:
            keys = ", ".join(changed(latest.get(one.policy), one))
            at = tables.moment(one.at, decisions.directory)
            tables.add(made, at, one.policy, one.version or "removed", keys, one.by)
            latest[one.policy] = one
        Output().print(made)

    with_decisions(ctx, work)


@app.command()
def explain(
    ctx: typer.Context,
    *,
    tool: Annotated[str, typer.Option(help="The tool that is called.")],
    arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An argument; can be repeated."),
    ] = None,
    args: Annotated[str, typer.Option(metavar="JSON", help="All arguments, as JSON.")] = "",
    user: Annotated[str, typer.Option(metavar="PERSON", help="The requester.")] = "",
    agent_app: Annotated[str, typer.Option("--app", help="The agent's folder.")] = "",
    agent: Annotated[str, typer.Option(help="The agent that calls the tool.")] = "",
    at: At = "now",
    zone: Zone = "",
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Use the current absences, queue turns and grants; needs Redis."
        ),
    ] = False,
    approve: Annotated[
        bool,
        typer.Option("--approve", help="What follows if everybody who is asked approves."),
    ] = False,
    vary: Annotated[
        str,
        typer.Option(
            metavar="KEY=VALUE,VALUE", help="One row for each value: who has to approve it."
        ),
    ] = "",
    as_json: Json = False,
) -> None:
    """Print who would be asked about a call, on which channel, and what follows.

    It assumes that nobody answers; with --approve, that everybody approves. No approval is opened.
    """
    from signoff.channels.forecast import call_facts, timeline_of  # noqa: PLC0415 -- slow
    from signoff.cli.commands.approvals import timelines  # noqa: PLC0415
    from signoff.core.routing.selection import NO_ROTATIONS  # noqa: PLC0415

    given = _arguments(args, arg or [])
    settings = _require_rules(settings_of(ctx))
    place = zone_of(zone)
    facts = call_facts(tool, given, app=agent_app, agent=agent, user=user)
    start = moment_of(at, place)
    nothing: _Present = (settings.everybody, NO_ROTATIONS, [])
    directory, rotations, grants = with_decisions(ctx, _present) if live else nothing
    predict = partial(
        timeline_of,
        settings,
        start=start,
        directory=directory,
        rotations=rotations,
        grants=grants,
        approving=approve or bool(vary),
    )
    if vary:
        key, values = _varied(vary)
        rows = [(one, predict(facts | {"args": given | {key: one}})) for one in values]
        if as_json:
            write_json(
                [{key: one, **timelines.who_approves(line, directory)} for one, line in rows]
            )
        else:
            timelines.print_approvers(key, rows, directory)
        return
    timeline = predict(facts)
    if as_json:
        levels = [one.model_dump(mode="json") for one in timeline.levels]
        write_json(timeline.model_dump(mode="json") | {"levels": levels})
    else:
        delivery = settings.delivery
        bundles = (delivery.bundle_over, delivery.bundle_within) if settings.inbox.url else None
        timelines.print_timeline(timeline, directory, place, bundles=bundles, approving=approve)


@app.command("test")
def run_cases(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Files with cases. The default is signoff.test.toml."),
    ] = None,
    *,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the results as JUnit XML.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run test cases: who is asked about which call, and how it ends.

    The exit code is 1 if a case fails, and 2 if a file cannot be read.
    """
    from signoff.cli.policy_cases.cases import CASES_FILE  # noqa: PLC0415
    from signoff.cli.policy_cases.report import as_junit, print_results, results_json  # noqa: PLC0415
    from signoff.cli.policy_cases.results import results_of  # noqa: PLC0415

    settings = _require_rules(settings_of(ctx))
    results = {file: results_of(file, settings) for file in files or [settings.home / CASES_FILE]}
    if junit is not None:
        try:
            junit.write_text(as_junit(results), encoding="utf-8")
        except OSError as error:
            raise typer.BadParameter(f"it cannot be written: {error}", param_hint="--junit") from (
                error
            )
    if as_json:
        write_json(results_json(results))
    else:
        print_results(results)
    if any(one.failures for found in results.values() for one in found):
        raise typer.Exit(REFUSED)


@app.command()
def diff(
    ctx: typer.Context,
    *,
    against: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Other settings. The default is the current ones."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, help="The most groups of approvals that would change alike.")
    ] = 20,
    as_json: Json = False,
) -> None:
    """Print what other settings would change for pending approvals. Nothing is changed.

    An approval keeps the policy under which it was opened. The exit code is 1 if anything would
    differ, otherwise 0.
    """

    async def work(decisions: Decisions) -> bool:
        from signoff.broker.directory.absences import People  # noqa: PLC0415
        from signoff.cli.commands.approvals.timelines import diff_json, print_diff  # noqa: PLC0415
        from signoff.cli.policy_cases.diff import differences, may_differ  # noqa: PLC0415

        ledger = decisions.ledger
        directory = await People(ledger, other.everybody).directory()
        pending = await ledger.store.members("waiting")
        changed = partial(may_differ, rules=other, directory=directory)
        found = differences(await ledger.readable(pending, may_be=changed), other, directory)
        if as_json:
            write_json(diff_json(found))
        else:
            print_diff(found, len(pending), most=limit)
        return bool(found)

    other = settings_of(ctx) if against is None else _other(against)
    if with_decisions(ctx, work):
        raise typer.Exit(REFUSED)


async def _present(decisions: Decisions) -> _Present:
    """Return the people with their current absences, the turns of queues, and the grants."""
    from signoff.broker.grants import Grants  # noqa: PLC0415

    await decisions.roster.refresh()
    grants = sorted(await Grants(decisions.ledger).all(), key=lambda one: one.expires_at)
    return decisions.directory, decisions.roster.rotations.known, grants


def _other(file: Path) -> Settings:
    from signoff.cli.config.settings import load_settings  # noqa: PLC0415

    return _require_rules(load_settings(file))


def _require_rules(settings: Settings) -> Settings:
    """Return the settings, if their policies and people are valid.

    Raises:
        ConfigErrors: They are not.
    """
    from signoff.cli.composition.credentials import RULES  # noqa: PLC0415
    from signoff.cli.config.check import require  # noqa: PLC0415

    require(settings, RULES)
    return settings


def _varied(text: str) -> tuple[str, list[JsonValue]]:
    """Return the values of --vary: the argument, and its values in order."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise typer.BadParameter(f"it takes KEY=VALUE,VALUE, not {text!r}", param_hint="--vary")
    return key.strip(), [_read(one.strip()) for one in values.split(",")]


def _read(text: str) -> JsonValue:
    """Return the value of JSON, or else the text itself."""
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value


def _arguments(whole: str, single: list[str]) -> dict[str, JsonValue]:
    """Return the arguments; a value that is not JSON is text."""
    found: dict[str, JsonValue] = {}
    if whole:
        try:
            read = json.loads(whole)
        except ValueError as error:
            raise typer.BadParameter(f"it is not JSON: {error}", param_hint="--args") from error
        if not isinstance(read, dict):
            raise typer.BadParameter('write an object: {"amount": 2500}', param_hint="--args")
        found |= read
    named = set[str]()
    for one in single:
        key, equals, text = one.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"it takes KEY=VALUE, not {one!r}", param_hint="--arg")
        if key.strip() in named:
            raise typer.BadParameter(f"{key.strip()} is given twice", param_hint="--arg")
        named.add(key.strip())
        found[key.strip()] = _read(text)
    return found
