"""A real Prometheus scrapes the processes, and a collector gets one trace from all of them."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from cli.conftest import SETTINGS
from collector import Collector, collecting
from leaks import words_in
from services import prometheus
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.cli.composition.supervisor import Supervisor
from signoff.cli.demo.dev_mailbox import DevMailbox, reply

ROOT = Path(__file__).parents[2]
TOKEN = "scrape-me"
ADK_SPAN = "execute_tool reimburse"
TRACE = {
    "signoff.submit": "signoff-cli",
    "signoff.start": "signoff-worker",
    "signoff.route": "signoff-channels",
    "signoff.deliver": "signoff-channels",
    "signoff.intake": "signoff-channels",
    "signoff.decide": "signoff-channels",
    "signoff.resume": "signoff-worker",
    ADK_SPAN: "signoff-worker",
}
"""The spans of a run, the last of them ADK's own, with the services that send them."""

IDS_AND_TIMES = re.compile(r"\w+_(id|nano): .*")
"""Random numbers of spans, as their text shows them."""

CONFIG = """\
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: signoff
    authorization: {{credentials: {token}}}
    static_configs:
"""


class Asked:
    """A client of Prometheus."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def value(self, query: str) -> float | None:
        """Return the value of a query, or None if it has none."""
        found = await self.data("query", query=query)
        return float(found["result"][0]["value"][1]) if found["result"] else None

    async def until(self, query: str, value: float) -> None:
        """Wait until a query has a value; Prometheus scrapes every second."""
        last: float | None = None
        try:
            async with asyncio.timeout(300):
                while (last := await self.value(query)) != value:  # noqa: ASYNC110 -- Prometheus gives no signal
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail(f"{query} is {last}, and not {value}")

    async def data(self, path: str, **params: str) -> dict[str, Any]:
        """Return the data of a response."""
        answer = await self._http.get(f"/api/v1/{path}", params=params)
        found: dict[str, Any] = answer.raise_for_status().json()["data"]
        return found


@pytest.mark.soak
async def test_run_appears_in_one_trace_and_in_the_metrics_once(tmp_path: Path) -> None:
    """A run from a command to its end is counted once by some process, in one trace."""
    with collecting() as collector:
        await _run(tmp_path, collector)
        spans = await asyncio.to_thread(collector.wait_for, *TRACE, within=300)
    by_id = {span.span_id: span for _, span in spans}
    first: dict[str, tuple[str, Span]] = {}
    for service, span in sorted(spans, key=lambda one: one[1].start_time_unix_nano):
        first.setdefault(span.name, (service, span))
    assert {name: first[name][0] for name in TRACE} == TRACE
    assert len({first[name][1].trace_id for name in TRACE}) == 1

    def above(name: str) -> str:
        """Return the name of the next Signoff span above a span."""
        span = first[name][1]
        while (parent := by_id.get(span.parent_span_id)) is not None:
            if parent.name.startswith("signoff."):
                return parent.name
            span = parent
        return ""

    assert {name: above(name) for name in TRACE} == {
        "signoff.submit": "",
        "signoff.start": "signoff.submit",
        "signoff.route": "signoff.start",
        "signoff.deliver": "signoff.start",
        "signoff.intake": "signoff.start",
        "signoff.decide": "signoff.intake",
        "signoff.resume": "signoff.submit",
        ADK_SPAN: above(ADK_SPAN),
    }
    assert above(ADK_SPAN) in {"signoff.start", "signoff.resume"}
    resume, decide = first["signoff.resume"][1], first["signoff.decide"][1]
    assert [one.span_id for one in resume.links] == [decide.span_id]
    # A policy may hide the agent's input and the tool's arguments.
    told = IDS_AND_TIMES.sub("", str(spans))
    assert ADK_SPAN in told
    assert words_in(told, "2500", "desk") == []


async def _run(tmp_path: Path, collector: Collector) -> None:
    environment = {
        "SIGNOFF_TRACING__ENABLED": "true",
        "SIGNOFF_TRACING__ENDPOINT": collector.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "SIGNOFF_METRICS__ENABLED": "true",
        "SIGNOFF_METRICS__TOKEN": TOKEN,
        "SIGNOFF_METRICS__WORKER_PORT": "0",
        "SIGNOFF_METRICS__CHANNELS_PORT": "0",
        "SIGNOFF_EXAMPLE_JOURNAL": str(tmp_path / "journal.jsonl"),
        "GOOGLE_API_KEY": "",
    }
    file = tmp_path / "signoff.toml"
    (tmp_path / "redis").mkdir()
    with EmbeddedRedis(tmp_path / "redis", fsync="everysec") as redis:
        async with DevMailbox(tmp_path / "mail") as mailbox, Supervisor() as supervisor:
            agents = ROOT / "examples" / "agents"
            settings = SETTINGS.format(
                agents=agents, redis=redis.url, prefix="{s}:", smtp=mailbox.port
            )
            file.write_text(settings)
            for kind in ("worker", "channels", "gateway"):
                await supervisor.signoff(kind, "--config", str(file), kind, env=environment)
            await supervisor.ready(within=300)
            children = supervisor.children
            ports = {
                kind: one.report.get("metrics") or one.report["port"]
                for kind, one in children.items()
            }
            config = CONFIG.format(rules=ROOT / "examples/monitoring/alerts.yml", token=TOKEN)
            for kind, port in ports.items():
                config += (
                    f'      - {{targets: ["127.0.0.1:{port}"], labels: {{process: {kind}}}}}\n'
                )
            (tmp_path / "prometheus.yml").write_text(config)
            with prometheus(tmp_path, tmp_path / "prometheus.yml") as url:
                async with httpx.AsyncClient(base_url=url, timeout=60) as http:
                    asked = Asked(http)
                    await asked.until('sum(up{job="signoff"})', 3)
                    await _submit(file, environment)
                    card = await mailbox.wait_for(lambda one: "mara@" in str(one["To"]), within=300)
                    await asked.until('max(signoff_approvals_pending{policy="expenses"})', 1)
                    await reply(
                        card, "approve", "Mara Lind <mara@example.com>",
                        host="127.0.0.1", port=children["gateway"].report["inbound"],
                    )  # fmt: skip
                    for query, value in (
                        ('sum(signoff_runs_ended_total{state="completed"})', 1),
                        ("sum(signoff_runs_submitted_total)", 1),
                        ("sum(signoff_approvals_opened_total)", 1),
                        ('sum(signoff_approvals_ended_total{channel="email"})', 1),
                        ("sum(signoff_decision_seconds_count)", 1),
                        ('sum(signoff_answers_total{result="taken"})', 1),
                        ('sum(signoff_resumes_total{result="resumed"})', 1),
                        ("sum(signoff_agent_turn_seconds_count)", 2),
                        ("sum(signoff_agent_turns_running)", 0),
                        ("max(signoff_approvals_pending)", 0),
                        ("max(signoff_timers_lag_seconds)", 0),
                        ("count(signoff_info)", 3),
                        ("count(signoff_processes == 1)", 3),
                    ):
                        await asked.until(query, value)
                    assert (
                        await asked.value('sum(signoff_deliveries_total{channel="email"})') or 0
                    ) >= 2
                    (group,) = (await asked.data("rules"))["groups"]
                    assert {one["health"] for one in group["rules"]} <= {"ok", "unknown"}
                    # A scrape that took too long makes an alert pending until the next one.
                    await asked.until("count(ALERTS) or vector(0)", 0)


async def _submit(file: Path, environment: dict[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "signoff.cli", "--config", str(file),
        "run", "finance", "Reimburse me $2500 for a desk", "--user", "riley",
        env=os.environ | environment,
        stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    assert await process.wait() == 0
