"""`signoff people`: shows and changes people, their absences and their second factors."""

from __future__ import annotations

import secrets
import sys
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.cli.commands.context import (
    Json,
    operator,
    person_of,
    settings_of,
    with_decisions,
    write_json,
)
from signoff.cli.commands.options import AuditReason, PersonArgument
from signoff.cli.commands.people.inbox import require_page
from signoff.cli.commands.people.on_call import on_call
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say
from signoff.core.base.counts import counted
from signoff.core.base.errors import AbsenceRefused, ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from signoff.broker.archive.erasure import Erased
    from signoff.broker.decisions import Decisions
    from signoff.broker.hand_over import HandedOver
    from signoff.channels.inbox.settings import InboxSettings
    from signoff.cli.config.settings import Settings
    from signoff.core.approvals.approval import Approval
    from signoff.core.directory.hours import Absence
    from signoff.core.directory.people import Person

_NAMED = 5

app = typer.Typer(
    no_args_is_help=True,
    help="People, their absences and their second factors.",
)


@app.command("list")
def list_(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List people, their absences, and whether they are enrolled for the inbox page."""

    async def work(decisions: Decisions) -> None:
        from signoff.channels.inbox.auth.factors import enrolled  # noqa: PLC0415 -- cryptography
        from signoff.cli.commands.approvals import tables  # noqa: PLC0415 -- the domain

        now = await decisions.ledger.now()
        directory = await decisions.people.directory()
        people = [*directory, *directory.inactive]
        found = set(await enrolled(decisions.ledger, people))
        if as_json:
            write_json(
                [
                    {
                        **one.model_dump(mode="json"),
                        "enrolled": one.id in found,
                        "away_now": one.absence(now) is not None,
                    }
                    for one in people
                ]
            )
            return
        made = Table("id", "name", "address", "away", "enrolled")
        for one in people:
            words = _away_text(one, now) if one.active else "not active"
            tables.add(made, one.id, one.name, one.email, words, "yes" if one.id in found else "")
        Output().print(made)

    with_decisions(ctx, work)


@app.command()
def away(
    ctx: typer.Context,
    person: PersonArgument,
    *,
    until: Annotated[str, typer.Option("--until", metavar="DAY", help="The last day, YYYY-MM-DD.")],
    start: Annotated[
        str, typer.Option("--from", metavar="DAY", help="The first day. The default is today.")
    ] = "",
    delegate: Annotated[
        str,
        typer.Option("--delegate", metavar="PERSON", help="The delegate. The default is nobody."),
    ] = "",
    to_hand_over: Annotated[
        bool | None,
        typer.Option(
            "--hand-over/--keep",
            help="Give what already waits for the person to the delegate alone. The default is to "
            "ask at a terminal, and to keep it elsewhere.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Set an absence, in whole days of the person's time zone. It takes effect at once.

    New requests go to the delegate. While the person is away, the delegate can also answer their
    pending requests; the first answer counts. Without a delegate, the next level is asked if too
    few people are left. If somebody takes only a part of a day on call, set `overrides` of the
    schedule instead.
    """
    if to_hand_over and not delegate:
        raise typer.BadParameter("it takes a --delegate", param_hint="--hand-over")
    asks = not as_json and sys.stdin.isatty()

    async def work(decisions: Decisions) -> tuple[Absence, list[Approval], HandedOver]:
        absence = await _set_absence(decisions, person, start, until, delegate)
        return absence, *await _hand_over(decisions, person, absence, to_hand_over, asks=asks)

    absence, waiting, handed = with_decisions(ctx, work, rings=True)
    if as_json:
        ids = {
            "waiting": [one.id for one in waiting],
            "handed_over": [one.id for one in handed.done],
        }
        write_json({"person": person, **absence.model_dump(mode="json"), **ids})
        return
    say(f"{person} is away from {absence.start} {_absence_text(absence)}.")
    if handed.done:
        say(f"{len(handed.done):,} handed over to {absence.delegate}.")
    for one, why in handed.refused:
        say(f"{one.id} was not handed over: {why}")
    if waiting:
        say(_still_waiting(waiting, person, absence))


@app.command()
def back(ctx: typer.Context, person: PersonArgument, *, as_json: Json = False) -> None:
    """End an absence, also one in the settings. It takes effect at once.

    Later absences stay.
    """

    async def work(decisions: Decisions) -> None:
        who = person_of(decisions.directory, person)
        await decisions.people.come_back(who, by=operator(), more={"channel": "cli"})

    with_decisions(ctx, work)
    if as_json:
        write_json({"person": person, "away_now": False})
    else:
        say(f"{person} is back.")


app.command("on-call")(on_call)


@app.command()
def enroll(
    ctx: typer.Context,
    person: PersonArgument,
    *,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Create a new secret. The old one and all passkeys become invalid."
        ),
    ] = False,
    passkey: Annotated[
        bool,
        typer.Option("--passkey", help="Print a one-time code for adding a passkey instead."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Enrol a person: print the secret of a second factor once, for an authenticator app.

    Anybody who has the secret can create the codes. Show it only to that person.
    """
    settings = settings_of(ctx)
    require_page(settings)
    if passkey:
        _invite(ctx, settings.inbox, person, as_json=as_json)
        return

    async def work(decisions: Decisions) -> str:
        from signoff.channels.inbox.auth.factors import Factors  # noqa: PLC0415 -- cryptography

        factors = Factors(decisions.ledger, settings.inbox.secret_key)
        who = person_of(decisions.directory, person)
        return await factors.enroll(who, by=operator(), replace=replace)

    uri = with_decisions(ctx, work)
    if as_json:
        write_json({"person": person, "uri": uri})
        return
    import segno  # noqa: PLC0415

    segno.make(uri, micro=False).terminal(compact=True, border=2)
    say(f"{uri}\n\nScan it with an authenticator app. It is not shown again.")


def _invite(ctx: typer.Context, inbox: InboxSettings, person: str, *, as_json: bool) -> None:
    """Print a code with which a person can add a passkey."""
    if not inbox.has_passkeys:
        raise ConfigError(
            f"Passkeys belong to the name of a host, and {inbox.url} has none.", key="inbox.url"
        )

    async def work(decisions: Decisions) -> str:
        from signoff.channels.inbox.auth.passkey_store import invite  # noqa: PLC0415 -- redis

        who = person_of(decisions.directory, person)
        return await invite(decisions.ledger, who.id, by=operator())

    code, page = with_decisions(ctx, work), f"{inbox.url}/inbox/security"
    if as_json:
        write_json({"person": person, "code": code, "page": page})
    else:
        say(
            f"{code}\n\nTo add a passkey, {person} signs in to {page} and enters this code there. "
            "It works once, within a day, and signs nobody in."
        )


@app.command()
def unenroll(ctx: typer.Context, person: PersonArgument, *, as_json: Json = False) -> None:
    """Remove a person's second factors, passkeys included, and end their sessions.

    PERSON can also be the id of somebody who has left [[people]].
    """

    async def work(decisions: Decisions) -> bool:
        from signoff.channels.inbox.auth import factors  # noqa: PLC0415

        found = decisions.directory.find(person)
        who = found.id if found else person
        return await factors.unenroll(decisions.ledger, who, by=operator())

    if not with_decisions(ctx, work):
        raise ConfigError(f"{person} is not enrolled; `signoff people list` shows who is.")
    if as_json:
        write_json({"person": person, "enrolled": False})
    else:
        say(f"All second factors of {person} were removed.")


@app.command()
def reseal(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Encrypt secrets of authenticator apps with secret_key instead of the previous key.

    Run it after all gateways have both keys. Nobody has to enrol again. Exits with 1 if there are
    secrets that neither key opens.
    """
    inbox = settings_of(ctx).inbox

    async def work(decisions: Decisions) -> tuple[list[str], list[str]]:
        from signoff.channels.inbox.auth.factors import Factors  # noqa: PLC0415 -- cryptography

        factors = Factors(decisions.ledger, inbox.secret_key, inbox.secret_key_previous)
        return await factors.reseal()

    done, lost = with_decisions(ctx, work)
    if as_json:
        write_json({"resealed": done, "lost": lost})
    else:
        say(f"Encrypted with secret_key: {', '.join(done) or 'nothing, it was so already'}.")
        if lost:
            say(
                f"Neither key opens the secrets of {', '.join(lost)}: set secret_key_previous to "
                "the key that has encrypted them, or enrol these people with --replace."
            )
        else:
            say("secret_key_previous is not needed any more.")
    if lost:
        raise typer.Exit(1)


@app.command("sign-out")
def sign_out(ctx: typer.Context, person: PersonArgument, *, as_json: Json = False) -> None:
    """End a person's sessions on the inbox page, in every browser. It takes effect at once.

    PERSON can also be the id of somebody who has left [[people]].
    """

    async def work(decisions: Decisions) -> None:
        from signoff.channels.inbox.auth.sessions import sign_out_everywhere  # noqa: PLC0415 -- redis

        found = decisions.directory.find(person)
        who = found.id if found else person
        await sign_out_everywhere(decisions.ledger, who, by=operator())

    with_decisions(ctx, work)
    if as_json:
        write_json({"person": person, "signed_in": False})
    else:
        say(f"All sessions of {person} were ended.")


@app.command()
def erase(
    ctx: typer.Context,
    person: Annotated[
        str,
        typer.Argument(
            metavar="PERSON", help="An id or address, also of somebody who has left [[people]]."
        ),
    ],
    *,
    reason: AuditReason,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A word to look for inside texts too, such as a first name. May be repeated.",
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask. It cannot be undone.")] = False,
    as_json: Json = False,
) -> None:
    """Erase a person's data from Redis and the archive.

    All ended records that name them move into the archive first. Then the contents of their
    requests and the texts that they have written are removed, and a placeholder replaces their
    names. The audit log stays verifiable. The command is refused while requests of theirs, or
    requests that name them, are open.
    """
    settings = settings_of(ctx)
    if not yes and (as_json or not sys.stdin.isatty()):
        raise typer.BadParameter("it cannot be undone: confirm with --yes", param_hint="--yes")
    if not yes and not typer.confirm(f"Erase {person} for good?"):
        raise typer.Exit(1)

    async def work(decisions: Decisions) -> Erased:
        return await _erase(decisions, settings, person, also or (), reason)

    done = with_decisions(ctx, work, rings=True)
    if as_json:
        write_json({"placeholder": done.placeholder, "files": done.files, "lines": done.lines})
    else:
        say(
            f"Erased: {counted(done.lines, 'line')} in {counted(done.files, 'file')} of the "
            f"archive changed to {done.placeholder}. Backups, mailboxes, Slack and sessions in "
            "another store than Redis have copies of their own."
        )


async def _erase(
    decisions: Decisions, settings: Settings, person: str, also: Sequence[str], reason: str
) -> Erased:
    from signoff.broker import api_tokens  # noqa: PLC0415 -- redis
    from signoff.broker.archive import erasure  # noqa: PLC0415
    from signoff.broker.archive.files import ArchiveFiles  # noqa: PLC0415
    from signoff.broker.archive.redaction import Redaction  # noqa: PLC0415
    from signoff.channels.aap import instances  # noqa: PLC0415
    from signoff.channels.inbox.auth import factors  # noqa: PLC0415

    ledger, found = decisions.ledger, decisions.directory.record(person)
    names = found.names if found is not None else [person]
    redaction = Redaction(names, f"erased-{secrets.token_hex(4)}", also)
    await erasure.require_over(ledger, redaction)
    await factors.unenroll(ledger, found.id if found is not None else person, by=operator())
    for token in await api_tokens.all_tokens(ledger):
        if token.person in names or {*token.users} & {*names}:
            await api_tokens.revoke(ledger, token.id, by=operator())
    await instances.delete_of(decisions, names, by=operator())
    return await erasure.erase(
        ledger,
        ArchiveFiles(settings.archive_folder),
        redaction,
        by=operator(),
        why=reason,
        feeds=bool(settings.webhooks),
    )


async def _set_absence(
    decisions: Decisions, person: str, start: str, until: str, delegate: str
) -> Absence:
    """Set an absence and return it; without a start, it begins today."""
    from signoff.core.approvals.parts import Assurance  # noqa: PLC0415
    from signoff.core.directory.hours import Absence  # noqa: PLC0415 -- pydantic

    who = person_of(decisions.directory, person)
    stands_in = person_of(decisions.directory, delegate).id if delegate else ""
    first = _day(start, "--from") if start else who.day(await decisions.ledger.now())
    last = _day(until, "--until")
    if last < first:
        raise AbsenceRefused(f"--until {last} is before {first}, on which it begins.")
    absence = Absence(start=first, end=last, delegate=stands_in)
    more = {"channel": "cli"}
    return await decisions.people.leave(
        who, absence, by=operator(), more=more, assurance=Assurance.TERMINAL
    )


async def _hand_over(
    decisions: Decisions, person: str, absence: Absence, option: bool | None, *, asks: bool
) -> tuple[list[Approval], HandedOver]:
    """Hand over what waits for an absent person, if that is wanted; return what still waits.

    Args:
        decisions: Makes the moves.
        person: The person, as the command names them.
        absence: The absence, with the delegate.
        option: Whether to hand over; None if no option says so.
        asks: Whether the command may ask then.
    """
    from signoff.broker.hand_over import HandedOver, hand_over, waits_for  # noqa: PLC0415
    from signoff.core.approvals.collaboration import Operator  # noqa: PLC0415
    from signoff.core.approvals.moves import Actor  # noqa: PLC0415
    from signoff.core.approvals.parts import Assurance  # noqa: PLC0415

    who = person_of(decisions.directory, person)
    waiting = await waits_for(decisions.ledger, who.id)
    wanted = option
    if wanted is None and asks and waiting and absence.delegate:
        question = f"{len(waiting):,} still waiting for {who.shown}. Hand over to the delegate?"
        wanted = typer.confirm(question)
    if not (wanted and waiting and absence.delegate):
        return waiting, HandedOver()
    me = Actor(Operator(name=operator()), "cli", assurance=Assurance.TERMINAL)
    to = person_of(decisions.directory, absence.delegate)
    handed = await hand_over(decisions, waiting, me, of=who, to=to)
    done = {one.id for one in handed.done}
    return [one for one in waiting if one.id not in done], handed


def _still_waiting(waiting: Sequence[Approval], person: str, absence: Absence) -> str:
    many = counted(len(waiting), "request still waits", "requests still wait")
    named = ", ".join(f"{one.call.name} ({one.id})" for one in waiting[:_NAMED])
    rest = f" and {len(waiting) - _NAMED:,} more" if len(waiting) > _NAMED else ""
    then = (
        f"{absence.delegate} can answer as well from {absence.start} on; --hand-over gives them to "
        f"{absence.delegate} alone."
        if absence.delegate
        else "Without a delegate, the next level is asked if too few people are left."
    )
    return f"{many} for {person}: {named}{rest}. {then}"


def _away_text(person: Person, now: datetime) -> str:
    """Return the present absence, or else the next one."""
    if (absence := person.absence(now)) is not None:
        return _absence_text(absence)
    if (planned := person.next_absence(now)) is not None:
        return f"from {planned.start} {_absence_text(planned)}"
    return ""


def _absence_text(absence: Absence) -> str:
    return f"until {absence.end}" + (f", {absence.delegate} decides" if absence.delegate else "")


def _day(text: str, option: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is not a day: write it like 2026-12-24"
        raise typer.BadParameter(message, param_hint=option) from error
