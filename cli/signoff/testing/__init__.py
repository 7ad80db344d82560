"""Replacements for models, channels and clocks in tests, demos and load tests."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from signoff.testing.clock import VirtualClock
from signoff.testing.timeline import timeline

if TYPE_CHECKING:
    from signoff.testing.channel import FakeChannel
    from signoff.testing.model import (
        Reply,
        Script,
        ScriptedModel,
        ToolCall,
        ToolResult,
        Turn,
        finance_script,
        model_or_script,
        time_off_script,
    )
    from signoff.testing.rehearsal import Rehearsal

__all__ = [
    "FakeChannel",
    "Rehearsal",
    "Reply",
    "Script",
    "ScriptedModel",
    "ToolCall",
    "ToolResult",
    "Turn",
    "VirtualClock",
    "finance_script",
    "model_or_script",
    "time_off_script",
    "timeline",
]

_ELSEWHERE: Final = {"FakeChannel": "channel", "Rehearsal": "rehearsal"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- any of the names in `__all__`
    # Lazy: tests of channels and policies also run without an agent framework, and agents with a
    # scripted model do not need the ledger.
    if name in __all__:
        module = _ELSEWHERE.get(name, "model")
        return getattr(import_module(f"signoff.testing.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
