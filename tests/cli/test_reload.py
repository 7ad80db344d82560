"""People and policies are reloaded in a running process: all of them, or none."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from builders import asked_approval, present
from cli.conftest import Invoke
from signoff.broker.directory.absences import People
from signoff.broker.heartbeat import beat, states
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import follow
from signoff.broker.monitoring.exposition import Metrics
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.submit import submit
from signoff.broker.timers.departures import Departures
from signoff.broker.work import AnnounceMilestone
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.process import announcing, beat_forever, renewing
from signoff.cli.composition.reload import CurrentSettings, Reloader
from signoff.cli.composition.runtimes import open_runtime
from signoff.cli.composition.supervisor import Child, Supervisor
from signoff.cli.config.settings import Settings, load_settings
from signoff.cli.doctor.diagnosis import diagnose
from signoff.cli.gateway import assemble
from signoff.core.approvals.events import What
from signoff.core.approvals.milestones import Milestone
from signoff.core.directory.hours import Absence
from signoff.worker.adk.guard.guard import GuardPlugin

AGENTS = Path(__file__).parents[2] / "examples" / "agents"
PERSON = '[[people]]\nid = "{0}"\nemail = "{0}@example.com"\n'
POLICY = '[[policies]]\nname = "{0}"\nask = ["{1}"]\n'


class File:
    """A settings file that people edit."""

    def __init__(self, path: Path, redis: str, prefix: str) -> None:
        self.path = path
        self._head = (
            f'[redis]\nurl = "{redis}"\nprefix = "{prefix}"\n[agents]\nfolder = "{AGENTS}"\n'
            "[gateway]\nport = 0\n[email.inbound]\nport = 0\n[email.smtp]\nport = 1\n"
            '[log]\nformat = "json"\n[default]\nask = ["mara"]\n'
        )

    def write(self, *parts: str, head: str = "") -> Path:
        """Write it, with Mara and these parts."""
        self.path.write_text(self._head + head + PERSON.format("mara") + "".join(parts))
        return self.path


@pytest.fixture
def file(tmp_path: Path, own_redis: EmbeddedRedis, prefix: str) -> File:
    """Return a file for a separate Redis, with Mara alone."""
    made = File(tmp_path / "signoff.toml", own_redis.url, prefix)
    made.write()
    return made


@pytest.fixture
async def parts(file: File) -> AsyncIterator[Parts]:
    """Return the parts of a process."""
    made = build(load_settings(file.path))
    yield made
    await made.ledger.close()


async def test_reloaded_policies_apply_to_the_worker_guard(
    file: File, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guard knows the policies of the settings, and the new ones after a reload."""
    guards: list[GuardPlugin] = []

    class Seen(GuardPlugin):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            guards.append(self)

    monkeypatch.setattr("signoff.worker.adk.guard.guard.GuardPlugin", Seen)
    _, renew, close = open_runtime(parts, ["finance"])
    try:
        (guard,) = guards
        assert not guard.holding.ever
        file.write(POLICY.format("all", "mara") + 'hold = "siblings"\n')
        renew(load_settings(file.path))
        assert guard.holding.ever
    finally:
        await close()


async def test_reload_updates_people_for_all_holders_or_none(file: File, parts: Parts) -> None:
    """Every holder of the directory gets the change with the absences; otherwise nobody does."""
    seen: list[Settings] = []
    reloader = Reloader(parts.settings, "channels", renewing(parts), seen.append)
    elsewhere = People(parts.ledger, parts.decisions.directory)
    mara = present(parts.decisions.directory.get("mara"))
    day = (await parts.ledger.now()).date()
    await elsewhere.leave(mara, Absence(start=day, end=day), by="mara", more={})
    before = reloader.state
    assert await reloader.reload()
    assert seen == []
    file.write(PERSON.format("tom"), POLICY.format("all", "tom"))
    assert await reloader.reload()
    assert [one.name for one in seen[0].policies] == ["all"]
    await parts.decisions.roster.refresh()
    file.write(PERSON.format("tom"), PERSON.format("ann"))
    assert await reloader.reload()
    assert parts.decisions.directory.get("ann") is not None
    for directory in (parts.decisions.directory, await elsewhere.directory()):
        assert present(directory.find("tom@example.com")).id == "tom"
        assert present(directory.get("mara")).away
    assert reloader.state != before
    assert reloader.settings.redis == parts.settings.redis


async def test_a_gateway_hears_how_people_are_reached(file: File, parts: Parts) -> None:
    """Until it hears that of a channels process with the same people, it knows no channels."""
    announcer, commit = announcing(parts), Change()
    work = AnnounceMilestone(approval="ap_1", milestone=Milestone.ENDED)
    gateway = Reloader(parts.settings, "gateway", renewing(parts))
    channels = Reloader(load_settings(file.path), "channels")

    async def addresses() -> bool:
        heard = await beat(parts.ledger, "gateway", "host/1", json.dumps(gateway.state))
        announcer.listen(heard.channels, gateway.digest)
        return announcer(commit, work, asked_approval())

    assert not await addresses()
    await beat(parts.ledger, "channels", "host/2", json.dumps(channels.state))
    assert await addresses()
    file.write(PERSON.format("tom"))
    assert await channels.reload()
    await beat(parts.ledger, "channels", "host/2", json.dumps(channels.state))
    assert not await addresses()
    assert await gateway.reload()
    assert not announcer(commit, work, asked_approval())
    assert await addresses()


async def test_a_channels_process_hears_itself(parts: Parts) -> None:
    """After its first heartbeat, it addresses messages about decisions in its own commits."""
    announcer, reloader = announcing(parts), Reloader(parts.settings, "channels")
    assert parts.ledger.announcer is announcer
    work = AnnounceMilestone(approval="ap_1", milestone=Milestone.ENDED)
    beating = asyncio.create_task(beat_forever(parts, "channels", reloader, announcer))
    try:
        async with asyncio.timeout(30):
            while not announcer(Change(), work, asked_approval()):  # noqa: ASYNC110 -- beats
                await asyncio.sleep(0.01)
    finally:
        beating.cancel()


async def test_metrics_have_the_queues_of_a_reload(file: File, parts: Parts) -> None:
    """A queue of the reloaded settings is measured even if it is empty."""
    reloader = Reloader(parts.settings, "gateway", renewing(parts))
    app, _ = assemble(parts, Metrics("gateway"), current=lambda: reloader.settings)
    file.write('[[queues]]\nname = "claims"\nmembers = ["mara"]\n')
    assert await reloader.reload()
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        assert 'queue="claims"' in (await client.get("/metrics")).text


async def test_departure_is_noticed_after_a_reload(file: File, parts: Parts) -> None:
    """The process uses the people of its last reload, as if it had just started."""
    file.write(PERSON.format("tom"))
    reloader = Reloader(parts.settings, "channels", renewing(parts))
    departures = Departures(parts.decisions.roster)
    await departures.once()
    first = await parts.ledger.raw("directory")
    await reloader.reload()
    await departures.once()
    second = await parts.ledger.raw("directory")
    assert present(first)[0] + 1 == present(second)[0]
    await departures.once()
    assert await parts.ledger.raw("directory") == second


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("[[people]]\nid = ", "TOML"),
        (PERSON.format("tom") + POLICY.format("all", "nobody"), "nobody"),
        ('[[people]]\nid = "tom"\nemail = "tom@example.com"\nshoe = 1\n', "shoe"),
        ('[[schedules]]\nname = "duty"\nics = "gone.ics"\n', "gone.ics"),
    ],
)
async def test_invalid_file_changes_nothing_until_corrected(
    file: File, parts: Parts, wrong: str, why: str
) -> None:
    """Its correct entries do not count either, the error is logged, and a correct file ends it."""
    seen: list[Settings] = []
    reloader = Reloader(parts.settings, "channels", seen.append)
    rules = reloader.state["rules"]
    file.write(PERSON.format("good"), wrong)
    assert not await reloader.reload()
    state = reloader.state
    assert (state["rules"], seen) == (rules, [])
    assert why in state["problem"]
    assert why in reloader.problem
    file.path.unlink()
    assert not await reloader.reload()
    file.write(PERSON.format("good"))
    assert await reloader.reload()
    assert (reloader.problem, len(seen)) == ("", 1)


async def test_an_empty_file_changes_nothing(file: File, parts: Parts) -> None:
    """A full disk leaves one: then nobody would be asked, and pending requests would escalate."""
    seen: list[Settings] = []
    reloader = Reloader(parts.settings, "channels", seen.append)
    current = CurrentSettings(parts.settings)
    file.path.write_text("")
    assert not await reloader.reload()
    assert "nobody is in it any more" in reloader.problem
    assert seen == []
    assert current.read().people == parts.settings.people


async def test_a_changed_file_is_noticed(file: File, parts: Parts, tmp_path: Path) -> None:
    """This includes files that the settings name, such as a CSV file of people."""
    (tmp_path / "people.csv").write_text("id,email\nann,ann@example.com\n")
    file.write(head='[directory]\ncsv = "people.csv"\n')
    took = asyncio.Event()
    reloader = Reloader(load_settings(file.path), "channels", lambda _: took.set())
    reloader.every = 0.01
    await reloader.start()
    await asyncio.sleep(0)
    (tmp_path / "people.csv").write_text("id,email\nann,ann@example.com\nbob,bob@example.com\n")
    await took.wait()
    assert {one.id for one in reloader.settings.people} == {"mara", "ann", "bob"}
    await reloader.stop()


@pytest.mark.parametrize("asked", [False, True])
async def test_a_change_while_a_process_starts_is_noticed(file: File, asked: bool) -> None:
    """The file may change, and the signal may come, between reading the file and watching it."""
    took = asyncio.Event()
    reloader = Reloader(load_settings(file.path), "channels", lambda _: took.set())
    file.write(PERSON.format("tom"))
    if asked:
        reloader.ask()
    else:
        reloader.every = 0.01
    await reloader.start()
    await took.wait()
    assert {one.id for one in reloader.settings.people} == {"mara", "tom"}
    await reloader.stop()


async def said(child: Child, event: str) -> dict[str, Any]:
    """Wait until a process logs this event, and return it."""
    while True:
        for line in child.tail:
            found: dict[str, Any] = json.loads(line)
            if found["event"] == event:
                return found
        await asyncio.sleep(0.02)


@pytest.mark.soak
async def test_processes_read_again_on_a_signal(file: File, parts: Parts) -> None:
    """A later request goes to the new policy's person; each process reports a bad file."""
    async with Supervisor() as supervisor:
        for kind in ("channels", "worker", "gateway"):
            await supervisor.signoff(kind, "--config", str(file.path), kind)
        await supervisor.ready(within=300)
        children = list(supervisor.children.values())
        file.write(PERSON.format("tom"), POLICY.format("all", "tom"))
        for child in children:
            child.signal(signal.SIGHUP)
            assert (await said(child, "config.reloaded"))["policies"] == 1
        run = await submit(parts.ledger, "finance", "Reimburse me $2500", user="riley@example.com")
        async for event in follow(parts.ledger.store, subject=run.id):
            if event.what is What.ASKED:
                break
        (approval,) = await parts.ledger.pending()
        assert [one.person for one in approval.asked] == ["tom"]

        file.write(PERSON.format("tom"), "shoe = 1\n")
        for child in children:
            child.signal(signal.SIGHUP)
            assert "shoe" in (await said(child, "config.not_reloaded"))["problem"]
        gateway = supervisor.children["gateway"]
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.get(f"http://127.0.0.1:{gateway.report['port']}/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
        assert "shoe" in answer.json()["checks"]["settings"]
        while not all(  # noqa: ASYNC110 -- a heartbeat gives no signal
            one.get("problem") for one in (await states(parts.ledger)).values()
        ):
            await asyncio.sleep(0.05)
        findings = await diagnose(parts.settings)
        told = [one.text for one in findings if one.about == "settings" and one.level == "broken"]
        assert len(told) == len(children)
        assert all("stay in force" in text for text in told)


def test_diff_lists_the_changes_of_a_reload(file: File, invoke: Invoke, tmp_path: Path) -> None:
    """Each entry, those that need a restart, and no output if nothing changes."""
    file.write(PERSON.format("tom"), POLICY.format("all", "tom"))
    other = tmp_path / "other.toml"
    text = file.path.read_text().replace("tom@", "thomas@").replace("port = 1\n", "port = 2\n")
    other.write_text(text.replace('name = "all"', 'name = "every"') + PERSON.format("ann"))
    found = invoke("--config", str(file.path), "config", "diff", str(other), "--json")
    assert found.exit_code == 1
    answer = json.loads(found.stdout)
    assert [(one["section"], one["name"], one["change"]) for one in answer["changes"]] == [
        ("people", "tom", "changed"),
        ("people", "ann", "added"),
        ("policies", "all", "removed"),
        ("policies", "every", "added"),
    ]
    assert (answer["changes"][0]["fields"], answer["restart"]) == (["email"], ["email"])
    other.write_text(file.path.read_text() + '[directory]\nunknown_requesters = "refuse"\n')
    found = invoke("--config", str(file.path), "config", "diff", str(other))
    assert found.exit_code == 1
    assert "directory: directory changed (unknown_requesters)" in found.stdout
    same = invoke("--config", str(file.path), "config", "diff", str(file.path))
    assert (same.exit_code, "0 pending" in same.stdout) == (0, True)


def test_running_command_keeps_the_last_valid_settings(file: File) -> None:
    """A changed file is reloaded; while it has errors, nothing changes."""
    current = CurrentSettings(load_settings(file.path))
    assert current.read().queues == ()
    file.write('[[queues]]\nname = "treasury"\nmembers = ["mara"]\n')
    assert [one.name for one in current.read().queues] == ["treasury"]
    file.path.write_text("[queues\n")
    assert [one.name for one in current.read().queues] == ["treasury"]
