"""The README and the tutorial, pasted line by line on a clean machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
TUTORIAL = (ROOT / "docs/tutorial/first-approval.md").read_text("utf-8")

UP = """\
if [ -n "${{up:-}}" ]; then kill -INT $up; wait $up || true; fi
rm -f {log}
signoff up > {log} 2>&1 & up=$!
grep -q -m1 "Everything is ready" <(tail -n +1 -F --pid=$up {log} 2>/dev/null)
"""
"""The effect of Ctrl-C in the first terminal and a second start.

The old output is deleted first, because it says "Everything is ready" too until the shell in the
background has emptied it.
"""

AT_LAST = """\
until signoff runs list --json | grep -q '"state": "{state}"'; do kill -0 $up; done
"""


def pasted(text: str, log: Path, *, first: str, end: str) -> str:
    """Return a script of a page's commands between two headings, in their order."""
    text = text.partition(f"## {first}\n")[2].partition(f"## {end}\n")[0]
    found = re.findall(r"(?:`([\w/.]+)`:\n\n)?```(sh|python)\n(.*?)```", text, re.DOTALL)
    assert found
    lines = ["set -euo pipefail", "trap '[ -z \"${up:-}\" ] || { kill $up; wait $up; }' EXIT"]
    for file, language, code in found:
        if language == "python":
            assert file, "the page says where the code is saved"
            lines.append(f"mkdir -p {Path(file).parent}\ncat > {file} <<'END'\n{code}END")
        else:
            lines += [
                UP.format(log=log) if one == "signoff up" else one for one in code.splitlines()
            ]
    # A person types more slowly than the agent works.
    return "\n".join([*lines, AT_LAST.format(state="completed")])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return an empty home folder."""
    home = tmp_path / "home"
    home.mkdir()
    return home


def environment(home: Path) -> dict[str, str]:
    """Return a newcomer's environment, with a pip that needs no network.

    The packages that are installed for the tests replace the package index.
    """
    site = sysconfig.get_path("purelib")
    return {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "PYTHONPATH": site,
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # off: pip negates this setting
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to paste into")
def test_everything_runs_as_pasted(tmp_path: Path, home: Path) -> None:
    """The package builds and installs; init, up, a run, an answer and a custom agent work."""
    clone = tmp_path / "clone"
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, names):
        if not name.startswith("tests/") and (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    done = subprocess.run(
        [
            "bash",
            "-c",
            pasted(README, tmp_path / "up.log", first="Install it", end="Go on").replace(
                "python3 ", f"{sys.executable} "
            ),
        ],
        cwd=clone,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    log = tmp_path / "up.log"
    seen = done.stdout + done.stderr + (log.read_text() if log.exists() else "")
    assert done.returncode == 0, seen
    assert "3 cases: 3 passed" in done.stdout, seen
    assert "Subject: Approval needed" in done.stdout, seen
    assert re.search(r"^http://localhost:\d+/inbox/sign-in/link/", done.stdout, re.MULTILINE), seen
    assert "Page:   http://localhost:" in log.read_text()
    assert (home / "approvals/.signoff").stat().st_mode & 0o77 == 0


@pytest.mark.soak
@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash to paste into")
def test_the_tutorial_runs_as_pasted(tmp_path: Path, home: Path) -> None:
    """After the demo: settings, a run, an answer by mail, and the result."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    log = tmp_path / "up.log"
    script = pasted(
        TUTORIAL, log, first="2. Start the processes yourself", end="6. Try to break it"
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    seen = done.stdout + done.stderr + (log.read_text() if log.exists() else "")
    assert done.returncode == 0, seen
    assert "are good" in done.stdout, seen
    assert "Waiting for mara" in done.stderr, seen
    assert "Subject: Approval needed" in done.stdout, seen
    assert "unbroken" in done.stdout, seen


def test_readme_has_a_short_introduction_and_two_commands() -> None:
    """The README has three lines of introduction, two commands and no package index."""
    intro = README.partition("# Signoff\n\n")[2].partition("\n\n")[0]
    assert len(intro.splitlines()) == 3
    tried = README.partition("## Try it\n")[2].partition("## Install it\n")[0]
    assert re.findall(r"```sh\n(.*?)```", tried, re.DOTALL) == ["make demo\n", "make test\n"]
    assert "pip install signoff" not in README
