"""The idempotency key of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from signoff.worker.adk.idempotency import idempotency_key


@dataclass
class _Session:
    app_name: str = "finance"
    user_id: str = "riley"
    id: str = "s1"


@dataclass
class _Context:
    session: _Session
    function_call_id: str | None


def key(call: str, session: _Session | None = None) -> str:
    """Return the key of a call."""
    return idempotency_key(cast("Any", _Context(session or _Session(), call)))


def test_idempotency_key_depends_only_on_session_and_call() -> None:
    """The key depends only on the session and the call."""
    assert key("adk-1") == key("adk-1")
    assert len(key("adk-1")) == 32
    assert len({key("adk-1"), key("adk-2"), key("adk-1", _Session(id="s2"))}) == 3
