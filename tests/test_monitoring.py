"""The monitoring examples use the metrics correctly: rules, dashboard and scrape configuration."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services import program
from signoff.broker.monitoring import metrics
from signoff.broker.monitoring.exposition import Metrics
from signoff.broker.monitoring.metrics import METRICS, MetricKind
from test_docs import generator

FOLDER = Path(__file__).parents[1] / "examples" / "monitoring"
_NAME = re.compile(r"\bsignoff_[a-z_]+\b")
_SELECTOR = re.compile(r"\b(signoff_[a-z_]+)\{([^}]*)\}")


def promtool(*words: str, text: str = "") -> str:
    """Run promtool in the folder of the examples, and return its output."""
    done = subprocess.run(
        [program("promtool", "prometheus"), *words],
        cwd=FOLDER,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    return said


def rules() -> list[dict[str, Any]]:
    """Return the alert rules."""
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def panels() -> list[dict[str, Any]]:
    """Return the panels of the dashboard that have queries."""
    dashboard = json.loads((FOLDER / "dashboard.json").read_text())
    return [one for one in dashboard["panels"] if one["type"] != "row"]


def expressions() -> Iterator[str]:
    """Yield every query of the rules and the dashboard."""
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def series() -> set[str]:
    """Return the names of all series that are exported."""
    found = set(METRICS)
    for one in METRICS.values():
        if one.kind is MetricKind.HISTOGRAM:
            found |= {f"{one.name}_{part}" for part in ("bucket", "sum", "count")}
    return found


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_rules_and_dashboard_use_metrics_and_labels_that_exist(expression: str) -> None:
    """A renamed metric would silence an alert for ever."""
    assert set(_NAME.findall(expression)) - {"signoff_job"} <= series()
    for name, selector in _SELECTOR.findall(expression):
        metric = METRICS[re.sub(r"_(bucket|sum|count)$", "", name)]
        labels = {one.partition("=")[0].strip("!~ ") for one in selector.split(",")}
        assert labels <= {*metric.labels, "job", "instance"}


def test_the_dashboard_shows_every_metric() -> None:
    """Nobody would see an exported metric that is not on the dashboard."""
    used = {
        re.sub(r"_(bucket|sum|count)$", "", name)
        for panel in panels()
        for target in panel["targets"]
        for name in _NAME.findall(target["expr"])
    }
    assert set(METRICS) - used == set()


def test_the_panels_of_the_dashboard_do_not_overlap() -> None:
    """Each cell of the grid is used once, and each panel has its own id."""
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells
        taken |= cells
    assert len({one["id"] for one in panels()}) == len(panels())


def test_every_rule_is_tested() -> None:
    """For each alert, promtool runs a case in which it fires."""
    cases = yaml.safe_load((FOLDER / "alerts.test.yml").read_text())["tests"]
    fires = {
        check["alertname"]
        for case in cases
        for check in case["alert_rule_test"]
        if check.get("exp_alerts")
    }
    assert fires == {rule["alert"] for rule in rules()}


def test_the_cases_of_the_rules_use_series_as_they_are_exported() -> None:
    """A rule that was only tested on other labels than those of the processes never fires."""
    scraped = {"job", "instance", "process"}
    for case in yaml.safe_load((FOLDER / "alerts.test.yml").read_text())["tests"]:
        for one in case["input_series"]:
            name, _, selector = one["series"].rstrip("}").partition("{")
            labels = {part.partition("=")[0].strip() for part in selector.split(",") if part}
            exported = set(METRICS[name].labels) if name != "up" else set[str]()
            assert labels - scraped == exported, one["series"]


def test_every_alert_names_a_command() -> None:
    """The person who is paged reads which command to run; the command exists."""
    known = dict(generator().commands())
    for rule in rules():
        words = rule["annotations"]["command"].split()
        assert words.pop(0) == "signoff"
        path = tuple(word for word in words if not word.startswith(("-", "{")))
        assert path[:2] in known or path[:1] in known, rule["alert"]


def test_alert_rules_pass_their_promtool_cases() -> None:
    """The cases pass in promtool, and the rules and the configuration are valid."""
    assert "SUCCESS" in promtool("test", "rules", "alerts.test.yml")
    promtool("check", "rules", "alerts.yml")
    promtool("check", "config", "prometheus.yml")


def test_the_exposition_passes_the_linter_of_prometheus() -> None:
    """Names, help texts and units are valid for the metrics of every kind of process."""
    for kind in ("worker", "channels", "gateway"):
        found = Metrics(kind)
        for one in METRICS.values():
            if one.of in {"all", kind}:
                found((one, ("x",) * len(one.labels), 1))
        ledger = [
            (one, ("x",) * len(one.labels), 1.0)
            for one in METRICS.values()
            if one.of in {metrics.LEDGER, metrics.CHECKS}
        ]
        text = found.text("", ledger if kind == "gateway" else ())[0].decode()
        assert not promtool("check", "metrics", text=text).strip()
