"""`signoff mail`: shows how mails are read, and why."""

from __future__ import annotations

import asyncio
import json
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from signoff.cli.boundary import REFUSED
from signoff.cli.commands.mail import quarantine
from signoff.cli.terminal import say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from signoff.channels.email.explain import Explanation
    from signoff.channels.email.inbound.readers import Readers
    from signoff.core.replies.text import ReplyContext

app = typer.Typer(no_args_is_help=True, help="Incoming mail.")
app.add_typer(quarantine.app, name="quarantine")


@app.command()
def explain(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE", help="Saved mails; - is standard input."),
    ],
    *,
    text: Annotated[
        bool, typer.Option("--text", help="The files are plain text, not mails.")
    ] = False,
    template: Annotated[
        str,
        typer.Option(metavar="JSON", help="The template of the request: '{\"days\": 0}'."),
    ] = "",
    tool: Annotated[
        str,
        typer.Option(
            metavar="TOOL",
            help="The tool of the request. A reply may approve one tool and be unclear for others.",
        ),
    ] = "",
    server: Annotated[
        str,
        typer.Option(
            "--authserv-id",
            help="Your mail server's name, whose Authentication-Results are believed.",
        ),
    ] = "",
    dns: Annotated[
        bool, typer.Option("--dns", help="Verify signatures with keys from the DNS.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line.")
    ] = False,
) -> None:
    """Explain how saved replies are read, and why one was not understood. Nothing is decided.

    It needs no settings and no Redis, and no network without --dns. The same limits apply as for
    incoming mail. The exit code is 1 if a file cannot be read.
    """
    options = _Options(_context(template, tool), text=text, server=server, dns=dns)
    if asyncio.run(_explain_all(files, options, as_json=as_json)):
        raise typer.Exit(REFUSED)


class _Options(NamedTuple):
    """The options of the command."""

    context: ReplyContext
    text: bool
    server: str
    dns: bool


async def _explain_all(files: Sequence[str], options: _Options, *, as_json: bool) -> bool:
    """Print how each file is read, and return whether one cannot be read.

    The files are read like incoming mail, in a process with limits on time and memory.
    """
    from signoff.channels.email.inbound.readers import Readers  # noqa: PLC0415

    failed = False
    readers = Readers(most=1)
    try:
        for file in files:
            try:
                read = await _explain(file, options, readers)
            except _Unreadable as error:
                failed = True
                _write(as_json, file, _unread(str(error)), f"Not read: {error}")
                continue
            answer = read.model_dump(
                mode="json", exclude={"sender"} if read.sender is None else None
            )
            _write(as_json, file, answer, "" if as_json else _report(read))
    finally:
        await readers.close()
    return failed


def _unread(error: str) -> dict[str, Any]:
    """Return an explanation, with the same keys, for a file that cannot be read."""
    from signoff.channels.email.explain import Explanation  # noqa: PLC0415

    read = Explanation(reply="", first_line="", problem=error)
    return {**read.model_dump(mode="json", exclude={"sender"}), "error": error}


class _Unreadable(Exception):
    """A file cannot be read; the message says what to do."""


def _context(template: str, tool: str) -> ReplyContext:
    from signoff.core.base.errors import ConfigError  # noqa: PLC0415
    from signoff.core.replies.text import ReplyContext  # noqa: PLC0415

    try:
        fields = json.loads(template) if template else None
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"--template is not JSON ({error}); write it as '{{\"days\": 0}}'."
        ) from None
    return ReplyContext(fields=fields, called=(tool,) if tool else ())


async def _explain(file: str, options: _Options, readers: Readers) -> Explanation:
    from signoff.channels.email.authentication.authenticator import Authenticator  # noqa: PLC0415
    from signoff.channels.email.explain import (  # noqa: PLC0415
        explain_mail,
        mail_of_text,
        with_proof,
    )
    from signoff.channels.email.inbound.readers import Provers, ReaderDied  # noqa: PLC0415
    from signoff.core.base.errors import UnreadableMail  # noqa: PLC0415

    try:
        raw = _bytes_of(file)
        mail = await readers.read(mail_of_text(raw) if options.text else raw)
        read = explain_mail(mail, options.context, text=options.text)
        if read.sender is None or not (options.server or options.dns):
            return read
        provers = Provers(Authenticator(authserv_id=options.server, dkim=options.dns), most=1)
        try:
            sender = read.sender.address or None
            proof = await provers.prove(raw, sender, peer="", now=datetime.now(UTC))
        finally:
            await provers.close()
        return with_proof(read, proof)
    except (UnreadableMail, ReaderDied) as error:
        raise _Unreadable(str(error)) from error


def _bytes_of(file: str) -> bytes:
    """Return the content of a file, up to one byte more than the largest mail may have."""
    from signoff.channels.email.parsing.mime import LARGEST_MAIL  # noqa: PLC0415

    if file == "-":
        return sys.stdin.buffer.read(LARGEST_MAIL + 1)
    path = Path(file)
    if path.suffix == ".mbox":
        raise _Unreadable(
            "An mbox holds many messages; save the one that is meant as a file of its own."
        )
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            raise _Unreadable("It is a folder; name the messages in it.")
        with path.open("rb") as opened:
            return opened.read(LARGEST_MAIL + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _Unreadable(f"{why}; name a file that can be read.") from error


def _write(as_json: bool, file: str, answer: dict[str, Any], report: str) -> None:
    if as_json:
        # Only ASCII, because file names and mails may contain characters that cannot be encoded.
        say(json.dumps({"file": file, **answer}))
        return
    shown = f"{file}\n{report}\n".encode("utf-8", "replace").decode("utf-8")
    say(shown)


def _report(read: Explanation) -> str:
    def indented(text: str) -> str:
        return text.replace("\n", "\n              ")

    rows = [("Read as", read.verdict)]
    rows += [("Why", read.problem)] if read.problem else []
    rows += [("Would work", read.example)] if read.example else []
    rows += [("Reason", read.reason)] if read.reason else []
    rows += [("Note", read.note)] if read.note else []
    rows += [("Value", f"{name} = {json.dumps(one)}") for name, one in read.values.items()]
    if read.sender is not None:
        rows.append(("From", ", ".join(read.sender.addresses) or "nobody"))
        rows.append(("Proven", ", ".join(read.sender.proven) or f"nothing. {read.sender.why}"))
    rows.append(("Own text", read.reply or "(none)"))
    rows += [(part.role.capitalize(), part.text) for part in read.parts]
    return "\n".join(f"  {name + ':':<12}{indented(text)}" for name, text in rows)
