"""Texts of agents and people have no effect on the terminal that shows them."""

from __future__ import annotations

import ast
import io
import json
import logging
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from builders import make_call, make_origin
from cli.conftest import Invoke
from cli.test_commands import OnLedger, on_ledger
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.cli import log
from signoff.cli.config.sections import LogSettings
from signoff.cli.terminal import export_json, make_console, say, say_json
from signoff.core.approvals.approval import Approval, Asked, ToolCall
from signoff.core.approvals.events import Event
from signoff.core.base.durations import Span
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Level, Seat, Start
from signoff.core.policies.policy import Terms

__all__ = ["on_ledger"]

CLI = Path(__file__).parents[2] / "cli"
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b1m\r\u202egpj.exe\u200b"
USER = "\x9b1mred\u202egpj.exe\u200b"
"""A possible name of a requester, without characters below 0x20."""

ESCAPED = "\\u001b]0;owned\\u0007\\u001b[2J\\u001b[31mred\\u009b1m\\u000d\\u202egpj.exe\\u200b"
DOES_SOMETHING = set(map(chr, range(0x20))) | set(map(chr, range(0x7F, 0xA0))) | set("\u202e\u200b")


def does_nothing(text: str) -> bool:
    """Return whether a terminal only prints a text."""
    return not (set(text) & DOES_SOMETHING - set("\n\t"))


def test_a_reader_that_stops_is_no_error_of_rich() -> None:
    """Commands end with 0 for the exception; rich itself would exit with 1."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(text)

    with pytest.raises(BrokenPipeError):
        make_console(file=Closed()).print("a table")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize("command", ["--help", "receipt new-key", "card --sample --json"])
def test_a_full_disk_is_one_line_of_error(tmp_path: Path, command: str) -> None:
    """The exit code says that the output is not complete; there is no traceback."""
    line = [sys.executable, "-m", "signoff.cli", *command.split()]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            line, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False
        )
    assert done.returncode == 1
    assert "cannot be written: No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("encoding", "rich"), [("ascii", True), ("iso-8859-1", True), ("iso-8859-1", False)]
)
def test_a_terminal_without_utf_8_shows_escapes(
    monkeypatch: pytest.MonkeyPatch, encoding: str, rich: bool
) -> None:
    """Characters outside its encoding do not end the command."""
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    (make_console().print if rich else say)("1 · Grüße … 🙂")
    sys.stdout.flush()
    assert raw.getvalue().endswith(b" \\u2026 \\U0001f642\n")


def test_commands_write_only_through_one_module() -> None:
    """Commands do not write to the terminal directly."""
    found = []
    for file in CLI.rglob("*.py"):
        # The fast path of `signoff health` loads neither typer nor rich.
        if file.name in {"terminal.py", "entry.py"}:
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if called in {
                "print",
                "typer.echo",
                "typer.secho",
                "click.echo",
                "Console",
                "sys.stdout.write",
            }:
                found.append(f"{file.name}:{node.lineno} {called}")
    assert found == []


@given(st.text())
def test_say_and_rich_consoles_escape_control_characters(text: str) -> None:
    """This holds for `say`, and for a rich console in a table or beside styles."""
    out = io.StringIO()
    console = make_console(file=out, width=40, force_terminal=False)
    table = Table()
    table.add_column("x")
    table.add_row(Text(text))
    console.print(Text(text, style="bold"), table)
    assert does_nothing(out.getvalue())


def test_a_text_with_an_emoji_code_stays_as_it_is() -> None:
    """Rich would show `:warning:` as another character than the agent wrote."""
    console = make_console(file=(out := io.StringIO()))
    console.print("tag=:warning:")
    assert out.getvalue() == "tag=:warning:\n"


def test_styles_of_our_own_stay() -> None:
    """A console with colours keeps Signoff's styles; foreign styles become text."""
    out = io.StringIO()
    console = make_console(file=out, force_terminal=True, color_system="standard")
    console.print(Text.assemble(("bad", "bold"), EVIL))
    written = out.getvalue()
    assert written.startswith("\x1b[1mbad\x1b[0m")
    assert does_nothing(written.replace("\x1b[1m", "", 1).replace("\x1b[0m", "", 1))
    assert "\\u001b[2J\\u001b[31mred\\u009b1m" in written


@given(st.dictionaries(st.text(), st.text()))
def test_json_keeps_the_original_text(value: dict[str, str]) -> None:
    """A program reads the original text; a terminal only prints it."""
    capture = pytest.MonkeyPatch()
    written: list[str] = []
    with capture.context() as patch:
        patch.setattr("typer.echo", lambda text, **_: written.append(text))
        say_json(json.dumps(value, ensure_ascii=False, indent=2))
        say(value)
    assert json.loads(written[0]) == value
    assert does_nothing(written[0])
    assert does_nothing(written[1])


@pytest.mark.parametrize("terminal", [False, True])
def test_export_is_exact_in_a_file_and_escaped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    """Hashed lines go into a file byte by byte; a terminal shows equivalent JSON."""
    written: list[str] = []
    monkeypatch.setattr("typer.echo", lambda text, **_: written.append(text))
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    line = json.dumps({"why": EVIL}, ensure_ascii=False) + "\n"
    export_json(line)
    assert json.loads(written[0]) == {"why": EVIL}
    assert (written[0] == line) is not terminal
    assert does_nothing(written[0]) is terminal


async def waits(ledger: Ledger, call: ToolCall, *, user: str = "riley", **more: Any) -> Approval:
    """Put a run with one waiting call into the ledger, and return its approval."""
    run = await Decider(ledger, Directory()).submit("finance", more.pop("message", "go"), user=user)
    claim = await ledger.claim("run.finance", limit=1)
    now, said = await ledger.now(), more.pop("said_by_run", "")
    origin = make_origin(run=run.id, session=run.session, user=user, agent=more.pop("agent", "a"))
    route = more.pop("route", None)
    made = {"hint": "", "template": None} | more
    approval, events = Approval.open(origin, call, now=now, **made)
    if route is not None:
        approval, routed = route(approval, now)
        events = (*events, *routed)
    was = await ledger.run(run.id)
    paused = was.paused([approval.id]).model_copy(update={"text": said, "problem": said})
    change = Change().put(approval, was=None).note(events).ack(claim.items[0])
    await ledger.commit(change.put(paused, was=was))
    return await ledger.approval(approval.id)


async def harmful(ledger: Ledger) -> Approval:
    """Put a run and an approval into the ledger with harmful text everywhere."""
    call = make_call("x").model_copy(update={"name": EVIL, "args": {EVIL: EVIL, "b": [EVIL]}})
    asked = (Asked(person=EVIL, channel="email", address=EVIL, receipt=EVIL, problem=EVIL),)
    terms = Terms(policy=EVIL, ask=("mara",), within=Span(timedelta(hours=4)))
    words = {"message": EVIL, "said_by_run": EVIL, "agent": EVIL, "hint": EVIL, "said": EVIL}
    return await waits(
        ledger,
        call,
        user=USER,
        template={EVIL: EVIL},
        route=lambda one, now: one.ask(terms, asked, now=now, notes=[EVIL]),
        **words,
    )


@pytest.fixture
def evil(settings_file: Path, on_ledger: OnLedger) -> Approval:
    """Return the subjects of the commands."""
    assert settings_file
    made: Approval = on_ledger(harmful)
    return made


@pytest.mark.parametrize(
    "command",
    [
        ("runs", "show", "RUN"),
        ("runs", "list"),
        ("approvals", "show", "ID"),
        ("approvals", "list", "--all"),
        ("approvals", "approve", "ID", "--as", "riley"),
        ("queue", "list"),
        ("queue", "show", "ID"),
        ("tail", "--all", "--limit", "3"),
        ("card", "ID"),
        ("card", "ID", "--for", "slack"),
        ("card", "ID", "--for", "email"),
        ("policy", "explain", "--approval", "ID"),
        ("policy", "diff"),
        ("approvals", "comment", "ID", EVIL),
        ("approvals", "withdraw", "ID", "--reason", EVIL),
        ("grants", "list"),
    ],
)
@pytest.mark.parametrize("as_json", [False, True])
def test_commands_print_harmful_text_without_effect(
    invoke: Invoke, evil: Approval, command: tuple[str, ...], as_json: bool
) -> None:
    """Harmful text of a model, a requester or a mail is printed without effect."""
    ids = {"ID": evil.id, "RUN": evil.origin.run}
    result = invoke(*(ids.get(part, part) for part in command), *(["--json"] if as_json else []))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert does_nothing(result.output)


def test_run_shows_unprintable_characters_as_escapes(invoke: Invoke, evil: Approval) -> None:
    """No character is lost: unprintable ones appear as escapes."""
    shown = "".join(invoke("runs", "show", evil.origin.run).output.split())
    assert shown.count("".join(ESCAPED.split())) >= 3


def test_lookalike_letters_are_marked(
    invoke: Invoke, settings_file: Path, on_ledger: OnLedger
) -> None:
    """The card on the terminal has the reason, and the list has the mark."""
    assert settings_file

    call = make_call("pay", to="\u0430cme")
    approval = on_ledger(lambda ledger: waits(ledger, call, user="m\u0430ra"))
    shown = invoke("approvals", "show", approval.id).output
    assert "\\u0430cme" in shown
    assert "mixes in Cyrillic letters" in shown
    assert "m\\u0430ra" in shown
    assert "m\\u0430ra" in invoke("approvals", "list").output
    assert "m\\u0430ra" in invoke("runs", "show", approval.origin.run).output


def test_all_of_a_long_call_is_shown(
    invoke: Invoke, settings_file: Path, on_ledger: OnLedger
) -> None:
    """A call that is too long for mail is shown on the terminal and to programs."""
    assert settings_file
    text = "".join(f"[{number:05}]" for number in range(9_000))

    approval = on_ledger(lambda ledger: waits(ledger, make_call("pay", memo=text)))
    shown = invoke("approvals", "show", approval.id).output
    assert text in "".join(shown.split())
    told = json.loads(invoke("approvals", "show", approval.id, "--json").output)
    assert told["call"]["args"]["memo"] == text


def test_list_shows_only_current_approvers_after_an_escalation(
    invoke: Invoke, settings_file: Path, on_ledger: OnLedger
) -> None:
    """After an escalation, the list no longer has the people of the first level.

    This holds as soon as the level is over, whether or not a timer has run.
    """
    assert settings_file

    hour = Span(timedelta(hours=1))
    ladder = (
        Level(name="first", ask=("mara",), within=hour),
        Level(name="second", ask=("cleo",), within=hour),
    )
    terms = Terms(policy="p", within=hour, levels=ladder)
    card = Asked(person="mara", channel="email", address="mara@example.com")

    def route(approval: Approval, now: datetime) -> tuple[Approval, tuple[Event, ...]]:
        long_ago = now - timedelta(minutes=90)
        start = Start(0, 0, (Seat(person="mara"),), long_ago + timedelta(hours=1))
        return approval.ask(terms, (card,), now=long_ago, start=start)

    approval = on_ledger(lambda ledger: waits(ledger, make_call(), route=route))
    listed = invoke("approvals", "list").output
    assert approval.id in listed
    assert "Cleo Park" in listed
    assert "Mara Lind" not in listed
    assert invoke("approvals", "approve", approval.id, "--as", "mara").exit_code == 1


def test_a_refusal_at_the_terminal_is_audited(
    invoke: Invoke, settings_file: Path, on_ledger: OnLedger, evil: Approval
) -> None:
    """The timeline has the refused attempt."""
    assert settings_file
    assert invoke("approvals", "approve", evil.id, "--as", "riley").exit_code == 1
    assert invoke("approvals", "reject", evil.id, "--as", "cleo").exit_code == 1
    assert invoke("approvals", "claim", evil.id, "--as", "cleo").exit_code == 1
    history = on_ledger(lambda ledger: ledger.history(evil.id))
    refused = [(one.by, one.more.get("channel")) for one in history if one.what == "refused_answer"]
    assert refused == [("riley", "cli"), ("cleo", "cli"), ("cleo", "cli")]


@pytest.mark.parametrize("form", ["console", "json"])
def test_log_contains_no_raw_foreign_text(form: Any) -> None:
    """Neither Signoff's events nor those of libraries contain raw foreign text."""
    out = io.StringIO()
    log.configure(LogSettings(level="info", format=form), stream=out)
    structlog.get_logger().info(EVIL, why=EVIL, all=[EVIL], error=ValueError(EVIL))
    logging.getLogger("uvicorn.access").warning("GET %s", EVIL)
    assert does_nothing(out.getvalue())
    assert out.getvalue().count("gpj.exe") == 5
