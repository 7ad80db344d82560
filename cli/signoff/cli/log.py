"""The log: one event a line, for people or for machines, without secrets."""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from signoff.broker.monitoring import tracing
from signoff.cli.config.sections import LogSettings
from signoff.cli.terminal import printable_json
from signoff.core.base.shown_text import visible

HIDDEN: Final = "[redacted]"

_TOKEN: Final = re.compile(r"\+[a-z2-7]{26}(?=@)", re.IGNORECASE)
_API_TOKEN: Final = re.compile(r"(signoff_[a-z2-7]{10}_)[a-z2-7]{20,}")
_URL_PASSWORD: Final = re.compile(r"(?<=://)([^/@:\s]*):[^/\s]*(?=@)")
_QUERY_PASSWORD: Final = re.compile(r"(?<=[?&_]password=)[^&\s]+")
_DEEPEST: Final = 12
_WINDOW: Final = 10.0
_MOST: Final = 1000
_MOST_RAISED: Final = 50
_FOREIGN: Final = ("celery", "kombu", "mail.log", "uvicorn", "google_adk", "httpx", "asyncio")
"""Loggers of libraries that are too verbose: only their warnings and errors are written."""


def configure(settings: LogSettings, *, stream: TextIO | None = None) -> None:
    """Write all events of structlog and of the standard library's logging, one per line.

    They go to standard error, unless a stream is given.
    """
    out = stream or sys.stderr
    bounds = Bounds()
    before: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        tracing.with_trace_ids,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _exceptions(full=settings.format == "json"),
        Redactor(settings.redact),
        _one_line,
    ]
    if settings.format != "json":
        before.append(_visible)
    renderer: Processor = (
        structlog.processors.JSONRenderer(_json)
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=out.isatty(), pad_event_to=24, sort_keys=False, exception_formatter=_no_more
        )
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[_named, *before],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(formatter)
    handler.addFilter(bounds.filter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    root.setLevel(level)
    for name in _FOREIGN:
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
        logger.setLevel(max(level, logging.WARNING))
    logging.captureWarnings(capture=True)
    structlog.configure(
        processors=[bounds, *before, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )


class Bounds:
    """A structlog processor and `logging` filter that limits the rate of each kind of event.

    A client that triggers the same event a thousand times a second must not fill the disk or keep a
    process busy with writing. Events of a kind beyond the limit are dropped; the next one that is
    written has their number in ``held_back``.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[tuple[object, ...], tuple[float, int]] = {}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Return an event of ours.

        Raises:
            structlog.DropEvent: There were too many of its kind.
        """
        del logger
        raised = bool(event.get("exc_info")) or method == "exception"
        held_back = self._admit((event.get("event"), raised), raised=raised)
        if held_back is None:
            raise structlog.DropEvent
        return {**event, "held_back": held_back} if held_back else event

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a library's event is written; its kind is the code line that logs it."""
        if isinstance(record.msg, dict):
            return True  # one of our own events, which was counted above
        raised = record.exc_info is not None
        held_back = self._admit((record.pathname, record.lineno, raised), raised=raised)
        if held_back:
            record.msg = f"{record.msg} (held back before: {held_back})"
        return held_back is not None

    def _admit(self, kind: tuple[object, ...], *, raised: bool) -> int | None:
        """Return how many events of a kind were held back before this one; None to hold it back."""
        most, now = _MOST_RAISED if raised else _MOST, self._clock()
        with self._lock:
            began, count = self._windows.get(kind, (now, 0))
            over = now - began >= _WINDOW
            self._windows[kind] = (now, 1) if over else (began, count + 1)
        if over:
            return max(count - most, 0)
        return 0 if count < most else None


class Redactor:
    """A structlog processor that removes secrets anywhere in an event.

    It removes reply tokens (``approvals+<26 letters>@…``), API tokens, passwords in URLs, and the
    values of configured tool arguments, also in nested values and in JSON or Python text.

    The case of these names is ignored.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(name.casefold() for name in names)
        words = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        # name: "value", 'name': 'value', name=value -- as JSON, repr() and console text write it.
        # An unquoted value ends at the next comma or bracket, a list or an object at the end.
        self._in_text = (
            re.compile(
                rf"""(?P<head>(?<!\w)(?:{words})\\?["']?\s*[:=]\s*)"""
                r"""(?:\\".*?\\"|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[\[{].*|[^,;})\]\n]+)""",
                re.IGNORECASE | re.DOTALL,
            )
            if words
            else None
        )

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Return the event without secrets."""
        del logger, method
        return cast("EventDict", self._clean(event, 0))

    def _clean(self, value: object, depth: int) -> object:
        if depth > _DEEPEST:
            return HIDDEN
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {
                key: HIDDEN if str(key).casefold() in self._names else self._clean(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [self._clean(item, depth + 1) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        # Models, exceptions, bytes: what a renderer would make of them, cleaned.
        return self.text(str(value))

    def text(self, text: str) -> str:
        """Return text without secrets."""
        clean = _TOKEN.sub(f"+{HIDDEN}", text)
        clean = _API_TOKEN.sub(rf"\1{HIDDEN}", clean)
        clean = _QUERY_PASSWORD.sub(HIDDEN, _URL_PASSWORD.sub(rf"\1:{HIDDEN}", clean))
        if self._in_text is not None:
            clean = self._in_text.sub(rf"\g<head>{HIDDEN}", clean)
        return clean


def hide_passwords(url: str) -> str:
    """Return a URL without its password."""
    return _QUERY_PASSWORD.sub("***", _URL_PASSWORD.sub(r"\1:***", url))


def _exceptions(*, full: bool) -> Processor:
    """Put an exception into the event: in full for machines, in short for people."""

    def process(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        del logger, method
        info = event.pop("exc_info", None)
        error = _error_of(info)
        if error is not None:
            text = "".join(traceback.format_exception(error)) if full else _gist(error)
            # Not under "exception": renderers write that key over several lines.
            event["raised"] = text
        return event

    return process


def _error_of(info: object) -> BaseException | None:
    if isinstance(info, BaseException):
        return info
    if isinstance(info, tuple):
        return info[1] if isinstance(info[1], BaseException) else None
    return sys.exc_info()[1] if info else None


def _gist(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _one_line(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Put time, level and event first; the renderers quote values with line breaks."""
    del logger, method
    what = " ".join(str(event.pop("event", "")).split())
    return {
        "timestamp": event.pop("timestamp", ""),
        "level": event.pop("level", ""),
        "event": what,
        **event,
    }


def _json(event: EventDict, **_: object) -> str:
    return printable_json(json.dumps(event, ensure_ascii=False, default=str))


def _visible(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Escape control characters, so that logged text cannot affect the terminal."""
    del logger, method
    return {name: visible(one) if isinstance(one, str) else one for name, one in event.items()}


def _named(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Add the name of the library that has logged an event by the standard library."""
    del logger, method
    record = event.get("_record")
    if isinstance(record, logging.LogRecord):
        event["logger"] = record.name
    return event


def _no_more(stream: TextIO, info: object) -> None:
    """Write no traceback: `_exceptions` has already added it to the event."""
