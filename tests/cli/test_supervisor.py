"""The supervisor: real processes, which all end with it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

import psutil
import pytest

from signoff.cli.composition.supervisor import ChildDied, NotReady, Supervisor, ready_event

READY = "print('2026 [info] ready  kind=test port=7', flush=True)"
WAIT = "import signal; signal.pause()"


def python(*statements: str) -> list[str]:
    """Return the command of a small Python program."""
    return [sys.executable, "-c", "; ".join(statements)]


async def test_children_start_report_ready_and_stop() -> None:
    """The ready event is found in the output, with its fields."""
    heard: list[tuple[str, str]] = []
    async with Supervisor(echo=lambda name, line: heard.append((name, line))) as supervisor:
        child = await supervisor.start("one", python("print('hello')", READY, WAIT))
        await supervisor.ready(within=300)
        assert child.report == {"kind": "test", "port": "7"}
        assert heard[0] == ("one", "hello")
        pid = child.pid
    assert child.code == -signal.SIGTERM
    assert not psutil.pid_exists(pid)
    assert supervisor.children == {}


async def test_the_environment_is_added_to() -> None:
    """A child gets its variables in addition to the existing ones."""
    async with Supervisor() as supervisor:
        child = await supervisor.start(
            "one",
            python("import os", "print(os.environ['MINE'], 'PATH' in os.environ)"),
            env={"MINE": "yes"},
        )
        await child.ended.wait()
    assert list(child.tail) == ["yes True"]


async def test_crashed_child_is_reported_with_its_last_lines() -> None:
    """The supervisor has its name, exit code and output; the other children are stopped."""
    async with Supervisor() as supervisor:
        other = await supervisor.start("one", python(READY, WAIT))
        await supervisor.ready(within=300)
        await supervisor.start("two", python("print('the last word')", "raise SystemExit(3)"))
        with pytest.raises(ChildDied, match=r"two ended with code 3(.|\n)*last word") as caught:
            await supervisor.watch()
    assert caught.value.code == 3
    assert other.code == -signal.SIGTERM


async def test_child_that_dies_before_ready_ends_the_wait() -> None:
    """The wait does not last a minute for a dead process."""
    async with Supervisor() as supervisor:
        await supervisor.start("one", python("import os", "os.kill(os.getpid(), 9)"))
        with pytest.raises(ChildDied, match="signal 9"):
            await supervisor.ready(within=300)


async def test_child_that_never_gets_ready_is_reported() -> None:
    """The message has its name and its last lines."""
    async with Supervisor() as supervisor:
        await supervisor.start("one", python("print('thinking', flush=True)", WAIT))
        with pytest.raises(NotReady, match="one: not ready after"):
            await supervisor.ready(within=0.3)


async def until_gone(pid: int) -> None:
    """Wait until a killed process has ended, which this process is not the parent of."""
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:  # noqa: ASYNC110 -- the process gives no signal
            await asyncio.sleep(0.01)


async def test_a_child_that_does_not_stop_is_killed() -> None:
    """It has one grace period; then the kernel ends it and its child processes."""
    stubborn = python(
        "import signal, subprocess, sys",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "grandchild = subprocess.Popen(['sleep', '1000'])",
        "print('2026 ready kind=test pid=%d' % grandchild.pid, flush=True)",
        "signal.pause()",
    )
    async with Supervisor(grace=0.1) as supervisor:
        child = await supervisor.start("one", stubborn)
        await supervisor.ready(within=300)
        grandchild = int(child.report["pid"])
    assert child.code == -signal.SIGKILL
    await until_gone(grandchild)


async def test_single_child_can_be_stopped_and_restarted() -> None:
    """It can be started again under the same name."""
    async with Supervisor() as supervisor:
        first = await supervisor.start("one", python(READY, WAIT))
        other = await supervisor.start("two", python(READY, WAIT))
        await supervisor.ready(within=300)
        await supervisor.stop("one")
        assert first.code is not None
        assert other.code is None
        again = await supervisor.start("one", python(READY, WAIT))
        await supervisor.ready("one", within=300)
        assert again.pid != first.pid


async def test_long_lines_do_not_stop_the_reading() -> None:
    """A child may write a megabyte without a line break."""
    async with Supervisor() as supervisor:
        await supervisor.start("one", python("print('x' * 3_000_000)", READY, WAIT))
        await supervisor.ready(within=300)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
async def test_children_die_with_a_supervisor_that_is_killed() -> None:
    """`kill -9` of the parent leaves no process behind."""
    program = f"""
import asyncio, sys
from signoff.cli.composition.supervisor import Supervisor
async def main():
    async with Supervisor() as supervisor:
        child = await supervisor.start("one", [sys.executable, "-c", {f"{READY}; {WAIT}"!r}])
        await supervisor.ready()
        print(child.pid, flush=True)
        await supervisor.watch()
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    child = psutil.Process(int(await parent.stdout.readline()))
    os.kill(parent.pid, signal.SIGKILL)
    await parent.wait()
    await asyncio.to_thread(psutil.wait_procs, [child], timeout=300)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ('{"event": "ready", "kind": "worker"}', {"event": "ready", "kind": "worker"}),
        ('{"event": "not ready", "kind": "worker"}', None),
        ("{broken", None),
        ("2026 [\x1b[32minfo\x1b[0m] \x1b[1mready\x1b[0m \x1b[36mkind\x1b[0m=x", {"kind": "x"}),
        ("already kind=x", None),
        ("ready", None),
    ],
)
def test_the_ready_event_is_recognised(line: str, fields: dict[str, str] | None) -> None:
    """In both formats of the log, with or without colours."""
    assert ready_event(line) == fields
