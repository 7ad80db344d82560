"""Traces: the ledger keeps the context, and one trace id covers submission to resume."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from builders import CLEO, MARA, paused, present
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import tracing
from signoff.core.base.errors import NotAnApprover
from signoff.testing import VirtualClock


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    """Return the provider of the tracer in use."""
    made = TracerProvider(shutdown_on_exit=False)
    tracing.trace_with(made.get_tracer("tests"))
    yield made
    tracing.trace_with(None)
    made.shutdown()


@pytest.fixture
def exporter(provider: TracerProvider) -> InMemorySpanExporter:
    """Return an exporter with the spans since the start of the test."""
    made = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(made))
    return made


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    """Return the last span with a name."""
    return [one for one in spans if one.name == f"signoff.{name}"][-1]


async def test_a_decision_belongs_to_the_trace_of_its_approval(
    still_ledger: Ledger,
    still_decider: Decider,
    clock: VirtualClock,
    exporter: InMemorySpanExporter,
) -> None:
    """The approval carries its context; refusals have a span; the resume links to the approval."""
    run, (approval,) = await paused(still_ledger, asked=[MARA])
    clock.advance(timedelta(hours=3))
    with pytest.raises(NotAnApprover):
        await still_decider.approve(approval.id, CLEO, channel="email")
    await still_decider.approve(approval.id, MARA, channel="slack")
    decided = await still_ledger.approval(approval.id)
    with tracing.span("resume", await still_ledger.run(run.id), follows=[decided]):
        pass
    spans = exporter.get_finished_spans()
    submit, decide, resume = (named(spans, name) for name in ("submit", "decide", "resume"))
    assert f"{present(submit.context).trace_id:032x}" == run.trace
    assert run.trace in (await still_ledger.run(run.id)).traceparent
    assert present(resume.parent).span_id == present(submit.context).span_id
    assert decided.traceparent.split("-")[2] == f"{present(decide.context).span_id:016x}"
    assert [one.context.span_id for one in resume.links] == [present(decide.context).span_id]
    assert dict(decide.attributes or {})["signoff.channel"] == "slack"


async def test_an_approval_is_opened_with_the_context_of_its_turn(
    ledger: Ledger, exporter: InMemorySpanExporter
) -> None:
    """Later moves are children of the turn's span, even if the record is rewritten meanwhile."""
    with tracing.span("start"):
        expected = tracing.traceparent()
        _, (approval,) = await paused(ledger)
    assert approval.traceparent == expected
    claimed = approval.model_copy(update={"reminded": 1})
    change = Change().put(claimed, was=approval)
    assert change.leaves(approval).traceparent == expected
    await ledger.commit(change)
    with tracing.span("route", await ledger.approval(approval.id)):
        pass
    route = named(exporter.get_finished_spans(), "route")
    assert f"{present(route.parent).span_id:016x}" == expected.split("-")[2]


async def test_a_span_records_only_the_name_of_an_error(exporter: InMemorySpanExporter) -> None:
    """The message may contain values that a policy hides."""
    with pytest.raises(ValueError, match="secret"), tracing.span("start"):
        raise ValueError("secret")
    (span,) = exporter.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, "ValueError")
    assert "secret" not in span.to_json()


async def test_a_request_of_another_trace_is_linked(
    ledger: Ledger, exporter: InMemorySpanExporter
) -> None:
    """The web framework's span has its own trace; the decision stays in the run's trace."""
    run, _ = await paused(ledger)
    with tracing.span("request") as request, tracing.span("start", run) as start:
        assert start.get_span_context().trace_id != request.get_span_context().trace_id
        assert [one.context for one in start.links] == [request.get_span_context()]


async def test_a_run_of_before_has_the_trace_id_of_its_log(
    ledger: Ledger, provider: TracerProvider
) -> None:
    """Tracing can be turned on while runs wait."""
    tracing.trace_with(None)
    run, (approval,) = await paused(ledger)
    tracing.trace_with(provider.get_tracer("tests"))
    assert (run.traceparent, approval.traceparent) == ("", "")
    with tracing.span("resume", run) as span:
        assert f"{span.get_span_context().trace_id:032x}" == run.trace
    with tracing.span("route", approval) as span:
        assert span.get_span_context().is_valid


async def test_a_broken_trace_context_is_ignored(
    ledger: Ledger, exporter: InMemorySpanExporter
) -> None:
    """The work is done whatever context the record has."""
    _, (approval,) = await paused(ledger)
    for text in ("x", "00-" + 32 * "0" + "-" + 16 * "0" + "-01", "ff-1-2-3"):
        broken = approval.model_copy(update={"traceparent": text})
        with tracing.span("route", broken) as span:
            assert span.parent is None


async def test_disabled_tracing_stores_no_context(ledger: Ledger) -> None:
    """Records have no context then, and a span does nothing."""
    with tracing.span("start"):
        assert tracing.traceparent() == ""
        run, (approval,) = await paused(ledger)
    assert (run.traceparent, approval.traceparent) == ("", "")
    assert "traceparent" not in str((await ledger.raw(f"run:{run.id}") or (0, ""))[1])
    assert tracing.with_trace_ids(None, "info", {"event": "x"}) == {"event": "x"}


async def test_the_log_has_the_ids(exporter: InMemorySpanExporter) -> None:
    """A log line in a span has its ids, and a line outside has none."""
    with tracing.span("start") as span:
        event = tracing.with_trace_ids(None, "info", {"event": "x"})
    context = span.get_span_context()
    assert event == {
        "event": "x",
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
    }
    assert "trace_id" not in tracing.with_trace_ids(None, "info", {"event": "x"})
