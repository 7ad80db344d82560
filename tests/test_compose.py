"""compose.yaml and the Dockerfile: each command, setting, health check and path in them is real."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperCommand, TyperGroup

ROOT = Path(__file__).resolve().parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "build" in service}
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def command(words: list[str]) -> TyperCommand:
    """Walk the words of a command line down the tree of commands, options left out."""
    from signoff.cli.main import app

    here: object = typer.main.get_command(app)
    for word in words:
        if word.startswith("-") or not isinstance(here, TyperGroup):
            break
        here = here.commands[word]
    assert isinstance(here, TyperCommand), f"`signoff {' '.join(words)}` is not a whole command"
    return here


def command_lines() -> list[tuple[str, list[str]]]:
    """Return every `signoff` command line, by service: what it runs, and its health check."""
    lines = [(name, service["command"]) for name, service in OURS.items()]
    tests = [(name, service["healthcheck"]["test"]) for name, service in OURS.items()]
    return lines + [(name, test[1:]) for name, test in tests if test[:2] == ["CMD", "signoff"]]


def test_the_services_of_the_design_are_there() -> None:
    """The set is whole: the ledger, the sessions, and the four processes."""
    assert set(SERVICES) == {"redis", "postgres", "worker", "channels", "gateway", "mailbox"}
    assert set(OURS) == {"worker", "channels", "gateway", "mailbox"}


@pytest.mark.parametrize(("service", "line"), command_lines())
def test_each_command_is_a_real_command_with_real_options(service: str, line: list[str]) -> None:
    """What a container runs is a command of the `signoff` program that is tested outside of it."""
    assert line[0] == "signoff", service
    known = {flag for one in command(line[1:]).params for flag in (*one.opts, *one.secondary_opts)}
    assert {word for word in line if word.startswith("--")} <= known


@pytest.mark.parametrize("service", list(OURS))
def test_each_setting_in_the_environment_is_a_real_setting(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of a service, laid over the mounted file, makes valid settings."""
    from signoff.cli.config.check import require
    from signoff.cli.config.settings import load_settings

    for name, value in OURS[service]["environment"].items():
        if name.startswith("SIGNOFF_"):
            monkeypatch.setenv(name, re.sub(r"\$\{\w+:\?[^}]*\}", "pw", value))
    kind = OURS[service]["command"][1]
    settings = load_settings(ROOT / "examples" / "signoff.toml", kind)
    require(settings, kind)
    assert settings.redis.url == "redis://redis:6379/0"
    sessions = "postgresql+asyncpg://signoff:pw@postgres:5432/signoff"
    assert (settings.sessions.url == sessions) == (kind == "worker")


@pytest.mark.parametrize("service", list(OURS))
def test_no_service_is_given_a_secret_of_another(service: str) -> None:
    """Those that a process would drop are not handed to it in the first place."""
    from signoff.cli.composition.credentials import own_environment

    given = OURS[service]["environment"]
    secrets = {name for name, value in given.items() if "PASSWORD" in value or "KEY" in name}
    kind = OURS[service]["command"][1]
    assert secrets <= set(own_environment(kind, given))
    assert secrets == ({"SIGNOFF_SESSIONS__URL", "GOOGLE_API_KEY"} if kind == "worker" else set())


def test_every_service_says_whether_it_is_well() -> None:
    """A health check is everywhere, and what depends on a service waits until it is healthy."""
    for name, service in SERVICES.items():
        assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}, name
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, (name, needed)
            assert needed in SERVICES


def test_the_ledger_keeps_what_it_acknowledges() -> None:
    """Redis writes every commit to disk before it answers, on a volume, and never evicts."""
    line = " ".join(SERVICES["redis"]["command"])
    assert "--appendonly yes" in line
    assert "--appendfsync always" in line
    assert "--maxmemory-policy noeviction" in line
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]


def test_there_is_no_secret_in_the_files() -> None:
    """What looks like a secret comes from the environment of the user who starts it."""
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if any(word in key for word in ("PASSWORD", "SECRET", "TOKEN", "KEY")):
                assert re.fullmatch(r"\$\{\w+(:[-?][^}]*)?\}", value), (name, key)
            assert not re.search(r"://[^/\s:]+:(?!\$\{)[^/\s@]+@", str(value)), (name, key)
    assert not re.search(r"(?i)password|secret|token", DOCKERFILE.replace("holds no secret", ""))


def test_each_mount_exists_in_the_tree_or_is_a_named_volume() -> None:
    """No container is given a path that a clone does not have."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            if source.startswith("."):
                assert (ROOT / source).exists(), (name, source)
                assert volume.endswith(":ro"), (name, volume)
            else:
                assert source in COMPOSE["volumes"], (name, source)
            assert target.startswith("/")


def test_our_containers_have_no_rights_they_do_not_need() -> None:
    """Our services run as nobody in particular, on a file system that cannot be written to."""
    for name, service in OURS.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == "unless-stopped", name
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)


def test_the_gateway_listens_where_its_ports_are_published() -> None:
    """The published ports are those that the settings name, and reach this machine only."""
    gateway = SERVICES["gateway"]
    settings = gateway["environment"]
    ports = {
        settings["SIGNOFF_EMAIL__INBOUND__PORT"],
        settings["SIGNOFF_GATEWAY__PORT"],
    }
    assert {one.split(":")[2] for one in gateway["ports"]} == ports
    assert all(one.startswith("127.0.0.1:") for one in gateway["ports"])
    assert SERVICES["mailbox"]["command"][-1] == settings["SIGNOFF_EMAIL__SMTP__PORT"]


def test_the_image_is_made_of_what_is_in_the_tree() -> None:
    """Each source of a COPY exists, gets past .dockerignore, and every root of the wheel is in."""
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = set()
    for line in DOCKERFILE.splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            copied.update(line.split()[1:-1])
    for source in copied:
        assert (ROOT / source).exists(), source
    assert copied == allowed
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert {
        package.partition("/")[0] for package in wheel["targets"]["wheel"]["packages"]
    } <= copied


def test_the_image_has_a_python_that_the_project_takes() -> None:
    """Both stages are of one Python, slim, and new enough."""
    bases = re.findall(r"^FROM python:(\d+)\.(\d+)-slim", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert (3, 11) <= tuple(map(int, bases[0])) <= (3, 13)
