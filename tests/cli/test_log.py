"""The log: one event per line, without secrets."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections import Counter
from typing import Any, Literal

import pytest
import structlog

from signoff.cli.config.sections import LogSettings
from signoff.cli.log import HIDDEN, Bounds, Redactor, configure, hide_passwords

TOKEN = "abcdefghijklmnopqrstuvwxyz"
IBAN = "DE02 1203 0000 0000 2020 51"


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> io.StringIO:
    """Return a log in the format of the parameter, or JSON."""
    kind: Literal["console", "json"] = getattr(request, "param", "json")
    stream = io.StringIO()
    configure(LogSettings(format=kind, redact=("iban", "Pin")), stream=stream)
    return stream


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    """Return the events that were logged as JSON."""
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_log_event_is_one_line_with_its_context_ids(lines: io.StringIO) -> None:
    """Each line has the bound context: approval, run, trace."""
    with structlog.contextvars.bound_contextvars(approval="ap_1", run="run_1", trace="t1"):
        structlog.get_logger("x").info("card.sent", to="mara", text="a\nb")
    (event,) = events(lines)
    assert event.pop("timestamp")
    assert event == {
        "level": "info",
        "event": "card.sent",
        "to": "mara",
        "text": "a\nb",
        "approval": "ap_1",
        "run": "run_1",
        "trace": "t1",
    }


@pytest.mark.parametrize("lines", ["json", "console"], indirect=True)
def test_no_secret_reaches_either_format(lines: io.StringIO) -> None:
    """Tokens, passwords in URLs and configured arguments are removed at every depth."""
    log = structlog.get_logger("x")
    log.info(
        "card.sent",
        to=f"approvals+{TOKEN}@example.com",
        bearer=f"Bearer signoff_abcdefghij_{TOKEN}{TOKEN}",
        args={"iban": IBAN, "amount": 1, "more": [{"IBAN": IBAN}, (("pin", "4711"),)]},
        url="redis://user:hunter2@host:6379/0",
        pin="4711",
        as_json=json.dumps({"iban": IBAN, "amount": 1}),
        as_nested_json=json.dumps({"body": json.dumps({"iban": IBAN})}),
        as_repr=repr({"iban": IBAN}),
        as_list=json.dumps({"iban": ["a", IBAN]}),
        as_text=f"iban={IBAN}, amount=1",
        error=ValueError(f"iban: {IBAN}"),
    )
    logging.getLogger("celery").warning("amqp://guest:hunter2@host iban=%s", IBAN)
    text = lines.getvalue()
    assert len(text.splitlines()) == 2
    for secret in (TOKEN, "hunter2", "1203 0000"):
        assert secret not in text
    assert HIDDEN in text
    assert "amount" in text


def test_redactor_keeps_other_names_and_values() -> None:
    """Names that only contain a configured name, and all other values, stay."""
    redactor = Redactor(("pin",))
    event = {"spinning": "yes", "n": 1, "none": None, "flag": True, "list": [1.5], "t": "pinned: x"}
    assert redactor(None, "info", dict(event)) == event


def test_a_redactor_has_an_end() -> None:
    """A value that contains itself is cut off."""
    knot: list[object] = []
    knot.append(knot)
    assert HIDDEN in str(Redactor()(None, "info", {"knot": knot}))


@pytest.mark.parametrize("lines", ["json", "console"], indirect=True)
def test_an_exception_stays_on_its_line(lines: io.StringIO) -> None:
    """Programs get the whole traceback as a value, and people a short form."""
    try:
        int("too much")
    except ValueError:
        structlog.get_logger("x").exception("run.failed")
    logging.getLogger("uvicorn.error").error("gone", exc_info=RuntimeError("lost"))
    first, second = lines.getvalue().splitlines()
    assert "ValueError: invalid literal" in first
    assert "RuntimeError: lost" in second


def test_libraries_speak_up_from_warning_on(lines: io.StringIO) -> None:
    """Their lower messages are dropped; warnings have the same form with the library's name."""
    for name in ("celery.worker", "kombu", "mail.log", "uvicorn.access", "google_adk.runner"):
        logging.getLogger(name).info("chatter")
        logging.getLogger(name).warning("complaint")
    assert {event["logger"] for event in events(lines)} == {
        "celery.worker",
        "kombu",
        "mail.log",
        "uvicorn.access",
        "google_adk.runner",
    }
    assert {event["event"] for event in events(lines)} == {"complaint"}


def test_the_level_is_the_least_severe_that_is_written() -> None:
    """`level = "error"` drops warnings of Signoff and of libraries."""
    stream = io.StringIO()
    configure(LogSettings(format="json", level="error"), stream=stream)
    structlog.get_logger("x").warning("w")
    logging.getLogger("celery").warning("w")
    structlog.get_logger("x").error("e")
    assert [event["event"] for event in events(stream)] == ["e"]


def test_log_flood_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten thousand events at a time, a thousand are written; of tracebacks, fifty."""
    # The clock stands still, because a busy machine could take longer than the period of a limit.
    monkeypatch.setattr("signoff.cli.log.Bounds", lambda: Bounds(lambda: 0.0))
    lines = io.StringIO()
    configure(LogSettings(format="json"), stream=lines)
    for number in range(10_000):
        structlog.get_logger("x").warning("door.refused", number=number)
        logging.getLogger("uvicorn.error").error(
            "request %s", number, exc_info=RuntimeError("lost")
        )
    structlog.get_logger("x").warning("something.else")
    counts = Counter((one.get("logger", ""), one["level"]) for one in events(lines))
    assert counts == {("", "warning"): 1001, ("uvicorn.error", "error"): 50}
    assert events(lines)[-1]["event"] == "something.else"


def test_next_log_event_counts_the_dropped_events() -> None:
    """The first later event has the number of dropped ones."""
    now = 0.0
    bounds = Bounds(lambda: now)
    said: list[object] = []
    records: list[object] = []
    for number in range(2_503):
        now = 0.0 if number < 2_500 else 10.0
        with contextlib.suppress(structlog.DropEvent):
            said.append(bounds(None, "info", {"event": "door.refused"}).get("held_back"))
        record = logging.LogRecord("kombu", logging.WARNING, "k.py", 1, "lost %s", ("it",), None)
        records += [record.getMessage()] if bounds.filter(record) else []
    assert said[999:] == [None, 1_500, None, None]
    assert records[999:] == ["lost it", "lost it (held back before: 1500)", "lost it", "lost it"]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("amqp://guest:guest@host//", "amqp://guest:***@host//"),
        ("redis://host/0", "redis://host/0"),
        ("redis://:half@other@host/0", "redis://:***@host/0"),
        ("redis://host/0?password=open&db=1", "redis://host/0?password=***&db=1"),
        (
            "postgresql+asyncpg://host/x?user=u&password=open",
            "postgresql+asyncpg://host/x?user=u&password=***",
        ),
        (
            "sentinel://a/0?master=x&sentinel_password=open",
            "sentinel://a/0?master=x&sentinel_password=***",
        ),
    ],
)
def test_urls_are_shown_without_passwords(url: str, shown: str) -> None:
    """The user name stays, to tell two accounts apart."""
    assert hide_passwords(url) == shown
