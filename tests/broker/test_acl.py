"""Redis users by role: each process uses its own, and a worker's password gives little access."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import redis
import redis.exceptions
from agentapprovalprotocol import AsyncClient
from mcp import Client, StdioServerParameters

from archiving import seeded
from browser import forms_of
from builders import MARA, paused, people
from channels.aap.conftest import CALL
from channels.push.device import PushService
from channels.slack.office import click_on
from deciding import over
from ports import free_port
from promises.plant import Plant, plant
from promises.slack_office import SlackOffice, slack_office
from redis_users import PREFIX, guarded, url_of
from served import listening
from signoff.broker.api_tokens import create
from signoff.broker.heartbeat import states
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change, entries, key_of
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.runs import claim_runs
from signoff.broker.ledger.store import Store
from signoff.broker.server.acl import (
    CHANNELS,
    FAMILIES,
    GATEWAY,
    OPERATOR,
    WORKER,
)
from signoff.broker.sessions import Name, NewEvent, SessionRecords, States
from signoff.broker.submit import submit
from signoff.channels.inbox.auth.links import make_link
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.settings import page_of
from signoff.cli.config.settings import load_settings
from signoff.core.access.scopes import Scope
from signoff.core.approvals.events import What
from signoff.core.base.errors import LedgerUnavailable

PAGE = "http://127.0.0.1:9"
USE = "/inbox/sign-in/link/use"
PATIENCE = 300
BANK = Path(__file__).parents[1] / "channels" / "mcp" / "bank.py"
FURTHER = f"""
[aap]
enabled = true
[inbox]
url = "{PAGE}"
secret_key = "a key of thirty-two characters.."
[inbox.push]
private_key = "{base64.b64encode(bytes(range(32))).decode()}"
contact = "mailto:ops@example.com"
allow_private = true
"""
LISTED = Path(__file__).parents[2] / "docs" / "reference" / "redis-keys.md"


def test_every_documented_key_matches_an_acl_family() -> None:
    """Redis refuses every user a new kind of key until a role may use it."""
    rows = re.findall(r"^\| `([^`]+)`", LISTED.read_text("utf-8"), re.MULTILINE)
    known = [re.compile(re.escape(one).replace(r"\*", ".*")) for one in FAMILIES]
    names = {re.sub(r"[A-Z…][A-Za-z@/….:]*", "x", row) for row in rows}
    assert len(names) > 60
    assert {name for name in names if not any(one.fullmatch(name) for one in known)} == set()


@pytest.mark.parametrize("role", [WORKER, CHANNELS, GATEWAY])
def test_each_role_can_access_only_its_own_keys(tmp_path: Path, role: str) -> None:
    """Each kind of key is read and written; Redis refuses those that the role does not use."""
    with guarded(tmp_path / "redis") as url, redis.Redis.from_url(url_of(url, role)) as client:
        for family in FAMILIES:
            # Names a stage that is not a worker's, unless the family names one.
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
    """Redis checks the keys that a script computes too, not only its arguments."""
    with guarded(tmp_path / "redis") as url, redis.Redis.from_url(url_of(url, WORKER)) as worker:
        for name in ("factor:mara", "login:x", "passkey:x", "grant:x", "link:x"):
            for call in (f"'GET', KEYS[1] .. '{name}'", f"'SET', KEYS[1] .. '{name}', 'x'"):
                sha = worker.script_load(f"return redis.call({call})")
                with pytest.raises(redis.exceptions.ResponseError, match=r"(can't|to) access"):
                    worker.evalsha(sha, 1, PREFIX)


Action = Callable[[Ledger], Awaitable[object]]


async def _commit(ledger: Ledger, root: redis.Redis) -> Action:
    run, (approval,) = await paused(ledger)
    await ledger.commit(Change().send_raw("deliver.email", "kept", {"n": 1}))
    (item,) = (await ledger.claim("deliver.email")).items
    root.set("{signoff}:lease:x", "mine")
    after, events = approval.reject(MARA, people(), channel="email", now=approval.opened_at)
    change = Change().put(run.answered(approval.id), was=run).put(after, was=approval)
    change.note(events).send_raw("deliver.slack", "new", {}).ack(item).put_raw("other", "{}")
    change.fence("lease:x", "mine", give_back=True)
    return lambda one: one.commit(change.copy())


async def _claim(ledger: Ledger, root: redis.Redis) -> Action:
    await ledger.commit(Change().send_raw("route", "a", {}).send_raw("route", "b", {}))
    root.hdel("{signoff}:items:route", "b")
    return lambda one: one.claim("route")


async def _claim_runs(ledger: Ledger, root: redis.Redis) -> Action:
    run, _ = await paused(ledger)
    for name in ("run", "lost"):
        await ledger.commit(Change().send_raw("resume.finance", name, {"run": run.id}))
    root.hdel("{signoff}:items:resume.finance", "lost")
    return lambda one: claim_runs(one, "resume.finance", limit=9, lease=9)


SESSION = Name("finance", "riley", "s")
STATE = States(*({"value": "1"} for _ in range(3)))


async def _session_made(ledger: Ledger, root: redis.Redis) -> Action:
    del ledger, root
    return lambda one: SessionRecords(one.store).make(SESSION, STATE, at=1.0)


async def _session_opened(ledger: Ledger, root: redis.Redis) -> Action:
    del ledger, root
    return lambda one: SessionRecords(one.store).read_or_make(SESSION, at=1.0)


async def _event_appended(ledger: Ledger, root: redis.Redis) -> Action:
    del root
    found = await SessionRecords(ledger.store).read_or_make(SESSION, at=1.0)
    event = NewEvent("e", "{}", 2.0, STATE)
    return lambda one: SessionRecords(one.store).append(SESSION, found.seen, event)


async def _session_dropped(ledger: Ledger, root: redis.Redis) -> Action:
    await (await _event_appended(ledger, root))(ledger)
    return lambda one: SessionRecords(one.store).drop(SESSION)


async def _pruned(ledger: Ledger, root: redis.Redis) -> Action:
    run, (approval,) = await paused(ledger)
    async with ledger.store.translated_client() as client:
        texts = {
            one: await client.get("{signoff}:" + one) for one in (key_of(run), key_of(approval))
        }
        trail = await client.hget("{signoff}:trails", run.id)
    for key in ("items", "outbox"):
        for one in root.scan_iter("{signoff}:" + key + ":*"):
            root.delete(one)
    removal = {
        "run": run.id,
        "trail": trail,
        "records": [[key, " ".join(str(text).split(" ", 2)[:2])] for key, text in texts.items()],
        "drop": sorted(entry[:2] for one in (run, approval) for entry in entries(one)),
    }
    return lambda one: one.store.script("prune", json.dumps([removal]))


async def _indexed(ledger: Ledger, root: redis.Redis) -> Action:
    del ledger, root
    return lambda one: one.store.script("search_append", "", "{}", 7, "ids", "a", "b", "c")


async def _counted(ledger: Ledger, root: redis.Redis) -> Action:
    del ledger, root
    return lambda one: one.store.script("count", 60_000, 1, "rate:smtp", "rate:from:x")


async def _plain(ledger: Ledger, root: redis.Redis) -> Action:
    del root
    await paused(ledger)
    _, *flat = await ledger.store.script("plain", 0, 0, 0, 9)
    packed = [
        part
        for key, text in zip(flat[::2], flat[1::2], strict=True)
        for part in (key, " ".join((*text.split(" ", 2)[:2], "")), "~")
    ]
    return lambda one: one.store.script("pack", *packed)


async def _entries_packed(ledger: Ledger, root: redis.Redis) -> Action:
    del root
    await paused(ledger)
    rows = [row async for row in audit.entries(ledger.store)][:-1]
    ids = [entry_id for entry_id, _, _ in rows]
    return lambda one: one.store.script("pack_audit", 0, "~", rows[-1][2], *ids)


async def _entries_repacked(ledger: Ledger, root: redis.Redis) -> Action:
    await (await _entries_packed(ledger, root))(ledger)
    return lambda one: one.store.script("repack_audit", "~", "~~", 1)


SCRIPTS: dict[str, Callable[[Ledger, redis.Redis], Awaitable[Action]]] = {
    "commit": _commit,
    "claim": _claim,
    "claim_runs": _claim_runs,
    "session_make": _session_made,
    "session_read": _session_opened,
    "session_append": _event_appended,
    "session_drop": _session_dropped,
    "prune": _pruned,
    "search_append": _indexed,
    "count": _counted,
    "pack": _plain,
    "pack_audit": _entries_packed,
    "repack_audit": _entries_repacked,
}
WRITES = {
    *("append", "decrby", "del", "hdel", "hset", "incrby", "pexpire", "rpush", "sadd", "set"),
    *("xadd", "xdel", "xtrim", "zadd", "zrem"),
}


@pytest.mark.parametrize("script", SCRIPTS)
async def test_a_script_that_may_not_write_all_writes_nothing(tmp_path: Path, script: str) -> None:
    """Redis checks each command of a script, and keeps what the script has written before."""
    source = files("signoff.broker").joinpath("lua", f"{script}.lua").read_text("utf-8")
    commands = {one.lower() for one in re.findall(r"(?:call|each)\('([A-Z]+)'", source)}
    assert commands & WRITES
    with guarded(tmp_path / "redis") as url, redis.Redis.from_url(url) as root:

        def allow(*rules: str) -> None:
            root.execute_command("ACL", "SETUSER", "one", "reset", "on", ">one", "+@all", *rules)

        allow("allkeys")
        ledger = Ledger(Store.open(url.replace("root:root", "one:one")))
        act = await SCRIPTS[script](ledger, root)
        before = _everything(root)
        with redis.Redis.from_url(url.replace("/0", "/1")) as second:
            copied = _restored(second, before)
            elsewhere = Ledger(Store.open(url.replace("/0", "/1")))
            await act(elsewhere)
            await elsewhere.close()
            done = _everything(second)
        written = {key for key in {*copied, *done} if copied.get(key) != done.get(key)}
        assert len(written) > 1
        every = {"{signoff}:", *(_pattern(key) for key in {*before, *done})}
        if script == "claim_runs":
            every.add("{signoff}:lease:")
        lacking: list[tuple[str, ...]] = [("allkeys", f"-{one}") for one in sorted(commands)]
        for name in sorted(map(_pattern, written)):
            # Leases are one family of keys.
            lost = {one for one in every if one == name or (":lease:" in name and ":lease:" in one)}
            lacking.append(("%R~*", *(f"~{one}" for one in sorted(every - lost))))
        for rules in lacking:
            allow(*rules)
            refusal = ""
            try:
                await act(ledger)
            except LedgerUnavailable as error:
                refusal = str(error)
            if refusal:
                assert "signoff redis acl" in refusal
                assert _everything(root) == before, rules
            else:
                # Not all that it can read is needed here.
                assert rules[-1].removeprefix("-") in commands - WRITES, rules
                root.flushdb()
                before = _restored(root, before)
        allow("allkeys")
        await act(ledger)
        assert _everything(root) != before
        await ledger.close()


def _restored(client: redis.Redis, dumps: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
    """Restore keys, and return their contents; the members of a set may have another order."""
    for key, dump in dumps.items():
        client.restore(key, 0, dump)
    return _everything(client)


def _pattern(key: bytes) -> str:
    return key.decode().replace("\0", "?")


def _everything(client: redis.Redis) -> dict[bytes, bytes]:
    """Return the content of each key, byte for byte."""
    return {key: client.dump(key) or b"" for key in client.scan_iter(count=10_000)}


def _allowed(client: redis.Redis, command: str, key: str) -> bool:
    try:
        client.execute_command(command, key)  # type: ignore[no-untyped-call]
    except redis.exceptions.NoPermissionError:
        return False
    return True


@pytest.mark.soak
@pytest.mark.promise
async def test_every_process_works_under_its_own_user(tmp_path: Path) -> None:
    """From the submission to the end of a run, Redis refuses nothing to any process."""
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
async def test_programs_and_browsers_work_under_its_own_user(tmp_path: Path) -> None:
    """Redis refuses nothing for the Agent Approval Protocol, an MCP gate and notifications."""
    service = PushService(free_port())
    with guarded(tmp_path / "redis") as url:
        operator = url_of(url, OPERATOR)
        async with (
            listening(service.app, service.port, "127.0.0.1"),
            plant(tmp_path, redis=operator, gateway=FURTHER) as here,
        ):
            for role in ("channels", "gateway"):
                here.environment["SIGNOFF_REDIS__URL"] = url_of(url, role)
                await here.start(role)
            port = here.supervisor.children["gateway"].report["port"]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
                device = service.device()
                await _notifications_on(here, http, device.form)

                def notified() -> set[str]:
                    return {str(told["tag"]) for _, told in service.to(device)}

                await _asked_by_a_program(here, http, notified)
                await _asked_by_a_gate(here, notified)
        with redis.Redis.from_url(url, decode_responses=True) as root:
            refused = {(one["username"], one["object"]) for one in root.acl_log()}
            assert refused == set()


async def _notifications_on(here: Plant, http: httpx.AsyncClient, form: dict[str, str]) -> None:
    """Sign Mara in by a link, and turn notifications on in her browser."""
    link, _ = await make_link(here.parts.ledger, "mara", how=How.LOCAL, to="/inbox/")
    usual = {"Host": urlsplit(PAGE).netloc, "Origin": PAGE, "Sec-Fetch-Site": "same-origin"}
    data = forms_of(await http.get(link, headers=usual))[USE]
    signed_in = await http.post(USE, data=data, headers=usual)
    usual["Cookie"] = signed_in.headers["set-cookie"].partition(";")[0]
    page = await http.get("/inbox/notifications", headers=usual)
    data = forms_of(page)["/inbox/notifications/on"] | form
    on = await http.post("/inbox/notifications/on", data=data, headers=usual)
    assert on.status_code == 303, on.text


async def _approved(here: Plant, app: str, notified: Callable[[], set[str]]) -> None:
    """Wait until Mara's browser gets the notification of an app's request, and approve it."""
    ledger = here.parts.ledger

    async def told() -> bool:
        return any(one.id in notified() for one in await ledger.pending() if one.origin.app == app)

    await _until(told)
    (found,) = [one for one in await ledger.pending() if one.origin.app == app]
    await over(here.parts.decisions).approve(found.id, MARA, channel="inbox")


async def _asked_by_a_program(
    here: Plant, http: httpx.AsyncClient, notified: Callable[[], set[str]]
) -> None:
    """Provision an instance, let it ask for an approval, and delete it."""
    scopes = frozenset({Scope.INSTANCES_MANAGE})
    token, _ = await create(here.parts.ledger, scopes=scopes, by="test", users=("riley",))
    keys = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
    made = await http.post("/aap/v1/instances", json={"instance_name": "codex"}, headers=keys)
    assert made.status_code == 201, made.text
    token = made.json()["credential"]["token"]
    async with aclosing(AsyncClient(f"{http.base_url}/aap", token)) as client:
        request = await client.create(CALL, "k1")
        await _approved(here, "codex", notified)
        async with asyncio.timeout(PATIENCE):
            while (await client.get(request.id)).status == "pending":  # noqa: ASYNC110 -- no signal announces it
                await asyncio.sleep(0.1)
    gone = await http.delete(f"/aap/v1/instances/{made.json()['instance']['id']}", headers=keys)
    assert gone.status_code in {200, 204}, gone.text


async def _asked_by_a_gate(here: Plant, notified: Callable[[], set[str]]) -> None:
    """Call a tool through a gate that a client starts with the gateway's Redis user."""
    own = {
        "SIGNOFF_CONFIG": str(here.folder / "signoff.toml"),
        "JOURNAL": str(here.folder / "journal"),
    }
    env = {**os.environ, **here.environment, **own}
    shutil.copy(BANK, here.folder / "bank.py")
    words = ["mcp", "gate", "--name", "bank", "--user", "riley@example.com", "--"]
    args = ["-m", "signoff.cli", *words, sys.executable, "bank.py"]
    server = StdioServerParameters(command=sys.executable, args=args, env=env, cwd=here.folder)
    async with Client(server) as client:
        calling = asyncio.create_task(client.call_tool("refund", {"amount": 5}))
        await _approved(here, "mcp", notified)
        result = await calling
        assert not result.is_error


@pytest.mark.soak
@pytest.mark.promise
async def test_every_door_works_under_its_own_user(tmp_path: Path) -> None:
    """Redis refuses nothing for Slack, the page, REST, a freeze, a reload and the archive."""
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
            port = here.supervisor.children["gateway"].report["port"]
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
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
    """Freeze a tool, approve its call in Slack, and unfreeze it: the run continues."""
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
    """Call the reading methods of the API, and set and end an absence."""
    for what in ("approvals", "runs", "queues", "figures", "grants", "people", "audit", "freezes"):
        assert (await http.get(f"/api/v1/{what}", headers=rest)).status_code == 200, what
    away = await http.post("/api/v1/people/mara/away", json={"to": "2999-01-01"}, headers=rest)
    assert away.status_code == 200, away.text
    assert (await http.post("/api/v1/people/mara/back", json={}, headers=rest)).is_success
    assert (await http.get("/metrics")).status_code in {200, 401, 404}


async def _reloaded(here: Plant) -> None:
    """Add a person to the settings, which every process reloads."""
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
    """Let a manager approve a run by mail."""
    answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
    run = await submit(
        here.parts.ledger, "finance", "Reimburse me $2500 for trip 1", user="riley@example.com"
    )
    ends = await here.ends([run.id])
    answering.cancel()
    assert ends[run.id].what is What.COMPLETED
