"""`signoff mailbox`: a mailbox for development, which accepts all mail and can reply."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from signoff.broker.server.private import private_folder
from signoff.cli.commands.context import Json, settings_of, write_json
from signoff.cli.composition.credentials import MAILBOX, drop_foreign_secrets
from signoff.cli.printing import Output, Table
from signoff.cli.terminal import say
from signoff.core.base.errors import ConfigError

if TYPE_CHECKING:
    from email.message import EmailMessage

    from signoff.cli.config.settings import Settings

app = typer.Typer(
    no_args_is_help=True, help="A development mailbox that accepts and keeps all mail."
)

USUAL_PORT = 2525
Number = Annotated[str, typer.Argument(metavar="NUMBER", help="Its number in the list, or 'last'.")]


def folder_of(settings: Settings) -> Path:
    """Return the folder of the development mailbox."""
    return settings.state_folder / "mail"


@app.command()
def serve(
    ctx: typer.Context,
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port; 0 lets the system choose.")
    ] = USUAL_PORT,
) -> None:
    """Run the mailbox until it is stopped."""
    from signoff.cli import log  # noqa: PLC0415

    drop_foreign_secrets(MAILBOX)
    settings = settings_of(ctx, MAILBOX)
    log.configure(settings.logging)
    private_folder(settings.state_folder)
    asyncio.run(_serve(folder_of(settings), host, port))


@app.command("list")
def list_(ctx: typer.Context, *, as_json: Json = False) -> None:
    """List the mails, the oldest first."""
    from signoff.cli.commands.approvals import tables  # noqa: PLC0415
    from signoff.cli.demo import dev_mailbox  # noqa: PLC0415

    settings = settings_of(ctx)
    mails = dev_mailbox.stored(folder_of(settings))
    if as_json:
        write_json([{"number": number, **_summary(mail)} for number, mail in mails])
        return
    made = Table("number", "date", "to", "subject")
    for number, mail in mails:
        summary = _summary(mail)
        tables.add(made, number, summary["date"], summary["to"], summary["subject"])
    if mails:
        Output().print(made)
    else:
        say(f"No mail.{_elsewhere(settings)}")


@app.command()
def show(ctx: typer.Context, number: Number, *, as_json: Json = False) -> None:
    """Show a mail as text."""
    from signoff.cli.demo import dev_mailbox  # noqa: PLC0415
    from signoff.core.cards.card import shown  # noqa: PLC0415

    mail = _find(settings_of(ctx), number)
    text = dev_mailbox.text_of(mail)
    if as_json:
        write_json({**_summary(mail), "text": text})
        return
    for name in ("From", "To", "Reply-To", "Subject", "Date"):
        if mail[name]:
            say(f"{name}: {shown(str(mail[name]))}")
    say(f"\n{shown(text.replace(chr(13), '')).rstrip()}")


@app.command()
def reply(
    ctx: typer.Context,
    number: Number,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text above the quotation.")],
    *,
    sender: Annotated[
        str,
        typer.Option(
            "--as", metavar="ADDRESS", help="The sender. The default is the recipient of the mail."
        ),
    ] = "",
) -> None:
    """Reply to a mail like a mail program, by SMTP to [email.inbound].

    'last' is the last mail whose replies are read.
    """
    from signoff.cli.demo import dev_mailbox  # noqa: PLC0415
    from signoff.core.cards.card import shown  # noqa: PLC0415

    settings = settings_of(ctx)
    inbound = settings.email.inbound
    if inbound.protocol != "smtp":
        raise ConfigError(
            "the development mailbox replies by SMTP only", key="email.inbound.protocol"
        )
    mail = _find(settings, number, answerable=True)
    who = sender or next(iter(dev_mailbox.recipients_of(mail)), "")
    host = "127.0.0.1" if inbound.host in {"0.0.0.0", "::", ""} else inbound.host  # noqa: S104 -- compared
    sent = asyncio.run(dev_mailbox.reply(mail, text, who, host=host, port=inbound.port))
    say(f"Sent from {sent['From']} to {host}:{inbound.port}: {shown(str(sent['Subject']))}")


async def _serve(folder: Path, host: str, port: int) -> None:
    import structlog  # noqa: PLC0415

    from signoff.cli.demo.dev_mailbox import DevMailbox  # noqa: PLC0415

    log = structlog.get_logger(__name__)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    mailbox = DevMailbox(folder, host, port)
    try:
        await mailbox.start()
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    try:
        log.info("ready", kind="mailbox", pid=os.getpid(), port=mailbox.port, folder=str(folder))
        await stop.wait()
    finally:
        await mailbox.stop()
    log.info("stopped", kind="mailbox")


def _find(settings: Settings, number: str, *, answerable: bool = False) -> EmailMessage:
    from signoff.cli.demo import dev_mailbox  # noqa: PLC0415

    try:
        return dev_mailbox.find(folder_of(settings), number, answerable=answerable)
    except dev_mailbox.MailNotFound as error:
        raise dev_mailbox.MailNotFound(f"{error}{_elsewhere(settings)}") from None


def _elsewhere(settings: Settings) -> str:
    """Return where the settings send mail, "" if they leave that to `signoff up`."""
    smtp, known = settings.email.smtp, "smtp" in settings.email.model_fields_set
    return f" [email.smtp] sends mail to {smtp.where}." if known else ""


def _summary(mail: EmailMessage) -> dict[str, str]:
    from signoff.cli.demo import dev_mailbox  # noqa: PLC0415

    return {
        "date": str(mail["Date"] or ""),
        "from": str(mail["From"] or ""),
        "to": ", ".join(dev_mailbox.recipients_of(mail)),
        "reply_to": str(mail["Reply-To"] or ""),
        "subject": str(mail["Subject"] or ""),
        "message_id": str(mail["Message-ID"] or "").strip(),
    }
