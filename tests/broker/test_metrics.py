"""Metrics: counters, measurements of the ledger, and their exposition."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
import redis

from builders import CLEO, MARA, paused
from deciding import Decider
from services import plain_redis
from signoff.broker.heartbeat import beat
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.monitoring import metrics
from signoff.broker.monitoring.exposition import Exporter, Metrics
from signoff.broker.monitoring.gauges import KnownNames, measure
from signoff.broker.monitoring.handover import Samples, take_over
from signoff.channels.gateway import make_gateway
from signoff.channels.web.scrape import make_metrics_router
from signoff.core.base.errors import ConfigError, LeaseLost, NotAnApprover
from signoff.testing import VirtualClock

KNOWN = KnownNames(queues=["finance"], policies=["", "expenses"], kinds=["worker", "gateway"])
Values = dict[str, float]


@pytest.fixture
def found() -> Iterator[Metrics]:
    """Return the metrics of this process, counted from now on."""
    made = Metrics("worker")
    metrics.record_to(made)
    yield made
    metrics.record_to(None)


def values(text: str) -> Values:
    """Return the values of an exposition, by series."""
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}


def counted(found: Metrics) -> Values:
    """Return what a process has counted."""
    return values(found.text("")[0].decode())


async def scraped(
    ledger: Ledger, found: Metrics, token: str = "", **headers: str
) -> httpx.Response:
    """Return the answer of a gateway's `/metrics`."""
    app = make_gateway(ledger)
    app.include_router(make_metrics_router(ledger, found, lambda: KNOWN, checks=(), token=token))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        return await http.get("/metrics", headers=headers)


async def test_the_life_of_an_approval_is_counted(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, found: Metrics
) -> None:
    """Run, approval, refusal and decision count once each, with their labels and durations."""
    _, (approval,) = await paused(still_ledger, asked=[MARA])
    clock.advance(timedelta(minutes=7))
    with pytest.raises(NotAnApprover):
        await still_decider.approve(approval.id, CLEO, channel="email")
    await still_decider.approve(approval.id, MARA, channel="slack")
    now = counted(found)
    assert now['signoff_runs_submitted_total{app="finance"}'] == 1
    assert now['signoff_approvals_opened_total{app="finance"}'] == 1
    ended = 'signoff_approvals_ended_total{channel="slack",policy="expenses",state="approved"}'
    assert now[ended] == 1
    assert now['signoff_answers_total{channel="email",result="refused"}'] == 1
    assert now['signoff_answers_total{channel="slack",result="taken"}'] == 1
    assert now['signoff_refusals_total{channel="email",reason="NotAnApprover"}'] == 1
    assert now['signoff_decision_seconds_sum{policy="expenses"}'] == 420
    assert now['signoff_decision_seconds_bucket{le="300.0",policy="expenses"}'] == 0
    assert now['signoff_decision_seconds_bucket{le="900.0",policy="expenses"}'] == 1
    assert now['signoff_events_total{event="approved"}'] == 1


async def test_uncommitted_changes_are_not_counted(
    still_ledger: Ledger, clock: VirtualClock, found: Metrics
) -> None:
    """A lost lease is counted; the dead letter of the same change is not."""
    change = Change().send_raw("route", "r1", {"approval": "x"})
    await still_ledger.commit(change)
    (item,) = (await still_ledger.claim("route", lease=1)).items
    clock.advance(timedelta(seconds=2))
    assert (await still_ledger.claim("route")).items
    with pytest.raises(LeaseLost):
        await still_ledger.commit(Change().count(metrics.DEAD_LETTERS, "route").ack(item))
    now = counted(found)
    assert now["signoff_leases_lost_total"] == 1
    assert now['signoff_commits_total{result="lease_lost"}'] == 1
    assert now['signoff_commits_total{result="ok"}'] == 1
    assert not any(one.startswith("signoff_dead_letters_total{") for one in now)


async def test_metrics_measure_waiting_approvals_timers_stages_and_processes(
    still_ledger: Ledger, clock: VirtualClock, found: Metrics
) -> None:
    """Approvals by policy with their age, the timers' lag, stages with theirs, and processes."""
    await paused(still_ledger, within=timedelta(hours=1))
    clock.advance(timedelta(hours=2))
    await still_ledger.commit(Change().send_raw("intake", "m1", {}))
    clock.advance(timedelta(seconds=30))
    await beat(still_ledger, "worker", "host/1")
    now = values((await scraped(still_ledger, found)).text)
    assert now["signoff_ledger_up"] == 1
    assert now['signoff_approvals_pending{policy="expenses"}'] == 1
    assert now['signoff_approvals_pending{policy=""}'] == 0
    assert now['signoff_approvals_oldest_seconds{policy="expenses"}'] == 7230
    assert now["signoff_timers_lag_seconds"] == 3630
    assert now['signoff_stage_items{stage="intake"}'] == 1
    assert now['signoff_stage_ready_items{stage="intake"}'] == 1
    assert now['signoff_stage_age_seconds{stage="intake"}'] == 30
    assert now['signoff_queue_approvals_pending{queue="finance"}'] == 0
    assert now['signoff_processes{kind="worker"}'] == 1
    assert now['signoff_processes{kind="gateway"}'] == 0
    assert now['signoff_ledger_records{kind="approvals"}'] == 1
    assert now["signoff_redis_memory_bytes"] > 100_000
    assert now["signoff_redis_persistence_ok"] == 1


async def test_arguments_that_resemble_a_policy_do_not_change_the_metrics(ledger: Ledger) -> None:
    """Arguments that are named like fields of a record do not change the metrics."""
    _, (approval,) = await paused(ledger)
    store = ledger.store
    was = await store.client.get(f"{store.prefix}approval:{approval.id}")
    forged = str(was).replace('"amount":2500', '"terms":{"policy":"forged"},"amount":2500')
    assert forged != was
    await store.client.set(f"{store.prefix}approval:{approval.id}", forged)
    assert (await measure(ledger, KnownNames())).pending == {"expenses": 1}


async def test_a_scrape_of_many_reads_no_record(ledger: Ledger) -> None:
    """Redis returns totals by policy, in several parts, and not the records."""
    _, (approval,) = await paused(ledger)
    store = ledger.store
    record = str(await store.client.get(f"{store.prefix}approval:{approval.id}"))
    ids = [f"ap_{number}" for number in range(1200)]
    await store.client.mset({f"{store.prefix}approval:{one}": record for one in ids})
    for index in ("waiting", "approvals"):
        await store.client.zadd(store.prefix + index, dict.fromkeys(ids, 32_503_680_000_000))
    assert (await measure(ledger, KnownNames())).pending == {"expenses": 1201}
    pieces = await store.scripts("pending", [(0, 499), (500, 999), (1000, 1499)])
    assert [len(piece) for piece in pieces] == [3, 3, 3]


async def test_a_gateway_exports_the_counts_of_commands_once(ledger: Ledger) -> None:
    """The next scraped gateway counts it once; unknown metrics of other versions are dropped."""
    samples = Samples()
    metrics.record_to(samples)
    await paused(ledger)
    await samples.hand_over(ledger)
    key = f"{ledger.store.prefix}samples"
    await ledger.store.client.rpush(key, '["signoff_of_tomorrow_total", ["x"], 1]')
    assert 0 < await ledger.store.client.ttl(key) <= 86_400
    gateway = Metrics("gateway")
    metrics.record_to(gateway)
    try:
        now = values((await scraped(ledger, gateway)).text)
        await take_over(ledger)
    finally:
        metrics.record_to(None)
    assert now['signoff_runs_submitted_total{app="finance"}'] == 1
    assert counted(gateway)['signoff_runs_submitted_total{app="finance"}'] == 1


async def test_without_redis_the_process_is_still_seen(found: Metrics) -> None:
    """The counters are exposed and the ledger is down, which is enough for an alert."""
    ledger = Ledger(Store.open("redis://127.0.0.1:1/0"))
    metrics.record(metrics.IN_DOUBT)
    answer = await scraped(ledger, found)
    assert answer.status_code == HTTPStatus.OK
    now = values(answer.text)
    assert (now["signoff_ledger_up"], now["signoff_in_doubt_total"]) == (0, 1)
    assert "signoff_timers_lag_seconds" not in now
    await ledger.close()


async def test_a_redis_that_takes_no_writes_is_down_and_still_measured(
    found: Metrics, tmp_path: Path
) -> None:
    """After a failed save, Redis refuses to write; the alert about its disk says why."""
    with plain_redis(tmp_path, save="900 1") as url, redis.Redis.from_url(url) as root:
        ledger = Ledger(Store.open(url))
        await beat(ledger, "worker", "host/1")
        assert values((await scraped(ledger, found)).text)["signoff_ledger_up"] == 1
        # Redis cannot replace a folder by its file.
        (tmp_path / "dump.rdb").mkdir()
        root.bgsave()
        while root.info("persistence")["rdb_bgsave_in_progress"]:  # noqa: ASYNC110 -- Redis gives no signal
            await asyncio.sleep(0.02)
        now = values((await scraped(ledger, found)).text)
        # Otherwise Redis would save before it stops, and not stop because it cannot.
        root.config_set("save", "")
        assert now["signoff_ledger_up"] == 0
        assert now["signoff_redis_persistence_ok"] == 0
        assert now['signoff_processes{kind="worker"}'] == 1
        await ledger.close()


async def test_a_label_has_few_values(found: Metrics) -> None:
    """A client that submits runs of invented apps does not fill the memory of Prometheus."""
    for number in range(metrics.MOST + 50):
        metrics.record(metrics.RUNS_SUBMITTED, f"app{number}")
    series = [one for one in counted(found) if one.startswith("signoff_runs_submitted_total")]
    assert len(series) == metrics.MOST + 1
    assert counted(found)['signoff_runs_submitted_total{app="other"}'] == 50


async def test_disabled_metrics_add_no_samples(ledger: Ledger) -> None:
    """Changes carry no samples if metrics are off."""
    run, _ = await paused(ledger)
    assert not metrics.enabled()
    assert not Change().put(run, was=run).note(run.submitted()).samples


@pytest.mark.parametrize(
    ("given", "host", "at"),
    [
        ("", "127.0.0.1", "127.0.0.1"),
        ("secret", "127.0.0.1", "127.0.0.1"),
        ("", "::1", "[::1]"),
        ("", "::", "[::1]"),
    ],
)
def test_a_process_serves_its_metrics_on_a_port_of_its_own(
    found: Metrics, given: str, host: str, at: str
) -> None:
    """With a token, only its holder sees them; there is no other page, and the port is freed."""
    exporter = Exporter(found, host, 0, token=given)
    url = f"http://{at}:{exporter.port}"
    answer = httpx.get(f"{url}/metrics", headers={"Authorization": "Bearer secret"})
    assert b'signoff_info{kind="worker"' in answer.content
    if given:
        assert httpx.get(f"{url}/metrics").status_code == HTTPStatus.UNAUTHORIZED
    assert httpx.get(f"{url}/").status_code == HTTPStatus.NOT_FOUND
    with pytest.raises(ConfigError, match="SIGNOFF_METRICS__WORKER_PORT"):
        Exporter(found, host, exporter.port, key="metrics.worker_port")
    exporter.stop()
    Exporter(found, host, exporter.port).stop()


async def test_the_gateway_wants_the_token(ledger: Ledger, found: Metrics) -> None:
    """Without it, any other request gets 401."""
    assert (await scraped(ledger, found, "secret")).status_code == HTTPStatus.UNAUTHORIZED
    wrong = await scraped(ledger, found, "secret", authorization="Bearer other")
    assert wrong.status_code == HTTPStatus.UNAUTHORIZED
    right = await scraped(ledger, found, "secret", authorization="Bearer secret")
    assert right.status_code == HTTPStatus.OK


async def test_openmetrics_is_spoken_too(ledger: Ledger, found: Metrics) -> None:
    """A Prometheus that asks for OpenMetrics gets it."""
    answer = await scraped(ledger, found, accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_every_metric_is_well_named() -> None:
    """The prefix, the unit, `_total` for counters only, and a sentence as help text."""
    for metric in metrics.METRICS.values():
        assert re.fullmatch(r"signoff(_[a-z]+)+", metric.name)
        is_counter = metric.kind is metrics.MetricKind.COUNTER
        assert metric.name.endswith("_total") == is_counter, metric.name
        assert metric.text.endswith("."), metric.name
        assert bool(metric.buckets) == (metric.kind is metrics.MetricKind.HISTOGRAM)
