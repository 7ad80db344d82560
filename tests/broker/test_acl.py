"""Users of Redis by role: each works under its own, and a worker's password opens little."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import redis.exceptions

from promises.plant import Plant, plant
from services import plain_redis
from signoff.broker.server.acl import FAMILIES, OPERATOR, ROLES, WORKER, users
from signoff.broker.submit import submit
from signoff.core.approvals.events import What

PASSWORDS = {role: f"password-of-{role}" for role in ROLES}
PREFIX = "{signoff}:"
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


def test_a_workers_password_opens_only_what_runs_agents(tmp_path: Path) -> None:
    """Tried on each kind of key, read and written: what is not a worker's is refused."""
    with guarded(tmp_path / "redis") as url, redis.Redis.from_url(url_of(url, WORKER)) as worker:
        for family, letters in FAMILIES.items():
            # Of a stage that is not a worker's, unless the family names one.
            key = PREFIX + family.replace("*", "intake")
            found = (_allowed(worker, "TYPE", key), _allowed(worker, "DEL", key))
            assert found == ("w" in letters.lower(), "W" in letters), family
        for line in ("KEYS *", "FLUSHALL", "CONFIG GET dir", "EVAL 1 0", "ACL LIST", "SAVE"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                worker.execute_command(*line.split())
        assert not _allowed(worker, "TYPE", "somebody-else")
        script = "return redis.call('GET', KEYS[1] .. 'factor:mara')"
        sha = worker.script_load(script)
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


async def _answered(here: Plant) -> None:
    """Let a run be approved by mail."""
    answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
    run = await submit(
        here.parts.ledger, "finance", "Reimburse me $2500 for trip 1", user="riley@example.com"
    )
    ends = await here.ends([run.id])
    answering.cancel()
    assert ends[run.id].what is What.COMPLETED
