"""Users of Redis by role: each works under its own, and a worker's password opens little."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import redis
import redis.exceptions

from archiving import seeded
from channels.slack.office import click_on
from promises.plant import Plant, plant
from promises.slack_office import SlackOffice, slack_office
from services import plain_redis
from signoff.broker.api_tokens import create
from signoff.broker.heartbeat import states
from signoff.broker.server.acl import (
    CHANNELS,
    FAMILIES,
    GATEWAY,
    OPERATOR,
    ROLES,
    WORKER,
    users,
)
from signoff.broker.submit import submit
from signoff.channels.inbox.auth.links import make_link
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.settings import page_of
from signoff.cli.config.settings import load_settings
from signoff.core.access.scopes import Scope
from signoff.core.approvals.events import What
from visitor import forms_of

PASSWORDS = {role: f"password-of-{role}" for role in ROLES}
PREFIX = "{signoff}:"
PAGE = "http://127.0.0.1:9"
USE = "/inbox/sign-in/link/use"
PATIENCE = 120
LISTED = Path(__file__).parents[2] / "docs" / "reference" / "redis-keys.md"


@contextmanager
def guarded(folder: Path) -> Iterator[str]:
    """Start a Redis with these users, and yield its URL with a place for the login."""
    folder.mkdir(exist_ok=True)
    lines = [*users(PREFIX, PASSWORDS), "user root on >root allkeys allchannels +@all"]
    (folder / "users.acl").write_text("\n".join(lines) + "\n")
    with plain_redis(
        folder, login="root:root", aclfile=f'"{folder}/users.acl"', appendonly="yes"
    ) as url:
        yield url


def url_of(url: str, role: str) -> str:
    """Return the URL with which a role connects."""
    return url.replace("root:root", f"signoff-{role}:{PASSWORDS[role]}")


def test_every_key_of_the_reference_belongs_to_somebody() -> None:
    """A new kind of key is refused to all until it is said who uses it."""
    rows = re.findall(r"^\| `([^`]+)`", LISTED.read_text("utf-8"), re.MULTILINE)
    known = [re.compile(re.escape(one).replace(r"\*", ".*")) for one in FAMILIES]
    names = {re.sub(r"[A-Z…][A-Za-z@/….:]*", "x", row) for row in rows}
    assert len(names) > 60
    assert {name for name in names if not any(one.fullmatch(name) for one in known)} == set()


@pytest.mark.parametrize("role", [WORKER, CHANNELS, GATEWAY])
def test_a_password_opens_only_what_its_processes_use(tmp_path: Path, role: str) -> None:
    """Tried on each kind of key, read and written: what is not the role's is refused."""
    with guarded(tmp_path / "redis") as url, redis.Redis.from_url(url_of(url, role)) as client:
        for family in FAMILIES:
            # Of a stage that is not a worker's, unless the family names one.
            name = family.replace("*", "intake")
            letters = "".join(FAMILIES[one] for one in FAMILIES if fnmatchcase(name, one))
            reads, writes = role[0] in letters.lower(), role[0].upper() in letters
            key = PREFIX + name
            assert (_allowed(client, "TYPE", key), _allowed(client, "DEL", key)) == (
                reads,
                writes,
            ), family
        for line in ("KEYS *", "FLUSHALL", "CONFIG GET dir", "EVAL 1 0", "ACL LIST", "SAVE"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*line.split())
        assert not _allowed(client, "TYPE", "somebody-else")


def test_a_script_opens_no_more_for_a_worker(tmp_path: Path) -> None:
    """Redis checks the keys that a script makes up, not only those that it is given."""
    with guarded(tmp_path / "redis") as url, redis.Redis.from_url(url_of(url, WORKER)) as worker:
        for name in ("factor:mara", "login:x", "passkey:x", "grant:x", "link:x"):
            for call in (f"'GET', KEYS[1] .. '{name}'", f"'SET', KEYS[1] .. '{name}', 'x'"):
                sha = worker.script_load(f"return redis.call({call})")
                with pytest.raises(redis.exceptions.ResponseError, match="can't access"):
                    worker.evalsha(sha, 1, PREFIX)


def _allowed(client: redis.Redis, command: str, key: str) -> bool:
    try:
        client.execute_command(command, key)  # type: ignore[no-untyped-call]
    except redis.exceptions.NoPermissionError:
        return False
    return True


@pytest.mark.soak
@pytest.mark.promise
async def test_every_process_works_under_its_own_user(tmp_path: Path) -> None:
    """From the submission to the last word; Redis has refused nobody anything."""
    with guarded(tmp_path / "redis") as url:
        async with plant(tmp_path, redis=url_of(url, OPERATOR)) as here:
            for role in ("worker", "channels", "gateway"):
                here.environment["SIGNOFF_REDIS__URL"] = url_of(url, role)
                await here.start(role)
            await _answered(here)
        with redis.Redis.from_url(url, decode_responses=True) as root:
            refused = {(one["username"], one["object"]) for one in root.acl_log()}
            assert refused == set()


@pytest.mark.soak
@pytest.mark.promise
async def test_every_door_works_under_its_own_user(tmp_path: Path) -> None:
    """Slack, the page, REST, a freeze, a reload and the archive: Redis has refused nobody."""
    with guarded(tmp_path / "redis") as url:
        further = f"""
[retention]
after = "1m"
[inbox]
url = "{PAGE}"
secret_key = "a key of thirty-two characters.."
"""
        operator = url_of(url, OPERATOR)
        async with slack_office(tmp_path, redis=operator, further=further) as office:
            here, ledger = office.plant, office.plant.parts.ledger
            old = await seeded(ledger, 3, ago=timedelta(minutes=5))
            for role in ("worker", "channels", "gateway"):
                here.environment["SIGNOFF_REDIS__URL"] = url_of(url, role)
                await here.start(role)
            token, _ = await create(ledger, scopes=frozenset({Scope.ADMIN}), by="test")
            port = here.supervisor.children["gateway"].said["port"]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as http:
                rest = {"Authorization": f"Bearer {token}"}
                await _frozen_and_pressed(office, http, rest)
                await _decided_on_the_page(office, http)
                await _looked_up(http, rest)
            await _reloaded(here)

            async def archived() -> bool:
                return not {one.id for one in await ledger.recent_runs()} & {*old}

            await _until(archived)
        with redis.Redis.from_url(url, decode_responses=True) as root:
            refused = {(one["username"], one["object"]) for one in root.acl_log()}
            assert refused == set()


async def _frozen_and_pressed(
    office: SlackOffice, http: httpx.AsyncClient, rest: dict[str, str]
) -> None:
    """Freeze a tool, approve its call in Slack, and thaw it: the run goes on."""
    body = {"tool": "reimburse", "why": "the bank called"}
    frozen = await http.post("/api/v1/freezes", json=body, headers=rest)
    assert frozen.status_code == 200, frozen.text
    run, _, card = await office.asks("finance", "Reimburse me $2500 for a trip")
    assert (await office.post(click_on(card, "approve")))[0] == 200
    ledger = office.plant.parts.ledger

    async def held() -> bool:
        return (await ledger.run(run)).held == "reimburse"

    await _until(held)
    thaw = f"/api/v1/freezes/{frozen.json()['id']}/thaw"
    assert (await http.post(thaw, json={}, headers=rest)).status_code == 200
    assert (await office.plant.ends([run]))[run].what is What.COMPLETED


async def _decided_on_the_page(office: SlackOffice, http: httpx.AsyncClient) -> None:
    """Sign in by a link, and approve a call."""
    ledger = office.plant.parts.ledger
    run, approval, _ = await office.asks("finance", "Reimburse me $2600 for a trip")
    link, _ = await make_link(ledger, "mara", how=How.LOCAL, to="/inbox/")
    usual = {"Host": urlsplit(PAGE).netloc, "Origin": PAGE, "Sec-Fetch-Site": "same-origin"}
    form = forms_of(await http.get(link, headers=usual))[USE]
    signed_in = await http.post(USE, data=form, headers=usual)
    assert signed_in.status_code == 303, signed_in.text
    usual["Cookie"] = signed_in.headers["set-cookie"].partition(";")[0]
    path = page_of(approval)
    form = forms_of(await http.get(path, headers=usual))[f"{path}/approve"]
    assert (await http.post(f"{path}/approve", data=form, headers=usual)).status_code == 303
    assert (await office.plant.ends([run]))[run].what is What.COMPLETED


async def _looked_up(http: httpx.AsyncClient, rest: dict[str, str]) -> None:
    """Read what the API has, and set and end an absence."""
    for what in ("approvals", "runs", "queues", "figures", "grants", "people", "audit", "freezes"):
        assert (await http.get(f"/api/v1/{what}", headers=rest)).status_code == 200, what
    away = await http.post("/api/v1/people/mara/away", json={"to": "2999-01-01"}, headers=rest)
    assert away.status_code == 200, away.text
    assert (await http.post("/api/v1/people/mara/back", json={}, headers=rest)).is_success
    assert (await http.get("/metrics")).status_code in {200, 401, 404}


async def _reloaded(here: Plant) -> None:
    """Add somebody to the settings: every process reads them again."""
    settings = here.folder / "signoff.toml"
    settings.write_text(
        settings.read_text() + '[[people]]\nid = "cleo"\nemail = "cleo@example.com"\n'
    )
    for child in here.supervisor.children.values():
        child.signal(signal.SIGHUP)
    wanted = load_settings(settings).rules_digest

    async def reloaded() -> bool:
        found = await states(here.parts.ledger)
        return {one.get("rules") for one in found.values()} == {wanted}

    await _until(reloaded)


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await done():  # noqa: ASYNC110 -- in other processes
            await asyncio.sleep(0.1)


async def _answered(here: Plant) -> None:
    """Let a run be approved by mail."""
    answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
    run = await submit(
        here.parts.ledger, "finance", "Reimburse me $2500 for trip 1", user="riley@example.com"
    )
    ends = await here.ends([run.id])
    answering.cancel()
    assert ends[run.id].what is What.COMPLETED
