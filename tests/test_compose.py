"""The commands, settings, secrets, health checks and paths of compose.yaml and Dockerfile exist."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from composed import (
    FOLDER,
    OVERLAYS,
    command,
    composed,
    kind_of,
    line_of,
    make_secrets,
    ours,
    secret_files,
    settings_of,
)
from signoff.cli.config.settings import Settings
from test_docs import generator

ROOT = Path(__file__).resolve().parents[1]
COMPOSE = composed(*OVERLAYS)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ours(COMPOSE)
DOCKERFILE = (ROOT / "Dockerfile").read_text()
OPTIONAL = {"smtp-password", "imap-password", "slack-bot-token", "slack-app-token"}
"""Secrets that other services issue, and that only some installations have."""


@pytest.fixture(scope="module")
def secrets(made_secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of secrets from the script, plus those that other services issue."""
    folder = tmp_path_factory.mktemp("compose") / "secrets"
    shutil.copytree(made_secrets, folder)
    for name in OPTIONAL:
        (folder / name).write_text("xapp-1\n" if "app" in name else "xoxb-1\n")
    return folder


def command_lines() -> list[tuple[str, list[str]]]:
    """Return every `signoff` command line by service: its command and its health check."""
    lines = [(name, line_of(service)) for name, service in OURS.items()]
    tests = [(name, one.get("healthcheck", {}).get("test", [])) for name, one in OURS.items()]
    return lines + [(name, test[1:]) for name, test in tests if test[:2] == ["CMD", "signoff"]]


def test_the_services_of_the_design_are_there() -> None:
    """The set is complete: the ledger, the sessions, the processes, the CLI, monitoring."""
    own = {"worker", "channels", "gateway", "operator"}
    beside = {"redis", "postgres", "prometheus", "grafana"}
    assert set(composed()["services"]) == own | beside
    assert set(OURS) == own | {"mailbox"}
    profiles = {name: one["profiles"] for name, one in SERVICES.items() if "profiles" in one}
    assert profiles == {
        "operator": ["operator"],
        "prometheus": ["monitoring"],
        "grafana": ["monitoring"],
    }


@pytest.mark.parametrize(("service", "line"), command_lines())
def test_each_command_is_a_real_command_with_real_options(service: str, line: list[str]) -> None:
    """Each container runs a command of the `signoff` program, which has its own tests."""
    assert line[0] == "signoff", service
    known = {flag for one in command(line[1:]).params for flag in (*one.opts, *one.secondary_opts)}
    assert {word for word in line if word.startswith("--")} <= known


def loaded(
    compose: dict[str, Any], service: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> Settings:
    """Return the settings of a service: its environment and secrets over the mounted file."""
    given = compose["services"][service]
    files = secret_files(compose, given, secrets)
    return settings_of(kind_of(given), given["environment"], files, monkeypatch)


@pytest.mark.parametrize("service", list(ours(composed())))
def test_service_environments_make_valid_settings(
    service: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are valid over the mounted file, and each Redis user is that of the process."""
    settings = loaded(composed(), service, secrets, monkeypatch)
    assert re.fullmatch(rf"redis://signoff-{service}:[\w-]+@redis:6379/0", settings.redis.url)
    database = (
        (secrets / "postgres-password")
        .read_text()
        .join(("postgresql+asyncpg://signoff:", "@postgres:5432/signoff"))
    )
    assert (settings.sessions.url == database) == (service in {"worker", "operator"})
    assert bool(settings.receipts.private_key.get_secret_value()) == (service != "worker")
    assert settings.receipts.public_keys
    assert settings.metrics.enabled


@pytest.mark.parametrize("service", list(OURS))
def test_development_mailbox_makes_valid_settings(
    service: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts mail without encryption; the operator checks the server of the channels."""
    settings = loaded(composed("mailbox"), service, secrets, monkeypatch)
    sends = service in {"channels", "operator"}
    assert settings.email.smtp.host == ("mailbox" if sends else "127.0.0.1")


@pytest.mark.parametrize("service", list(ours(composed())))
def test_compose_extension_files_make_valid_settings(
    service: str, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files together are valid, and each service gets only the secrets that it needs."""
    compose = composed("mail", "slack", "push", "adk-api")
    passed = {
        "SIGNOFF_EMAIL__SMTP__HOST": "smtp.example.com",
        "SIGNOFF_EMAIL__SMTP__SECURITY": "starttls",
        "SIGNOFF_EMAIL__SMTP__USERNAME": "approvals@example.com",
        "SIGNOFF_EMAIL__IMAP__HOST": "imap.example.com",
        "SIGNOFF_EMAIL__IMAP__USERNAME": "approvals@example.com",
    }
    for name in passed.keys() & compose["services"][service]["environment"].keys():
        monkeypatch.setenv(name, passed[name])
    monkeypatch.setenv("SIGNOFF_INBOX__URL", "https://approvals.example.com")
    monkeypatch.setenv("SIGNOFF_INBOX__PUSH__CONTACT", "mailto:ops@example.com")
    settings = loaded(compose, service, secrets, monkeypatch)
    assert (settings.inbox.notifies is not None) == (service in {"channels", "operator"})
    slack = settings.slack.bot_token.get_secret_value()
    assert slack == ("xoxb-1" if service != "worker" else "")
    assert (settings.email.smtp.host == "smtp.example.com") == (service in {"channels", "operator"})
    assert (settings.email.imap is not None) == (service in {"gateway", "operator"})
    assert settings.gateway.adk == (service == "gateway")


@pytest.mark.parametrize("service", list(OURS))
def test_no_service_is_given_a_secret_of_another(service: str) -> None:
    """A service does not get a secret that its process would drop."""
    from signoff.cli.composition.credentials import own_environment

    given = {name: value or "" for name, value in OURS[service]["environment"].items()}
    assert set(given) <= set(own_environment(kind_of(OURS[service]), given))


@pytest.mark.parametrize("service", list(SERVICES))
def test_services_use_exactly_the_secrets_that_they_get(service: str) -> None:
    """Only necessary secrets are mounted, and each variable names an existing file."""
    used = set(re.findall(r"/run/secrets/([\w-]+)", json.dumps(SERVICES[service])))
    if service == "prometheus":
        used = set(re.findall(r"/run/secrets/([\w-]+)", (FOLDER / "prometheus.yml").read_text()))
    assert used == set(SERVICES[service].get("secrets", ()))


def test_secrets_script_creates_every_secret_once(secrets: Path) -> None:
    """Every mounted file is there, and a second run does not change any of them."""
    wanted = {Path(one["file"]).name for one in COMPOSE["secrets"].values()}
    before = {one.name: one.read_bytes() for one in secrets.iterdir()}
    assert wanted == set(before)
    assert all(before.values())
    make_secrets(secrets)
    assert {one.name: one.read_bytes() for one in secrets.iterdir()} == before
    assert secrets.stat().st_mode & 0o777 == 0o700


def test_each_variable_that_is_passed_on_is_a_setting() -> None:
    """A variable without a value comes from the shell or .env; a wrong name would go unnoticed."""
    services = ours(composed()).values()
    settings = {f"SIGNOFF_{one.upper().replace('.', '__')}" for one in generator().settings_keys()}
    passed = {
        name for one in services for name, value in one["environment"].items() if value is None
    }
    assert passed - settings == {"GOOGLE_API_KEY"}
    assert {"SIGNOFF_GATEWAY__API", "SIGNOFF_EMAIL__SMTP__HOST"} <= passed


def test_every_service_has_a_health_check() -> None:
    """Each service has a health check, and its dependents wait until it is healthy."""
    for name, service in SERVICES.items():
        if name != "operator":
            assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}, name
        for needed, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"}, (name, needed)
            assert needed in SERVICES


def test_redis_persists_each_commit_and_never_evicts() -> None:
    """Redis writes each commit to disk on a volume before it answers, and never evicts."""
    line = " ".join(SERVICES["redis"]["command"])
    assert "--appendonly yes" in line
    assert "--appendfsync always" in line
    assert "--maxmemory 2gb --maxmemory-policy noeviction" in line
    assert SERVICES["redis"]["volumes"] == ["redis:/data"]


def test_only_processes_reach_redis_and_postgresql() -> None:
    """Redis and PostgreSQL have an internal network, no internet access and no published port."""
    inside = {name for name, one in SERVICES.items() if "data" in one.get("networks", ())}
    assert inside == {"redis", "postgres", "worker", "channels", "gateway", "operator"}
    assert COMPOSE["networks"]["data"] == {"internal": True}
    assert all(SERVICES[one]["networks"] == ["data"] for one in ("redis", "postgres"))


def test_every_image_is_named_by_its_digest() -> None:
    """A tag can come to mean another image; a digest cannot."""
    pinned = re.compile(r"[\w/]+:[\w.-]+@sha256:[0-9a-f]{64}")
    images = {one["image"] for one in SERVICES.values()} - {"signoff:local"}
    images |= set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE))
    assert len(images) == 5
    assert {one for one in images if not pinned.fullmatch(one)} == set()


def test_compose_files_contain_no_secret() -> None:
    """Values that look like a secret are paths of files."""
    for name, service in SERVICES.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY", key) and key != "GOOGLE_API_KEY":
                assert key.endswith("_FILE"), (name, key)
                assert value.startswith("/run/secrets/"), (name, key)
            assert not re.search(r"://[^/\s:]+:[^/\s@]+@", str(value)), (name, key)
    assert not re.search(r"(?i)password|secret|token", DOCKERFILE.replace("holds no secret", ""))


def test_each_mount_exists_in_the_tree_or_is_a_named_volume() -> None:
    """Containers do not mount paths that a clone does not have."""
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            if source.startswith("."):
                assert (ROOT / source).exists(), (name, source)
                assert volume.endswith(":ro"), (name, volume)
            else:
                assert source in COMPOSE["volumes"], (name, source)
            assert target.startswith("/")


def test_containers_run_unprivileged_and_read_only() -> None:
    """Signoff's services, Redis and PostgreSQL have a read-only file system and no capability."""
    stores = {name: SERVICES[name] for name in ("redis", "postgres")}
    assert {name: one["user"] for name, one in stores.items()} == {
        "redis": "redis",
        "postgres": "postgres",
    }
    for name, service in {**OURS, **stores}.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["restart"] == ("no" if name == "operator" else "unless-stopped"), name
        assert service["logging"] == {"driver": "local"}, name
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)


def test_each_volume_of_ours_is_a_folder_that_the_image_gives_to_its_user() -> None:
    """A volume at any other path would belong to root and be read-only for the service."""
    made = re.search(r"install --directory (.*?)(?=^\w)", DOCKERFILE, re.MULTILINE | re.DOTALL)
    assert made
    for name, service in OURS.items():
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            if not source.startswith("."):
                assert target in made[1].split(), (name, volume)


def test_the_gateway_listens_where_its_ports_are_published() -> None:
    """The published ports are those of the settings, and only this machine can reach them."""
    gateway = SERVICES["gateway"]
    settings = gateway["environment"]
    ports = {
        settings["SIGNOFF_EMAIL__INBOUND__PORT"],
        settings["SIGNOFF_GATEWAY__PORT"],
    }
    assert {one.split(":")[2] for one in gateway["ports"]} == ports
    published = [port for one in SERVICES.values() for port in one.get("ports", ())]
    assert all(one.startswith("127.0.0.1:") for one in published)
    sending = SERVICES["channels"]["environment"]["SIGNOFF_EMAIL__SMTP__PORT"]
    assert SERVICES["mailbox"]["command"][-1] == sending


def test_prometheus_scrapes_each_service_on_its_port() -> None:
    """Each kind of process is found by the name of its service."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    ports = {one["names"][0]: one["port"] for one in job["dns_sd_configs"]}
    metrics = Settings().metrics
    assert ports == {
        "gateway": int(SERVICES["gateway"]["environment"]["SIGNOFF_GATEWAY__PORT"]),
        "worker": metrics.worker_port,
        "channels": metrics.channels_port,
    }
    mounted = {Path(one.split(":")[1]) for one in SERVICES["prometheus"]["volumes"]}
    assert {Path("/etc/prometheus") / one for one in config["rule_files"]} < mounted


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    """The provisioned files name the service and the mounted folder of the dashboard."""
    (source,) = yaml.safe_load((FOLDER / "grafana/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    port = SERVICES["prometheus"]["ports"][0].rpartition(":")[2]
    assert source["url"] == f"http://prometheus:{port}"
    (provider,) = yaml.safe_load((FOLDER / "grafana/dashboards/signoff.yml").read_text())[
        "providers"
    ]
    mounted = {Path(one.split(":")[1]).parent for one in SERVICES["grafana"]["volumes"]}
    assert Path(provider["options"]["path"]) in mounted


def test_image_sources_exist_and_pass_dockerignore() -> None:
    """Each COPY source exists and passes .dockerignore, and every root of the wheel is copied."""
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


def test_image_python_satisfies_the_project() -> None:
    """Both stages have the same slim Python, which is new enough."""
    bases = re.findall(r"^FROM python:(\d+)\.(\d+)\.\d+-slim(\S+)", DOCKERFILE, re.MULTILINE)
    assert len(bases) == 2
    assert len(set(bases)) == 1
    assert (3, 11) <= tuple(map(int, bases[0][:2])) <= (3, 13)
