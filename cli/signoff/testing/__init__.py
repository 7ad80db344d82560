"""What tests, demos and load tests stand on instead of the outside world."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from signoff.testing.channel import FakeChannel
from signoff.testing.clock import VirtualClock
from signoff.testing.timeline import timeline

if TYPE_CHECKING:
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


def __getattr__(name: str) -> Any:  # noqa: ANN401 -- what the models have
    # Channels and policies are tested where no agent framework is installed, too.
    if name in __all__:
        module = "rehearsal" if name == "Rehearsal" else "model"
        return getattr(import_module(f"signoff.testing.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
