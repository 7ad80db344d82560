"""The demo, as a person at a terminal sees it."""

from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "signoff.cli", "demo"]


def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment without keys and settings; its temporary files go into the folder."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH") if name in os.environ}
    return kept | {"TMPDIR": str(tmp_path), "COLUMNS": "200"}


@contextmanager
def at_a_terminal(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Start the demo at its own terminal; yield it and the test's end of the terminal."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *DEMO],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=ROOT,
        env=environment(tmp_path) | {"TERM": "dumb"},
    )
    os.close(terminal)
    try:
        yield process, controller
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):
            os.close(controller)


def read_until(controller: int, wanted: str) -> None:
    """Read the demo's output until it contains this text."""
    screen = ""
    while wanted not in screen:
        screen += os.read(controller, 1).decode(errors="replace")


def left_behind(tmp_path: Path) -> list[str]:
    """Return the demo's remaining processes and files."""
    mine = str(tmp_path)
    processes = []
    for process in psutil.process_iter():
        try:
            # Redis overwrites its environment, but its working directory still names the demo.
            own = [*process.cmdline(), *process.environ().values(), process.cwd()]
        except (psutil.Error, OSError):
            continue
        if process.pid != os.getpid() and any(mine in text for text in own):
            processes.append(" ".join(process.cmdline()))
    return processes + [str(path) for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("arguments", "expected", "unexpected"),
    [
        pytest.param(
            ["--reply", "approve"],
            ['"confirmed": true', '"status": "reimbursed"', "I have reimbursed 2,500", "completed"],
            ["rejected"],
            id="approve",
        ),
        pytest.param(
            ["--reply", "reject over budget"],
            ['"confirmed": false', "was not made: over budget", "department's books are empty"],
            ["I have reimbursed"],
            id="reject",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["--reply", "banana"],
            ["Nothing is decided", 'I could not read "banana"', "The approval is still pending"],
            ["I have reimbursed", "5 · The timeline"],
            id="banana",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["--app", "time_off", "--reply", "approve 3"],
            ['"approved_days": 3', "You may take 3 days off"],
            ["rejected"],
            id="time-off",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            ["--app", "finance", "--message", "Reimburse me $20 for lunch", "--reply", "approve"],
            ["No approval was needed"],
            ["3 · The manager's reply"],
            id="small",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_demo_plays_each_ending_and_cleans_up(
    tmp_path: Path, arguments: list[str], expected: list[str], unexpected: list[str]
) -> None:
    """Real processes and real mail run each ending; no process and no file remains."""
    done = subprocess.run(
        [*DEMO, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(tmp_path),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in expected:
        assert text in done.stdout
    for text in unexpected:
        assert text not in done.stdout
    assert left_behind(tmp_path) == []


def test_demo_without_a_terminal_or_reply_shows_the_needed_command(tmp_path: Path) -> None:
    """Nobody can be asked, so the error shows a command that works."""
    done = subprocess.run(
        DEMO,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=environment(tmp_path),
        check=False,
    )
    assert done.returncode == 2
    assert "make demo REPLY=" in done.stderr


@pytest.mark.soak
@pytest.mark.parametrize("ending", ["interrupt", "answers"])
def test_demo_at_a_terminal_asks_and_ends_cleanly_on_ctrl_c(tmp_path: Path, ending: str) -> None:
    """A wrong answer is asked again, a right one goes through, and Ctrl-C leaves nothing behind."""
    with at_a_terminal(tmp_path) as (process, controller):
        read_until(controller, "reject over budget: ")
        if ending == "interrupt":
            process.send_signal(signal.SIGINT)
        else:
            os.write(controller, b"banana\n")
            read_until(controller, "reject over budget: ")
            os.write(controller, b"approve\n")
            read_until(controller, "I have reimbursed")
        # Linux reports an error after the other end of a terminal has closed.
        with contextlib.suppress(OSError):
            while os.read(controller, 65536):
                pass
        assert process.wait() == (130 if ending == "interrupt" else 0)
    assert left_behind(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="`setsid` comes with Linux.")
def test_closed_terminal_ends_the_demo_and_cleans_up(tmp_path: Path) -> None:
    """The hang-up stops Redis and the other processes, and removes the files."""
    with at_a_terminal(tmp_path) as (process, controller):
        read_until(controller, "reject over budget: ")
        os.close(controller)
        process.wait()
    assert left_behind(tmp_path) == []


@pytest.mark.soak
def test_demo_serves_the_page_until_ctrl_c(tmp_path: Path) -> None:
    """The link opens the page; Ctrl-C ends the demo without an error and without leftovers."""
    with subprocess.Popen(
        [*DEMO, "--reply", "approve", "--open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env=environment(tmp_path),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            link = next(line.strip() for line in lines if "/inbox/sign-in/" in line)
            page = httpx.get(link, follow_redirects=True, timeout=60)
            assert page.status_code == 200
            assert "Sign in" in page.text
            process.send_signal(signal.SIGINT)
            rest = process.stdout.read()
            assert process.wait() == 0, rest
            assert "Traceback" not in rest
        finally:
            process.kill()
    assert left_behind(tmp_path) == []
