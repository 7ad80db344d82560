"""The last release and this one share a ledger: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from promises.plant import Plant, plant
from services import missing
from signoff.broker.ledger import audit
from signoff.broker.submit import submit
from signoff.core.approvals.events import What

LAST_RELEASE = "d388fc710301cd67953403a17a077419583c451a"
ROOT = Path(__file__).parents[2]
ROOMS = ("core", "channels", "worker", "cli")
KINDS = ("worker", "channels", "gateway")


@pytest.fixture(scope="module")
def last_release(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the PYTHONPATH of the last release's code, taken from this repository's history."""
    archive = subprocess.run(
        ["git", "archive", LAST_RELEASE, *ROOMS], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        missing(f"commit {LAST_RELEASE[:7]}", "git fetch --unshallow")
    folder = tmp_path_factory.mktemp("release")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return ":".join(str(folder / room) for room in ROOMS)


async def _start(here: Plant, version: str, names: tuple[str, ...], path: str) -> None:
    """Start processes of the version at this path, and wait until they work."""
    for name in names:
        environment = {**here.environment, "PYTHONPATH": path}
        if name == "gateway":
            environment["SIGNOFF_EMAIL__INBOUND__PORT"] = str(here.inbound)
        await here.supervisor.signoff(f"{name}-{version}", name, env=environment)
    await here.supervisor.ready(*(f"{name}-{version}" for name in names), within=300)


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", ["old", "new"])
async def test_runs_complete_while_two_versions_replace_each_other(
    tmp_path: Path, last_release: str, first: str
) -> None:
    """Every run completes, whichever version asked, routed, took the answer or resumed.

    In the middle, workers and channels of both versions work on the same outboxes. The last release
    refuses records with unknown fields and leaves them alone; this release takes them as soon as it
    runs alone.
    """
    this = ":".join(str(ROOT / room) for room in ROOMS)
    path = {"old": last_release, "new": this}
    then = "new" if first == "old" else "old"
    # The last release reads sessions only from its file, so the setting keeps them there.
    kept = f'[sessions]\nurl = "sqlite:///{tmp_path}/.signoff/sessions.db"\n'
    async with plant(tmp_path, gateway=kept if first == "new" else "") as here:
        await _start(here, first, KINDS, path[first])
        answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
        runs = [await _submit(here, n) for n in range(10)]
        await _start(here, then, KINDS[:2], path[then])
        runs += [await _submit(here, n) for n in range(10, 30)]
        await here.stop(*(one for one in here.supervisor.children if "old" in one))
        if first == "old":
            await _start(here, "new", ("gateway",), this)
        ends = await asyncio.wait_for(here.ends(runs), 900)
        answering.cancel()
        assert [one for one in ends.values() if one.what is not What.COMPLETED] == []
        executed = here.executions()
        assert len(executed) == len(runs)
        assert max(executed.values()) == 1
        assert await here.parts.ledger.store.keys("dead:") == []
        await audit.verify(here.parts.ledger.store)


async def _submit(here: Plant, n: int) -> str:
    user = f"user{n}@example.com"
    message = f"Reimburse me $2500 for trip {n}"
    return (await submit(here.parts.ledger, "finance", message, user=user)).id
