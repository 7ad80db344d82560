"""`signoff redis acl`: the file for Redis, and a URL for each process."""

from __future__ import annotations

import os
from pathlib import Path

import redis

from cli.conftest import Invoke
from services import plain_redis
from signoff.broker.server.acl import ROLES


def test_each_written_url_works_with_its_user(
    settings_file: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """A server with the file accepts each URL; existing files do not change."""
    out = tmp_path / "secrets"
    line = ["--config", str(settings_file), "redis", "acl", "--out", str(out)]
    assert invoke(*line, "--url", "redis://somebody:old.one@127.0.0.1:1/2").exit_code == 0
    users = (out / "users.acl").read_text()
    root = tmp_path / "root.acl"
    root.write_text(users + "user root on >root allkeys allchannels +@all\n")
    (tmp_path / "data").mkdir()
    with plain_redis(tmp_path / "data", login="root:root", aclfile=f'"{root}"') as url:
        port = url.rpartition(":")[2].partition("/")[0]
        for role in ROLES:
            text = (out / f"redis-{role}.url").read_text().strip()
            assert text.endswith("@127.0.0.1:1/2")
            assert "old.one" not in text  # generated passwords have no dot
            with redis.Redis.from_url(text.replace(":1/2", f":{port}/0")) as client:
                assert client.client_info()["user"] == f"signoff-{role}"
    again = invoke(*line)
    assert (again.exit_code, "exists already" in again.output) == (2, True)
    assert (out / "users.acl").read_text() == users
    no_folder = invoke(*line[:-1], str(settings_file))
    assert (no_folder.exit_code, "is not a folder" in no_folder.output) == (2, True)


def test_the_users_of_containers_can_read_the_files(
    settings_file: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """This holds for every umask, which the program sets strictly for its other files."""
    out = tmp_path / "secrets"
    before = os.umask(0o077)
    try:
        assert (
            invoke("--config", str(settings_file), "redis", "acl", "--out", str(out)).exit_code == 0
        )
    finally:
        os.umask(before)
    assert {one.stat().st_mode & 0o777 for one in out.iterdir()} == {0o644}
    assert out.stat().st_mode & 0o777 == 0o700


def test_command_without_a_folder_prints_the_file(settings_file: Path, invoke: Invoke) -> None:
    """It has a user for each role, with the prefix of the settings, and none without a password."""
    printed = invoke("--config", str(settings_file), "redis", "acl").stdout
    assert printed.startswith("user default off")
    assert [line.split()[1] for line in printed.splitlines()[1:]] == [f"signoff-{r}" for r in ROLES]
    assert "nopass" not in printed
