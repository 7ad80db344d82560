"""`signoff demo`: one approval from start to end on real parts, in under a minute.

The demo starts an embedded Redis, a mailbox for the manager, and the same `signoff worker`,
`signoff channels` and `signoff gateway` processes as a real set-up. An ADK agent pauses, a mail is
sent, a reply is received, and the run continues in the worker.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.server.embedded import EmbeddedRedis, free_port
from signoff.broker.sessions import Name, SessionRecords
from signoff.broker.submit import submit
from signoff.channels.inbox.auth.links import make_link
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.settings import ROOT
from signoff.cli.composition.parts import build
from signoff.cli.composition.supervisor import Supervisor, tether
from signoff.cli.config.settings import load_settings
from signoff.cli.demo import dev_mailbox
from signoff.cli.example_files import examples
from signoff.cli.terminal import make_console
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ConfigError
from signoff.core.cards.card import rows_of
from signoff.core.directory.people import Person

MANAGER = Person(id="mara", name="Mara Lind", email="mara.lind@example.com")
REQUESTER = "riley@example.com"

MESSAGES = {
    "finance": "Reimburse me $2500 for the conference",
    "finance_strict": "Reimburse me $80 for the team lunch",
    "time_off": "I would like to take 5 days off",
}
"""The requester's message to each of the example agents."""

_EXAMPLES = {
    "time_off": ("approve 3", "reject: we ship that week"),
}
_WITHIN = 30.0
_UNDERSTOOD = {What.APPROVED, What.REJECTED, What.TIMED_OUT}
_HEARD = {*_UNDERSTOOD, What.NOT_UNDERSTOOD, What.REFUSED_ANSWER}


@dataclass
class Setup:
    """The ledger, the mailbox and the addresses of the demo."""

    folder: Path
    ledger: Ledger
    decisions: Decisions
    mailbox: dev_mailbox.DevMailbox
    inbound: int
    page: str
    console: Console


async def demo(
    *,
    app: str,
    message: str,
    reply: str | None,
    keep: bool = False,
    stay: bool = False,
) -> int:
    """Run the demo once.

    Args:
        app: The name of an example agent.
        message: The requester's message; "" takes the default message for that agent.
        reply: The manager's reply; None prompts at the terminal.
        keep: Keep the folder with ledger, sessions, mail and journal.
        stay: Keep running with a second request on the page, until Ctrl-C.

    Returns:
        The exit code.

    Raises:
        ConfigError: There is no such example, no terminal to prompt at, or no Redis to start.
    """
    console = make_console()
    if app not in MESSAGES:
        raise ConfigError(f"there is no example {app!r}; take one of {', '.join(MESSAGES)}")
    if reply is None and not sys.stdin.isatty():
        raise ConfigError(
            "the demo asks for the manager's reply at a terminal, and this is not one. "
            'Give the reply: make demo REPLY="approve", or signoff demo --reply approve'
        )
    for number in (signal.SIGHUP, signal.SIGTERM):
        # A closed terminal ends the demo as Ctrl-C does.
        asyncio.get_running_loop().add_signal_handler(number, signal.raise_signal, signal.SIGINT)
    folder = Path(tempfile.mkdtemp(prefix="signoff-demo-"))
    try:
        async with _setup(folder, console) as setup:
            code = await _play(setup, app, message or MESSAGES[app], reply)
            if stay and code == 0:
                await _stay(setup, app)
            return code
    finally:
        if keep:
            console.print(f"\nEverything is in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def _setup(folder: Path, console: Console) -> AsyncIterator[Setup]:
    async with AsyncExitStack() as stack:
        with console.status("Starting Redis, worker, channels, gateway and a mailbox …"):
            # In this thread: the kernel ends the server when the thread that started it ends.
            redis = stack.enter_context(EmbeddedRedis(folder / "redis", launcher=tether()))
            mailbox = await stack.enter_async_context(dev_mailbox.DevMailbox(folder / "mail"))
            inbound, gateway = free_port(), free_port()
            settings = _settings(folder, redis.url, mailbox.port, inbound, gateway)
            environment = {
                "SIGNOFF_CONFIG": str(settings),
                "SIGNOFF_EXAMPLE_JOURNAL": str(folder / "journal.jsonl"),
            }
            supervisor = await stack.enter_async_context(Supervisor())
            for name in ("worker", "channels", "gateway"):
                await supervisor.signoff(name, name, env=environment)
            loaded = load_settings(settings)
            parts = build(loaded)
            stack.push_async_callback(parts.ledger.close)
            await supervisor.ready()
        page = loaded.inbox.url
        yield Setup(folder, parts.ledger, parts.decisions, mailbox, inbound, page, console)


def _settings(
    folder: Path, redis_url: str, smtp_port: int, inbound_port: int, gateway_port: int
) -> Path:
    file = folder / "signoff.toml"
    file.write_text(
        f"""\
[redis]
url = "{redis_url}"
[agents]
folder = {json.dumps(str(examples("agents")))}
[gateway]
port = {gateway_port}
[inbox]
url = "http://localhost:{gateway_port}"
secret_key = "{secrets.token_urlsafe(32)}"
[email]
sender = "Signoff <approvals@signoff.localhost>"
mailbox = "approvals@signoff.localhost"
[email.smtp]
port = {smtp_port}
[email.inbound]
port = {inbound_port}
[[people]]
id = "{MANAGER.id}"
name = "{MANAGER.name}"
email = "{MANAGER.email}"
[[policies]]
name = "large-reimbursements"
when = "tool == 'reimburse'"
ask = ["{MANAGER.id}"]
within = "4h"
[default]
ask = ["{MANAGER.id}"]
within = "1d"
""",
        encoding="utf-8",
    )
    return file


async def _play(setup: Setup, app: str, message: str, reply: str | None) -> int:
    show = setup.console
    show.print(Rule("1 · The agent"))
    show.print(f"{REQUESTER} to the agent [b]{escape(app)}[/b]: {escape(message)}")
    run = await submit(setup.decisions.ledger, app, message, user=REQUESTER)
    paused = await _until(setup, run.id, {What.ASKED, What.COMPLETED, What.FAILED})
    if paused.what is not What.ASKED:
        return await _ended_at_once(setup, run)
    approval = await setup.ledger.approval(paused.approval)
    rows = rows_of(approval, approval.call.args)
    arguments = ", ".join(f"{row.name}={row.value}" for row in rows)
    show.print(
        f"The agent wants to run [b]{escape(approval.call.name)}({escape(arguments)})[/b]. "
        "The run is paused, and no process waits for it."
    )
    mail = await setup.mailbox.wait_for(_to_manager, within=_WITHIN)
    show.print(Rule("2 · The mail to the manager"))
    show.print(_mail_panel(mail))
    if not await _answer(setup, approval, mail, reply):
        return 0
    await _until(setup, run.id, {What.COMPLETED, What.FAILED, What.IN_DOUBT})
    run = await setup.ledger.run(run.id)
    show.print(Rule("4 · The agent resumes in the worker"))
    await _show_session(setup, run)
    show.print(f"The agent's last message: [b green]{escape(run.text or run.problem)}[/b green]")
    show.print(Rule("5 · The timeline"))
    show.print(_timeline(await setup.ledger.history(run.id)))
    return 0


async def _stay(setup: Setup, app: str) -> None:
    """Put a second request on the page, and wait for Ctrl-C."""
    show = setup.console
    show.print(Rule("6 · The page"))
    run = await submit(setup.decisions.ledger, app, MESSAGES[app], user=REQUESTER)
    await _until(setup, run.id, {What.DELIVERED})
    path, _ = await make_link(setup.ledger, MANAGER.id, how=How.LOCAL, to=f"{ROOT}/")
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, ended.set)
    try:
        show.print(f"A second request waits for {MANAGER.name}. Their page; the link works once:")
        show.print(f"{setup.page}{path}", soft_wrap=True)
        show.print("Ctrl-C ends the demo.")
        await ended.wait()
    finally:
        loop.remove_signal_handler(signal.SIGINT)


async def _answer(setup: Setup, approval: Approval, mail: EmailMessage, reply: str | None) -> bool:
    """Send the manager's replies until one is understood; return whether one was."""
    show = setup.console
    show.print(Rule("3 · The manager's reply"))
    yes, no = _EXAMPLES.get(approval.origin.app, ("approve", "reject over budget"))
    answered = 0
    while True:
        if reply is None:
            text = await _ask(show, f"Your reply, for example [b]{yes}[/b] or [b]{no}[/b]: ")
            if text is None:
                show.print("\nNobody answered. The approval still waits; the tool has not run.")
                return False
        else:
            text = reply
            show.print(f"The manager replies: [b]{escape(text)}[/b]")
        await dev_mailbox.reply(
            mail,
            text,
            f"{MANAGER.name} <{MANAGER.email}>",
            host="127.0.0.1",
            port=setup.inbound,
        )
        answered += 1
        event = await _until(setup, approval.id, _HEARD, nth=answered)
        if event.what in _UNDERSTOOD:
            by = setup.decisions.directory.get(event.by)
            show.print(
                f"Recorded: [b]{event.what.value}[/b] by {escape(by.shown if by else event.by)}"
                + (f", because: {escape(event.why)}" if event.why else "")
            )
            return True
        show.print(f"Nothing was decided: {escape(event.why)}")
        if answered == 1:
            notice = await setup.mailbox.wait_for(
                lambda one: _to_manager(one) and one["Message-ID"] != mail["Message-ID"],
                within=_WITHIN,
            )
            show.print(_mail_panel(notice))
        if reply is not None:
            show.print(
                "The approval is still pending, and the tool has not run. "
                f'Try again with REPLY="{yes}" or REPLY="{no}".'
            )
            return False


async def _ask(show: Console, prompt: str) -> str | None:
    """Return a line from the terminal, or None at its end (Ctrl-D).

    A thread that reads the terminal could not be interrupted, and Ctrl-C would have to wait for it.
    """
    show.print(prompt, end="")
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin.fileno())
    line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


async def _ended_at_once(setup: Setup, run: Run) -> int:
    run = await setup.ledger.run(run.id)
    message = escape(run.text or run.problem)
    setup.console.print(f"No approval was needed. Its last message: [b]{message}[/b]")
    return 0 if run.text else 1


async def _until(setup: Setup, subject: str, wanted: set[What], *, nth: int = 1) -> Event:
    """Return the n-th event of these kinds about an approval or a run."""
    async with asyncio.timeout(_WITHIN):
        async for event in follow(setup.ledger.store, subject=subject):
            if event.what in wanted:
                nth -= 1
                if nth == 0:
                    return event
    raise AssertionError("following ends only with the run")


def _to_manager(mail: EmailMessage) -> bool:
    return MANAGER.email in dev_mailbox.recipients_of(mail)


def _mail_panel(mail: EmailMessage) -> Panel:
    head = "\n".join(
        f"[b]{name}:[/b] {escape(str(mail[name]))}" for name in ("From", "To", "Subject")
    )
    return Panel(
        f"{head}\n\n{escape(dev_mailbox.text_of(mail).strip())}", expand=False, padding=(0, 1)
    )


async def _show_session(setup: Setup, run: Run) -> None:
    """Show the answer and the tool's result from the agent's session."""
    answered = False
    for author, response in await _responses(setup.ledger, run):
        if author == "user":
            answered = True
            setup.console.print("The answer in the ADK session:")
            setup.console.print_json(json.dumps({"function_response": response}))
        elif answered:
            result = json.dumps(response.get("response"), ensure_ascii=False)
            setup.console.print(f"{escape(str(response['name']))}() gave {escape(result)}")
    journal = setup.folder / "journal.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    if lines:
        setup.console.print(f"The finance department's books: {escape(lines[0])}")
    elif run.app.startswith("finance"):
        setup.console.print("The finance department's books are empty.")


async def _responses(ledger: Ledger, run: Run) -> list[tuple[str, dict[str, Any]]]:
    """Return the author and content of each function response of a session, in order."""
    found = await SessionRecords(ledger.store).read(Name(run.app, run.user, run.session))
    events = [json.loads(text) for text in found.events] if found is not None else []
    return [
        (str(event.get("author")), part["function_response"])
        for event in events
        for part in (event.get("content") or {}).get("parts") or []
        if part.get("function_response")
    ]


def _timeline(events: list[Event]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("time (UTC)", "", "what", "by", ""):
        table.add_column(name)
    first: datetime | None = None
    for event in events:
        first = first or event.at
        table.add_row(
            f"{event.at:%H:%M:%S.%f}"[:-3],
            f"+{(event.at - first).total_seconds():.3f} s",
            event.what.value.replace("_", " "),
            escape(event.by),
            escape(event.why),
        )
    return table
