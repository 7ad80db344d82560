"""The commands on a real ledger: output, refusals and exit codes."""

from __future__ import annotations

import asyncio
import functools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
import typer
from typer.core import TyperGroup

from builders import NOON, paused
from cli.conftest import Invoke
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.cli.command_help import EXAMPLES, GROUPS
from signoff.cli.main import app
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import Run, RunState
from signoff.core.directory.people import Directory

T = TypeVar("T")

COMMANDS = {
    "aap instance add",
    "aap instance list",
    "aap instance remove",
    "aap instance rotate",
    "api openapi",
    "approvals approve",
    "approvals ask",
    "approvals break-glass",
    "approvals claim",
    "approvals comment",
    "approvals extend",
    "approvals list",
    "approvals reassign",
    "approvals reject",
    "approvals release",
    "approvals remind",
    "approvals review",
    "approvals show",
    "approvals withdraw",
    "archive export",
    "archive list",
    "archive run",
    "archive show",
    "archive verify",
    "audit export",
    "audit verify",
    "card",
    "channels",
    "config check",
    "config diff",
    "config schema",
    "config show",
    "demo",
    "doctor",
    "freeze",
    "gateway",
    "grants give",
    "grants list",
    "grants revoke",
    "grants show",
    "health",
    "inbox link",
    "init",
    "ledger backup",
    "ledger rebuild",
    "ledger restore",
    "mail explain",
    "mail quarantine drop",
    "mail quarantine list",
    "mail quarantine retry",
    "mail quarantine show",
    "mailbox list",
    "mailbox reply",
    "mailbox serve",
    "mailbox show",
    "mcp gate",
    "people away",
    "people back",
    "people enroll",
    "people erase",
    "people list",
    "people on-call",
    "people reseal",
    "people sign-out",
    "people unenroll",
    "policy diff",
    "policy explain",
    "policy history",
    "policy test",
    "queue figures",
    "queue list",
    "queue show",
    "receipt keys",
    "receipt new-key",
    "receipt rotate",
    "receipt show",
    "receipt verify",
    "redis acl",
    "run",
    "runs list",
    "runs settle",
    "runs show",
    "sessions move",
    "slack manifest",
    "tail",
    "thaw",
    "tokens create",
    "tokens list",
    "tokens revoke",
    "top",
    "up",
    "webhooks list",
    "webhooks replay",
    "worker",
}
WITHOUT_JSON = {
    "api openapi",
    "approvals review",
    "archive export",
    "audit export",
    "channels",
    "config schema",
    "demo",
    "gateway",
    "init",
    "mailbox reply",
    "mcp gate",
} | {
    "mailbox serve",
    "receipt keys",
    "receipt new-key",
    "receipt rotate",
    "receipt show",
    "receipt verify",
    "redis acl",
    "slack manifest",
    "up",
    "worker",
}


@pytest.fixture
def on_ledger(redis_url: str, prefix: str) -> Callable[[Callable[[Ledger], Awaitable[Any]]], Any]:
    """Return a function that works with the commands' ledger."""

    async def with_ledger(work: Callable[[Ledger], Awaitable[T]]) -> T:
        ledger = Ledger(Store.open(redis_url, prefix=prefix))
        try:
            return await work(ledger)
        finally:
            await ledger.close()

    return lambda work: asyncio.run(with_ledger(work))


OnLedger = Callable[[Callable[[Ledger], Awaitable[Any]]], Any]


@pytest.fixture
def waiting(settings_file: Path, on_ledger: OnLedger) -> Approval:
    """Return an approval for a run of Riley's that asks Mara and Cleo."""
    assert settings_file.exists()
    _, (approval,) = on_ledger(paused)
    assert isinstance(approval, Approval)
    return approval


def leaves(command: object, path: str = "") -> dict[str, Any]:
    """Return every executable command by its words."""
    if not isinstance(command, TyperGroup):
        return {path.strip(): command}
    found: dict[str, Any] = {}
    for name, one in command.commands.items():
        found |= leaves(one, f"{path} {name}")
    return found


# -- the surface ----------------------------------------------------------------------------------


def test_the_commands_are_these_and_each_has_help() -> None:
    """The set of commands is fixed, and each has a help text."""
    from signoff.cli.main import app

    found = leaves(typer.main.get_command(app))
    assert set(found) == COMMANDS
    for words, command in found.items():
        assert command.help, words
        for parameter in command.params:
            assert getattr(parameter, "help", ""), (words, parameter.name)


def test_everything_that_lists_or_shows_writes_json_too() -> None:
    """Every command has JSON output except processes and commands that print JSON or mail."""
    from signoff.cli.main import app

    for words, command in leaves(typer.main.get_command(app)).items():
        flags = {flag for one in command.params for flag in one.opts}
        assert ("--json" in flags) is (words not in WITHOUT_JSON), words


@pytest.mark.parametrize("words", sorted(COMMANDS))
def test_every_command_answers_to_help(invoke: Invoke, words: str) -> None:
    """Help works without settings and without Redis."""
    result = invoke(*words.split(), "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def test_help_and_completion_import_no_frameworks() -> None:
    """Help and completion have to be fast, so they import no frameworks."""
    slow = ("celery", "google", "fastapi", "pydantic", "redis", "structlog", "uvicorn")
    program = f"import signoff.cli.main, sys; print([m for m in {slow} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_version_is_the_packages(invoke: Invoke) -> None:
    """`signoff --version` needs no command behind it."""
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.output.startswith("signoff ")


# -- approvals ------------------------------------------------------------------------------------


def test_pending_requests_are_listed(invoke: Invoke, waiting: Approval) -> None:
    """The list has the call, the requester and the awaited people."""
    result = invoke("approvals", "list")
    assert result.exit_code == 0
    for word in (
        waiting.id,
        "finance: reimburse(amount 2500, purpose conference)",
        "Riley Voss",
        "Mara Lind, Cleo Park",
    ):
        assert word in result.output
    (data,) = json.loads(invoke("approvals", "list", "--json").output)
    assert data["id"] == waiting.id
    assert data["call"]["args"] == {"amount": 2500, "purpose": "conference"}


def test_list_for_a_person_shows_only_their_pending_requests(
    invoke: Invoke, waiting: Approval
) -> None:
    """By id or by address; Riley, the requester, has no approvals to decide."""
    for who in ("mara", "Mara@example.com"):
        assert waiting.id in invoke("approvals", "list", "--mine", who).output
    assert "No pending approvals" in invoke("approvals", "list", "--mine", "riley").output
    assert invoke("approvals", "list", "--mine", "zoe").exit_code == 2
    assert invoke("approvals", "list", "--mine", "mara", "--all").exit_code == 2


@pytest.mark.usefixtures("settings_file")
def test_an_empty_list_is_a_list(invoke: Invoke) -> None:
    """Without approvals, people get a sentence and programs an empty list."""
    assert "No pending approvals" in invoke("approvals", "list").output
    assert json.loads(invoke("approvals", "list", "--json").output) == []
    for filters in (["--all"], ["--state", "rejected"], ["--tool", "reimburse"]):
        assert "No approvals match" in invoke("approvals", "list", *filters).output


def test_input_request_is_listed_with_its_own_text(waiting: Approval) -> None:
    """ADK's name for every request for input is not useful to a person."""
    from signoff.cli.commands.approvals import tables

    call = waiting.call.model_copy(update={"args": {"message": "Which account?\nSay."}})
    asked = waiting.model_copy(update={"kind": Kind.INPUT, "call": call})
    table = tables.approvals_table([asked], Directory([]), asked.opened_at)
    cell = table.rows[0][2].plain
    assert cell == "finance: Which account? Say."


def test_show_prints_card_people_and_timeline(invoke: Invoke, waiting: Approval) -> None:
    """All its facts are on one page."""
    result = invoke("approvals", "show", waiting.id)
    assert result.exit_code == 0
    for word in (waiting.digest, "amount", "2500", "Cleo Park", "under way", "opened", "expenses"):
        assert word in result.output
    data = json.loads(invoke("approvals", "show", waiting.id, "--json").output)
    assert data["history"][0]["what"] == "opened"


def test_agent_text_is_escaped(waiting: Approval, capsys: pytest.CaptureFixture[str]) -> None:
    """Hidden and direction-changing characters are escaped."""
    from signoff.cli.commands.approvals import tables
    from signoff.cli.printing import Output

    shown = waiting.model_copy(update={"said": "[red]I \u202elooked"})
    tables.print_approval(Output(), shown, Directory([]), [], NOON)
    assert "agent said" in (text := capsys.readouterr().out)
    assert "[red]I \\u202elooked" in text


def test_approving_is_recorded_as_done_by_that_person_through_the_command_line(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """The run continues, and the approval is in the list of ended ones."""
    result = invoke("approvals", "approve", waiting.id, "--as", "mara", "--reason", "fine by me")
    assert result.exit_code == 0
    assert "approved by Mara Lind" in result.output
    after, run, _ = on_ledger(lambda ledger: ledger.current(waiting.id))
    assert after.state is State.APPROVED
    assert (after.decision.by, after.decision.channel) == ("mara", "cli")
    assert after.decision.reason == "fine by me"
    assert run.state is RunState.ANSWERED
    assert waiting.id not in invoke("approvals", "list").output
    assert waiting.id in invoke("approvals", "list", "--all").output
    assert "fine by me" in invoke("approvals", "show", waiting.id).output


def test_reason_that_reads_like_a_limit_needs_an_option(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger
) -> None:
    """Nothing is decided without `--as-it-is`; the error names it."""
    limited = ("approvals", "approve", waiting.id, "--as", "mara", "--reason", "only up to 500")
    refused = invoke(*limited)
    assert refused.exit_code == 1
    assert "--as-it-is" in refused.output
    after, _, _ = on_ledger(lambda ledger: ledger.current(waiting.id))
    assert after.state is State.PENDING
    assert invoke(*limited, "--as-it-is").exit_code == 0
    after, _, _ = on_ledger(lambda ledger: ledger.current(waiting.id))
    assert after.decision.reason == "only up to 500"


@pytest.mark.usefixtures("settings_file")
def test_reject_and_withdraw_keep_their_reasons(invoke: Invoke, on_ledger: OnLedger) -> None:
    """The agent reads the reason."""
    _, (first, second) = on_ledger(lambda ledger: paused(ledger, siblings=2))
    done = invoke("approvals", "reject", first.id, "--as", "cleo", "--reason", "over budget")
    assert "rejected by Cleo Park" in done.output
    done = invoke("approvals", "withdraw", second.id, "--reason", "mistake", "--json")
    assert json.loads(done.output)["decision"]["reason"] == "mistake"
    assert invoke("approvals", "withdraw", second.id).exit_code == 2


@pytest.mark.parametrize("case", [("riley", 1, "cannot decide"), ("zoe", 2, "There is no person")])
def test_requester_and_unknown_people_cannot_decide(
    invoke: Invoke, waiting: Approval, on_ledger: OnLedger, case: tuple[str, int, str]
) -> None:
    """The requester is refused, a stranger is unknown, and nothing is decided."""
    who, code, words = case
    result = invoke("approvals", "approve", waiting.id, "--as", who)
    assert result.exit_code == code
    assert words in result.stderr
    assert "Traceback" not in result.output
    assert on_ledger(lambda ledger: ledger.approval(waiting.id)).state is State.PENDING


def test_second_answer_is_refused_and_names_the_first_decider(
    invoke: Invoke, waiting: Approval
) -> None:
    """Two people decide the same thing once."""
    assert invoke("approvals", "approve", waiting.id, "--as", "mara").exit_code == 0
    result = invoke("approvals", "reject", waiting.id, "--as", "cleo")
    assert result.exit_code == 1
    assert "already approved by Mara Lind" in result.stderr


@pytest.mark.usefixtures("settings_file")
def test_values_are_read_by_the_template(invoke: Invoke, on_ledger: OnLedger) -> None:
    """`--value` fills the payload, and an invalid value is refused with an example."""
    _, (one,) = on_ledger(lambda ledger: paused(ledger, template={"approved_days": 0}))
    approve = ("approvals", "approve", one.id, "--as", "mara")
    for value in ("approved_days=many", "days=3"):
        assert invoke(*approve, "--value", value).exit_code == 1
    assert "--value approved_days=3" in invoke(*approve).stderr
    assert invoke(*approve, "--value", "approved_days").exit_code == 2
    assert invoke(*approve, "--value", "a=1", "--value", "a=2").exit_code == 2
    assert invoke(*approve, "--value", "approved_days=3").exit_code == 0
    after = on_ledger(lambda ledger: ledger.approval(one.id))
    assert after.decision.payload == {"approved_days": 3}


def test_approving_other_values_says_that_nothing_runs(invoke: Invoke, waiting: Approval) -> None:
    """Somebody who typed "approve" reads why it is a rejection, and what the agent is told."""
    done = invoke("approvals", "approve", waiting.id, "--as", "mara", "--value", "amount=900")
    assert done.exit_code == 0
    assert done.stdout == (
        f"{waiting.id}: rejected by Mara Lind. What was shown will not be run. The agent is told "
        "that Mara Lind would approve amount = 900, and may propose that.\n"
    )
    shown = invoke("approvals", "show", waiting.id).stdout
    assert re.search(r"proposed +amount = 900", shown)


@pytest.mark.usefixtures("settings_file")
def test_missing_approval_is_a_one_line_error(invoke: Invoke) -> None:
    """It is refused with a suggestion and without a traceback."""
    result = invoke("approvals", "show", "ap_none")
    assert result.exit_code == 1
    assert result.stderr.startswith("signoff: There is no approval 'ap_none'.")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("settings_file")
def test_control_characters_of_an_agent_do_not_reach_the_terminal(
    invoke: Invoke, on_ledger: OnLedger
) -> None:
    """Escape sequences and markup in an agent's text are shown as text."""

    async def submit(ledger: Ledger) -> Run:
        decider = Decider(ledger, Directory())
        return await decider.submit("finance", "\x1b[2J[red]hello[/red]", user="riley")

    run = on_ledger(submit)
    output = invoke("runs", "show", run.id).output
    assert "\x1b" not in output
    assert "[red]hello[/red]" in output


# -- runs -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("settings_file")
def test_a_run_is_submitted_listed_and_shown(invoke: Invoke, on_ledger: OnLedger) -> None:
    """Other commands accept the printed id."""
    done = invoke("run", "finance", "Reimburse me $80", "--user", "riley@example.com")
    assert done.exit_code == 0
    run_id = done.output.strip()
    run = on_ledger(lambda ledger: ledger.run(run_id))
    assert (run.app, run.user, run.state) == ("finance", "riley@example.com", RunState.QUEUED)
    assert run_id in invoke("runs", "list").output
    assert json.loads(invoke("runs", "list", "--json").output)[0]["id"] == run_id
    assert "Riley Voss" in invoke("runs", "show", run_id).output
    assert json.loads(invoke("runs", "show", run_id, "--json").output)["history"]
    assert invoke("runs", "show", "run_none").exit_code == 1


@pytest.mark.usefixtures("settings_file")
def test_unknown_agent_error_lists_the_known_agents(invoke: Invoke) -> None:
    """A typing error does not put a run into a queue without a worker."""
    for empty in ("", " "):
        nobody = invoke("run", "finance", "hello", "--user", empty)
        assert (nobody.exit_code, "it is empty" in nobody.stderr) == (2, True)
    result = invoke("run", "finanse", "hello")
    assert result.exit_code == 1
    assert "finance, finance_strict, refunds, time_off" in result.stderr


@pytest.mark.usefixtures("settings_file")
def test_a_run_of_a_remote_agent_is_submitted(invoke: Invoke) -> None:
    """An agent behind an API server has no folder here."""
    remote = {"SIGNOFF_AGENTS__REMOTE": json.dumps({"books": {"url": "http://127.0.0.1:9"}})}
    assert invoke("run", "books", "hello", env=remote).exit_code == 0
    assert "books, finance" in invoke("run", "finanse", "hello", env=remote).stderr


@pytest.mark.usefixtures("settings_file")
def test_wait_for_a_run_ends_at_the_timeout(invoke: Invoke) -> None:
    """`--timeout` ends the wait, and not the run; meanwhile a line says what it waits for."""
    result = invoke("run", "finance", "hello", "--wait", "--timeout", "0.1")
    assert result.exit_code == 1
    assert "Waiting for a worker that runs finance (run_" in result.stderr
    assert "still queued" in result.stderr


@pytest.mark.usefixtures("settings_file")
@pytest.mark.parametrize(
    ("problem", "told"),
    [("", "Completed: I have paid it."), ("there is no key", "Failed: there is no key")],
)
def test_until_asked_tells_how_a_run_has_ended(
    invoke: Invoke, on_ledger: OnLedger, problem: str, told: str
) -> None:
    """Nobody was asked, and the reason is on standard error, beside the id for scripts."""

    async def work(ledger: Ledger) -> None:
        async for event in follow(ledger.store):
            if event.what is What.SUBMITTED:
                run, now = await ledger.run(event.run), await ledger.now()
                ended = (
                    run.failed(problem, now=now)
                    if problem
                    else run.completed("I have paid it.", now=now)
                )
                await ledger.commit(Change().put(ended[0], was=run).note(ended[1]))
                return

    with ThreadPoolExecutor() as pool:
        worker = pool.submit(on_ledger, work)
        done = invoke("run", "finance", "hello", "--until-asked")
        worker.result()
    assert done.exit_code == (1 if problem else 0)
    assert re.fullmatch(r"run_[0-9a-f]{16}\n", done.stdout)
    assert done.stderr.endswith(f"{told}\n")


# -- audit ----------------------------------------------------------------------------------------


def test_the_audit_is_verified_and_exported(invoke: Invoke, waiting: Approval) -> None:
    """The head that verify prints is found later; a wrong head is not."""
    before = json.loads(invoke("audit", "verify", "--json").output)
    assert before["entries"] > 0
    invoke("approvals", "approve", waiting.id, "--as", "mara")
    assert invoke("audit", "verify", "--head", before["head"]).exit_code == 0
    assert "unbroken" in invoke("audit", "verify").output
    wrong = invoke("audit", "verify", "--head", "0" * 40)
    assert wrong.exit_code == 1
    assert "not in the chain" in wrong.stderr
    entries = [json.loads(line) for line in invoke("audit", "export").output.splitlines()]
    assert [entry["entry"]["what"] for entry in entries][-1] == "approved"
    assert entries[before["entries"] - 1]["link"] == before["head"]
    rest = invoke("audit", "export", "--after", entries[-2]["id"], "--of", waiting.id).output
    assert [json.loads(line) for line in rest.splitlines()] == entries[-1:]
    assert invoke("audit", "export", "--after", "yesterday").exit_code == 2


# -- config ---------------------------------------------------------------------------------------


def test_good_settings_pass_the_check(invoke: Invoke, settings_file: Path) -> None:
    """The output names the settings file."""
    result = invoke("config", "check")
    assert result.exit_code == 0
    assert str(settings_file) in result.output.replace("\n", "")
    assert json.loads(invoke("config", "check", "--json").output) == {"ok": True, "faults": []}


@pytest.mark.parametrize("text", ["[redis]\nur = 1\n", '[default]\nask = ["zoe"]\n'])
def test_bad_settings_fail_the_check(invoke: Invoke, tmp_path: Path, text: str) -> None:
    """Invalid values and contradictions are both reported, with exit code 2."""
    (tmp_path / "signoff.toml").write_text(text)
    result = invoke("config", "check")
    assert result.exit_code == 2
    assert "error:" in result.output
    data = json.loads(invoke("config", "check", "--json").output)
    assert data["ok"] is False
    assert data["faults"][0]["remedy"]


def test_every_command_reports_unreadable_settings(invoke: Invoke, tmp_path: Path) -> None:
    """All errors are printed, one per line, with exit code 2."""
    (tmp_path / "signoff.toml").write_text("[redis]\nur = 1\nprefx = 2\n")
    result = invoke("approvals", "list")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 2
    assert "Did you mean 'url'?" in result.stderr


def test_the_schema_describes_the_settings(invoke: Invoke) -> None:
    """An editor knows every section, and unknown keys are errors."""
    schema = json.loads(invoke("config", "schema").output)
    assert {"redis", "email", "people", "policies", "default"} <= set(schema["properties"])
    assert schema["additionalProperties"] is False


@pytest.mark.usefixtures("settings_file")
def test_settings_are_shown_without_secrets(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current settings are printed in the form of the file, whatever their source."""
    monkeypatch.setenv("SIGNOFF_BROKER__URL", "amqp://me:hunter2@rabbit//")
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__USERNAME", "me")
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PASSWORD", "hunter2")
    output = invoke("config", "show").output
    assert "hunter2" not in output
    assert 'url = "amqp://me:***@rabbit//"' in output
    assert "[[policies]]" in output
    assert 'name = "expenses"' in output
    assert 'within = "4h"' in output
    assert "hunter2" not in invoke("config", "show", "--json").output


def _set(value: Any) -> Any:
    """Return JSON without what is not set: TOML has no null."""
    if isinstance(value, dict):
        return {key: _set(one) for key, one in value.items() if one is not None}
    return [_set(one) for one in value] if isinstance(value, list) else value


_NESTED = """
[[gateway.tokens]]
name = "crm.bot"
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
users = ["riley@example.com"]
[[policies]]
name = "large \\u007f"
when = "args.amount > 1e9"
[[policies.levels]]
ask = ["cleo"]
[[policies.levels]]
all_of = [{ ask = ["mara"], quorum = 1 }, { ask = ["cleo"], quorum = 1 }]
[agents.owners]
"fin.ance" = "mara"
"""


def test_settings_that_are_shown_can_be_read(invoke: Invoke, settings_file: Path) -> None:
    """Tables in tables keep their whole name, and odd keys are quoted."""
    settings_file.write_text(settings_file.read_text() + _NESTED)
    shown = invoke("config", "show")
    assert shown.exit_code == 0
    assert tomllib.loads(shown.output) == _set(
        json.loads(invoke("config", "show", "--json").output)
    )


# -- errors ---------------------------------------------------------------------------------------


def test_unavailable_redis_is_a_one_line_error(invoke: Invoke, settings_file: Path) -> None:
    """Exit code 1, with a hint where to look."""
    settings_file.write_text('[redis]\nurl = "redis://127.0.0.1:1/0"\n')
    result = invoke("approvals", "list")
    assert result.exit_code == 1
    assert "doctor" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.usefixtures("settings_file")
def test_internal_error_is_one_line_without_a_traceback(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message says that it is Signoff's error; an option shows the traceback."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("signoff.cli.config.settings.load_settings", broken)
    result = invoke("approvals", "list")
    assert result.exit_code == 1
    assert result.stderr.startswith("signoff: ZeroDivisionError: oops. This is a fault in Signoff")
    monkeypatch.setenv("SIGNOFF_DEBUG", "1")
    assert isinstance(invoke("approvals", "list").exception, ZeroDivisionError)


@pytest.mark.usefixtures("settings_file")
def test_ctrl_c_is_quiet(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 130 and no output."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("signoff.cli.config.settings.load_settings", interrupted)
    result = invoke("approvals", "list")
    assert result.exit_code == 130
    assert result.output == ""


# -- the development mailbox ----------------------------------------------------------------------


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="only Linux has such a folder")
def test_folder_that_may_not_be_written_is_no_fault_of_ours(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the file and the reason; not even root may write there."""
    monkeypatch.chdir("/sys/kernel")
    done = invoke("init", "--yes")
    assert done.exit_code == 1
    assert "/sys/kernel/signoff.toml: Permission denied. Check the rights" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_mail_that_is_looked_for_in_the_wrong_mailbox_is_named(
    invoke: Invoke, settings_file: Path
) -> None:
    """Settings that send mail to a server of their own fill no development mailbox."""
    settings_file.write_text('[email.smtp]\nhost = "smtp.example.com"\nsecurity = "tls"\n')
    where = "[email.smtp] sends mail to smtp.example.com:465."
    assert invoke("mailbox", "list").output == f"No mail. {where}\n"
    for command in (("show", "last"), ("reply", "last", "approve")):
        result = invoke("mailbox", *command)
        assert result.exit_code == 1
        assert result.stderr.endswith(f"yet. {where}\n")


def test_mail_of_the_development_mailbox_is_listed_shown_and_answered(
    invoke: Invoke, settings_file: Path, tmp_path: Path
) -> None:
    """The reply goes from the mail's receiver to [email.inbound]."""
    from cli.test_devmail import CARD
    from signoff.cli.demo.dev_mailbox import DevMailbox, recipients_of, send

    async def one_mail() -> None:
        async with DevMailbox(tmp_path / ".signoff" / "mail") as box:
            await send(CARD, host="127.0.0.1", port=box.port, recipients=["mara@example.com"])

    assert "No mail" in invoke("mailbox", "list").output
    asyncio.run(one_mail())
    assert "mara@example.com" in invoke("mailbox", "list").output
    assert json.loads(invoke("mailbox", "list", "--json").output)[0]["number"] == "1"
    shown = invoke("mailbox", "show", "last").output
    assert "Reply-To: approvals+token@example.com" in shown
    assert "To say yes:  approve" in shown
    assert "To say yes" in json.loads(invoke("mailbox", "show", "1", "--json").output)["text"]
    assert invoke("mailbox", "show", "2").exit_code == 1

    def point_to(port: int) -> None:
        text = settings_file.read_text()
        inbound = "[email.inbound]\nport = "
        settings_file.write_text(text.replace(f"{inbound}0", f"{inbound}{port}"))

    async def answered() -> tuple[str, ...]:
        async with DevMailbox(tmp_path / "inbound") as box:
            point_to(box.port)
            await asyncio.to_thread(invoke, "mailbox", "reply", "last", "approve")
            mail = await box.wait_for(lambda one: True, within=60)
            return (mail["From"], *recipients_of(mail))

    assert asyncio.run(answered()) == ("mara@example.com", "approvals+token@example.com")


def test_each_command_accepts_its_help_examples(tmp_path: Path) -> None:
    """Each command accepts the examples in its help."""
    (tmp_path / "ledger.gz").touch()  # the only file that has to exist
    root = typer.main.get_command(app)
    assert set(EXAMPLES) == COMMANDS
    for words, lines in EXAMPLES.items():
        for line in lines:
            given = shlex.split(line.partition(" > ")[0])
            assert given[: 1 + len(words.split())] == ["signoff", *words.split()]
            command = functools.reduce(
                lambda group, word: group.commands[word],  # type: ignore[attr-defined]
                words.split(),
                root,
            )
            with command.make_context(words, given[1 + len(words.split()) :]):
                pass


@pytest.mark.parametrize(
    "words", ["config show", "mail explain", "policy explain", "slack manifest", "tokens create"]
)
def test_examples_that_need_no_records_succeed(
    words: str, invoke: Invoke, settings_file: Path
) -> None:
    """Their files exist, and every option has a value that the command takes."""
    for name in ("reply.eml", "reply.txt"):
        settings_file.with_name(name).write_text("approve")
    for line in EXAMPLES[words]:
        done = invoke(*shlex.split(line.partition(" > ")[0])[1:])
        assert done.exit_code == 0, line


def test_arguments_are_named_by_one_word_in_capitals() -> None:
    """The help adds the brackets and dots of its own, so a name with its own would have two."""
    for words, command in leaves(typer.main.get_command(app)).items():
        for one in command.params:
            if one.param_type_name == "argument":
                assert re.fullmatch("[A-Z]+", one.metavar or ""), (words, one.name)


def test_help_groups_commands_and_shows_no_value_for_flags(invoke: Invoke) -> None:
    """Each command is in a group; flags have no value; examples come last."""
    shown = invoke("--help").stdout
    places = [shown.index(f" {group} ") for group in GROUPS]
    assert places == sorted(places)
    assert "─ Commands ─" not in shown
    for help_ in (
        shown,
        invoke("run", "--help").stdout,
        invoke("mail", "quarantine", "--help").stdout,
    ):
        assert "<bool>" not in help_
    assert "signoff run finance" in invoke("run", "--help").stdout


def test_the_shell_completes_commands_and_agents(settings_file: Path, invoke: Invoke) -> None:
    """As bash asks for completions, in the folder of the settings."""
    for typed, at, expected in (
        ("signoff approvals re", 2, {"reassign", "reject", "release", "remind", "review"}),
        ("signoff run fin", 2, {"finance", "finance_strict"}),
        ("signoff health g", 2, {"gateway"}),
    ):
        asked = {"_SIGNOFF_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(at)}
        assert set(invoke(env=asked, prog_name="signoff").stdout.split()) == expected


@pytest.mark.parametrize(
    "command",
    [
        ("audit", "verify", "--head", ""),
        ("tokens", "create", "--person", "mara", "--scope", "admin", "--expires", " "),
        ("tokens", "create", "--user", "*", "--scope", "runs:submit", "--app="),
        ("approvals", "list", "--json", "--queue", ""),
    ],
)
def test_an_empty_option_is_refused(invoke: Invoke, command: tuple[str, ...]) -> None:
    """A variable of a script that is not set does not mean the wider default."""
    refused = invoke(*command)
    assert (refused.exit_code, "it is empty" in refused.output) == (2, True)


def test_words_of_another_program_may_be_empty(invoke: Invoke, settings_file: Path) -> None:
    """Words after ``--`` are a command of their own."""
    assert settings_file.exists()
    done = invoke("mcp", "gate", "--name", "bank", "--wait", "soon", "--", "python", "--x", "")
    assert "it is empty" not in done.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("approvals list --limit 0", "for '--limit': it should be at least 1"),
        ("runs list --config x", "No such option: --config: it stands before the command"),
        ("runs list --limit many", "for '--limit': it should be a whole number"),
        ("approvals list --state done", "for '--state': 'done' is not one of 'pending'"),
        ("approvals extend ap_x --as mara --by soon --reason r", "for --by: 'soon' is not a dur"),
        ("archive run --after soon", "for --after: 'soon' is not a duration"),
        ("tokens create --scope runs:read --expires soon", "for --expires: 'soon' is not a dur"),
    ],
)
def test_an_invalid_option_is_named_in_plain_words(
    invoke: Invoke, settings_file: Path, line: str, said: str
) -> None:
    """The error names the option and what it takes, without words of pydantic."""
    result = invoke("--config", str(settings_file), *line.split())
    assert result.exit_code == 2
    assert said in result.output
    as_json = invoke("--config", str(settings_file), *line.split(), "--json")
    assert said in json.loads(as_json.output)["error"]["message"]


def test_an_empty_message_is_refused_in_plain_words(invoke: Invoke, settings_file: Path) -> None:
    """The error has the field and what it should be."""
    result = invoke("--config", str(settings_file), "run", "finance", "", "--user", "nora")
    assert result.exit_code == 1
    assert "message: it should have at least 1 character." in result.output
