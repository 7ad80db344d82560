"""One trace for each run, from its submission to its end, which may be days later.

The trace context (``traceparent``, W3C Trace Context) is in the ledger, because Celery's messages
do not carry it. A run has the context of its submission. An approval has the context of the turn
that opened it, and later that of its decision. A span lasts as long as one process works, and its
parent may have ended days before. A resume links to the decisions that it passes on.

Without a tracer, no spans are made, and OpenTelemetry is not imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.run import Run
from signoff.core.grants.grant import Grant

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, Tracer

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NOTHING: Final = nullcontext()

Record = Approval | Run | Grant


class _Now:
    tracer: Tracer | None = None


def trace_with(tracer: Tracer | None) -> None:
    """Make spans with a tracer from now on; None turns tracing off."""
    _Now.tracer = tracer


def enabled() -> bool:
    """Say whether spans are made."""
    return _Now.tracer is not None


def span(
    name: str,
    about: Run | Approval | None = None,
    *,
    follows: Sequence[Approval] = (),
    **attributes: str,
) -> AbstractContextManager[Any]:
    """Make a span around a body.

    It is a child of the current span if that belongs to the same trace. Otherwise its parent is the
    context in the record, and it is linked to the current span, such as that of an HTTP request.

    Args:
        name: The name, without the prefix.
        about: The record whose trace it belongs to; None continues the current trace or begins one.
        follows: Approvals to link, because the span passes on their decisions.
        attributes: Ids and names; no contents.
    """
    if _Now.tracer is None:
        return _NOTHING
    return _span(_Now.tracer, name, about, follows, attributes)


def spans(name: str, about: Sequence[Approval], **attributes: str) -> AbstractContextManager[Any]:
    """Make a span for each approval around a body that works on all of them."""
    if _Now.tracer is None:
        return _NOTHING
    return _spans(_Now.tracer, name, about, attributes)


def traceparent() -> str:
    """Return the context of the current span as W3C Trace Context, "" if there is no span."""
    if _Now.tracer is None:
        return ""
    found = _current()
    if found is None:
        return ""
    return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"


def trace_id() -> str:
    """Return the id of the current trace in hexadecimal digits, "" if there is none."""
    return traceparent()[3:35]


def stamped(new: Record, was: object) -> Record:
    """Return a record with the context of the current span, if it is new or was just decided."""
    if _Now.tracer is None or isinstance(new, Grant):
        return new
    begins = was is None
    decided = (
        isinstance(new, Approval)
        and isinstance(was, Approval)
        and (was.state is State.PENDING and new.state is not State.PENDING)
    )
    context = traceparent() if begins or decided else ""
    return new.model_copy(update={"traceparent": context}) if context else new


def with_trace_ids(
    logger: object, method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Add the ids of the current span to a log event; a processor of structlog."""
    del logger, method
    if _Now.tracer is not None and (found := _current()) is not None:
        event["trace_id"] = f"{found.trace_id:032x}"
        event["span_id"] = f"{found.span_id:016x}"
    return event


def failed(error: BaseException) -> None:
    """Mark the current span as failed, with the name of the error's class."""
    if _Now.tracer is None:
        return
    from opentelemetry import trace  # noqa: PLC0415 -- only where there is a tracer

    trace.get_current_span().set_status(trace.StatusCode.ERROR, type(error).__name__)


# -- inside ------------------------------------------------------------------------------------


def _current() -> SpanContext | None:
    from opentelemetry import trace  # noqa: PLC0415 -- only where there is a tracer

    found = trace.get_current_span().get_span_context()
    return found if found.is_valid else None


def _remote(text: str) -> SpanContext | None:
    from opentelemetry.trace import SpanContext, TraceFlags  # noqa: PLC0415 -- as above

    found = _TRACEPARENT.fullmatch(text)
    if found is None:
        return None
    ids = (int(found[1], 16), int(found[2], 16))
    context = SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(int(found[3], 16)))
    return context if context.is_valid else None


def _context_of(about: Run | Approval | None) -> SpanContext | None:
    if about is None:
        return None
    if isinstance(about, Run) and not about.traceparent and about.trace:
        # It was submitted without a tracer, but its log events have this trace id.
        return _remote(f"00-{about.trace}-{about.trace[:16]}-01")
    return _remote(about.traceparent)


def _begin(
    tracer: Tracer,
    name: str,
    about: Run | Approval | None,
    follows: Sequence[Approval],
    attributes: dict[str, str],
) -> Span:
    from opentelemetry import trace  # noqa: PLC0415 -- as above

    here, stored = _current(), _context_of(about)
    links: list[Link] = []
    parent = None
    if stored is not None and (here is None or here.trace_id != stored.trace_id):
        parent = trace.set_span_in_context(trace.NonRecordingSpan(stored))
        links += [trace.Link(here)] if here is not None else []
    links += [trace.Link(one) for one in map(_context_of, follows) if one is not None]
    named = {f"signoff.{key}": value for key, value in attributes.items()}
    match about:
        case Run():
            named |= {"signoff.run": about.id, "signoff.app": about.app}
        case Approval():
            named |= {
                "signoff.approval": about.id,
                "signoff.run": about.origin.run,
                "signoff.tool": about.call.name,
            }
        case _:
            pass
    return tracer.start_span(f"signoff.{name}", context=parent, links=links, attributes=named)


@contextmanager
def _span(
    tracer: Tracer,
    name: str,
    about: Run | Approval | None,
    follows: Sequence[Approval],
    attributes: dict[str, str],
) -> Iterator[Span]:
    from opentelemetry import trace  # noqa: PLC0415 -- as above

    made = _begin(tracer, name, about, follows, attributes)
    # Only the name of the error's class is recorded: its message may have contents.
    with trace.use_span(
        made, end_on_exit=True, record_exception=False, set_status_on_exception=False
    ):
        try:
            yield made
        except Exception as error:
            failed(error)
            raise


@contextmanager
def _spans(
    tracer: Tracer, name: str, about: Sequence[Approval], attributes: dict[str, str]
) -> Iterator[None]:
    with ExitStack() as stack:
        for approval in about:
            stack.callback(_begin(tracer, name, approval, (), attributes).end)
        yield
