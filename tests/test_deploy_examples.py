"""The Kubernetes and systemd examples fit the schemas, commands, settings, secrets and metrics."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from composed import command, settings_of
from services import program
from signoff.broker.monitoring.metrics import METRICS
from signoff.channels.aap import app as aap
from signoff.channels.email.inbound import webhook
from signoff.channels.inbox.settings import ROOT as PAGE
from signoff.channels.rest.app import PATH as API
from signoff.channels.slack.inbound import http as slack
from signoff.cli.composition.credentials import own_environment
from signoff.cli.composition.kinds import KINDS
from signoff.cli.config.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "examples" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
UNITS = DEPLOY / "systemd"
VERSIONS = ("1.29", "1.33", kubernetes_validate.latest_version())
PODS = (*KINDS, "operator")
MADE = set(re.findall(r"/srv/signoff/\w+", (ROOT / "Dockerfile").read_text()))
"""The folders of the image that belong to its user."""


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    """Return a settings file with an inbox page, as the how-to pages describe it."""
    file = tmp_path / "signoff.toml"
    page = '\n[inbox]\nurl = "https://approvals.example.com"\n'
    file.write_text((ROOT / "examples" / "signoff.toml").read_text() + page)
    return file


# -- Kubernetes ------------------------------------------------------------------------------------


def manifests() -> Iterator[dict[str, Any]]:
    """Yield every object of the base and of the overlay, as the files have them."""
    for file in sorted(KUBERNETES.glob("*/*.yaml")):
        if file.name != "kustomization.yaml":
            yield from yaml.safe_load_all(file.read_text())


OBJECTS = {f"{one['kind']} {one['metadata']['name']}": one for one in manifests()}
BASE = yaml.safe_load((KUBERNETES / "base" / "kustomization.yaml").read_text())
EXAMPLE = yaml.safe_load((KUBERNETES / "example" / "kustomization.yaml").read_text())


def pod(kind: str) -> dict[str, Any]:
    """Return the pod specification of a kind of process."""
    found: dict[str, Any] = OBJECTS[f"Deployment signoff-{kind}"]["spec"]["template"]["spec"]
    return found


def container(kind: str) -> dict[str, Any]:
    """Return the only container of these pods."""
    (found,) = pod(kind)["containers"]
    assert isinstance(found, dict)
    return found


def environment(kind: str) -> dict[str, str]:
    """Return the environment of a container."""
    (shared,) = BASE["configMapGenerator"]
    common = dict(one.split("=", 1) for one in shared["literals"])
    assert container(kind)["envFrom"] == [{"configMapRef": {"name": shared["name"]}}]
    return common | {one["name"]: one["value"] for one in container(kind)["env"]}


@pytest.mark.parametrize("name", list(OBJECTS))
def test_each_object_fits_the_schema_of_kubernetes(name: str) -> None:
    """Each field is known to old and new versions of the schema."""
    for version in VERSIONS:
        kubernetes_validate.validate(OBJECTS[name], version, strict=True)


def test_the_kustomizations_name_the_files_that_there_are() -> None:
    """Each file is listed, and each listed file exists."""
    for folder, content in (("base", BASE), ("example", EXAMPLE)):
        files = {one.name for one in (KUBERNETES / folder).glob("*.yaml")} - {"kustomization.yaml"}
        assert files == set(content["resources"]) - {"../base"}
    assert {one["name"] for one in EXAMPLE["images"]} == {
        container(kind)["image"] for kind in KINDS
    }


@pytest.mark.parametrize("name", PODS)
def test_a_process_of_kubernetes_starts_with_valid_settings(
    name: str, made_secrets: Path, settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment has its own secrets and those of no other kind of process."""
    kind, given = name if name in KINDS else "", environment(name)
    assert given == own_environment(kind, given)
    (generated,) = (one for one in EXAMPLE["secretGenerator"] if one["name"] == f"signoff-{name}")
    files = {
        f"/run/secrets/signoff/{Path(one).name}": made_secrets / Path(one).name
        for one in generated["files"]
    }
    assert set(files) == {value for name, value in given.items() if name.endswith("_FILE")}
    settings = settings_of(kind, given, files, monkeypatch, settings_file)
    assert f"signoff-{name}:" in settings.redis.url
    assert bool(settings.receipts.private_key.get_secret_value()) == (kind != "worker")
    if kind:
        assert container(kind)["args"] == ["signoff", kind]
    for probe in ("startupProbe", "readinessProbe"):
        if words := container(name).get(probe, {}).get("exec", {}).get("command"):
            assert words == ["signoff", "health", kind]
            assert command(words[1:])


@pytest.mark.parametrize("kind", PODS)
def test_containers_have_minimal_rights(kind: str) -> None:
    """It is not root, has a read-only root file system, and no access to the cluster."""
    limits = {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert limits.items() <= pod(kind)["securityContext"].items()
    assert pod(kind)["automountServiceAccountToken"] is False
    assert container(kind)["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {
        one["mountPath"] for one in container(kind)["volumeMounts"] if not one.get("readOnly")
    }
    assert writable - {"/tmp"} <= MADE
    for volume in pod(kind)["volumes"]:
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        assert claim is None or f"PersistentVolumeClaim {claim}" in OBJECTS
    label = OBJECTS["Namespace signoff"]["metadata"]["labels"]
    assert label == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_container_ports_match_the_settings() -> None:
    """A process listens on each named port, and each used name exists."""
    ports = {
        kind: {one["name"]: one["containerPort"] for one in container(kind)["ports"]}
        for kind in KINDS
    }
    settings = Settings()
    assert ports == {
        "worker": {"metrics": settings.metrics.worker_port},
        "channels": {"metrics": settings.metrics.channels_port},
        "gateway": {"http": settings.gateway.port, "smtp": settings.email.inbound.port},
    }
    service = OBJECTS["Service signoff-gateway"]["spec"]
    assert {one["targetPort"] for one in service["ports"]} == set(ports["gateway"])
    names = {name for one in ports.values() for name in one}
    for name in ("signoff-metrics", "signoff-gateway"):
        for rule in OBJECTS[f"NetworkPolicy {name}"]["spec"]["ingress"]:
            assert {one["port"] for one in rule["ports"]} <= names


def test_selectors_match_the_labels_of_the_pods() -> None:
    """Budgets, scalers, the service and the network policies use labels that pods have."""
    for kind in PODS:
        selector = OBJECTS[f"Deployment signoff-{kind}"]["spec"]
        labels = {"signoff": kind}
        assert selector["selector"]["matchLabels"] == labels
        assert selector["template"]["metadata"]["labels"] == labels
        if kind in KINDS:
            budget = OBJECTS[f"PodDisruptionBudget signoff-{kind}"]["spec"]
            assert budget["selector"]["matchLabels"] == labels
    assert OBJECTS["Service signoff-gateway"]["spec"]["selector"] == {"signoff": "gateway"}
    inside = OBJECTS["NetworkPolicy signoff-metrics"]["spec"]["podSelector"]["matchExpressions"]
    assert [(one["key"], one["values"]) for one in inside] == [("signoff", ["worker", "channels"])]


def test_scalers_use_existing_metrics() -> None:
    """Workers scale by the stages that they work on, and channels by all other stages."""
    adapter = yaml.safe_load((KUBERNETES / "prometheus-adapter.yaml").read_text())
    queries = {one["name"]["as"]: one["metricsQuery"] for one in adapter["rules"]["external"]}
    for kind in ("worker", "channels"):
        (metric,) = OBJECTS[f"HorizontalPodAutoscaler signoff-{kind}"]["spec"]["metrics"]
        name, operator, pattern = re.findall(
            r"max\((\w+)\{stage(=~|!~)\"(.*)\",", queries[metric["external"]["metric"]["name"]]
        )[0]
        assert "stage" in METRICS[name].labels
        for stage, whose in (
            ("run.finance", "worker"),
            ("resume.finance", "worker"),
            ("route", "channels"),
            ("deliver.email", "channels"),
            ("intake", "channels"),
        ):
            selected = (re.fullmatch(pattern, stage) is not None) == (operator == "=~")
            assert selected == (whose == kind), stage


def test_ingress_routes_only_public_paths_of_the_gateway() -> None:
    """The page, the APIs, Slack and mail are reachable; metrics and health checks are not."""
    (rule,) = OBJECTS["Ingress signoff"]["spec"]["rules"]
    paths = {one["path"] for one in rule["http"]["paths"]}
    assert paths == {PAGE, API, aap.PATH, slack.PATH, webhook.PATH}
    service = {"name": "signoff-gateway", "port": {"name": "http"}}
    assert all(one["backend"] == {"service": service} for one in rule["http"]["paths"])


def test_prometheus_finds_the_pods_by_label_and_port() -> None:
    """Its relabelling reads the labels and ports of the pods."""
    (job,) = yaml.safe_load((KUBERNETES / "prometheus.yaml").read_text())["scrape_configs"]
    rules = {one["source_labels"][0]: one for one in job["relabel_configs"]}
    kept = rules["__meta_kubernetes_pod_container_port_name"]["regex"]
    names = [one["name"] for kind in KINDS for one in container(kind)["ports"]]
    assert [one for one in names if re.fullmatch(kept, one)] == ["metrics", "metrics", "http"]
    assert rules["__meta_kubernetes_pod_label_signoff"]["target_label"] == "process"


# -- systemd ---------------------------------------------------------------------------------------


def unit(name: str) -> dict[str, list[str]]:
    """Return the values of a unit, by key."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def variables(values: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the environment that a unit sets."""
    return dict(one.split("=", 1) for one in values["Environment"])


def credentials(values: Mapping[str, list[str]], secrets: Path) -> dict[str, Path]:
    """Return the files of a unit's secrets, by their paths in the unit."""
    found = {}
    for one in values["LoadCredential"]:
        name, source = one.split(":")
        assert Path(source).parent == Path("/etc/signoff/secrets")
        found[f"%d/{name}"] = secrets / Path(source).name
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_unit_of_systemd_starts_with_valid_settings(
    kind: str, made_secrets: Path, settings_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment has its own credentials and those of no other kind of process."""
    values = unit(f"signoff-{kind}.service")
    assert values["ExecStart"] == [f"/opt/signoff/bin/signoff {kind}"]
    given, files = variables(values), credentials(values, made_secrets)
    assert given == own_environment(kind, given)
    assert set(files) == {value for name, value in given.items() if name.endswith("_FILE")}
    settings = settings_of(kind, given, files, monkeypatch, settings_file)
    assert f"signoff-{kind}:" in settings.redis.url


def test_the_backup_uses_the_login_of_the_operator(made_secrets: Path) -> None:
    """Only that login can read all keys; the command exists."""
    values = unit("signoff-backup.service")
    (line,) = values["ExecStart"]
    assert command(line.partition("signoff ")[2].partition(' "')[0].split())
    files = credentials(values, made_secrets)
    assert "signoff-operator:" in files[variables(values)["SIGNOFF_REDIS__URL_FILE"]].read_text()


def systemd_analyze(*words: str) -> str:
    """Run systemd-analyze, and return its output."""
    line = [program("systemd-analyze", "systemd"), *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    """It knows each key and value, and each program exists."""
    programs = Path(sys.executable).parent
    for file in UNITS.iterdir():
        text = file.read_text().replace("/opt/signoff/bin", str(programs))
        (tmp_path / file.name).write_text(text)
    files = sorted(str(one) for one in tmp_path.iterdir())
    assert systemd_analyze("verify", "--man=no", "--recursive-errors=no", *files) == ""
    wanted = unit("signoff.target")["Wants"][0].split()
    assert wanted == [f"signoff-{kind}.service" for kind in KINDS]


def test_the_units_are_confined() -> None:
    """The exposure score of systemd is below 2 of 10 for every process."""
    for kind in KINDS:
        file = str(UNITS / f"signoff-{kind}.service")
        systemd_analyze("security", "--offline=true", "--threshold=20", "--no-pager", file)
