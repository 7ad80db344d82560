"""What tests, demos and load tests stand on instead of the outside world."""

from signoff.testing.channel import FakeChannel
from signoff.testing.clock import VirtualClock
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
from signoff.testing.timeline import timeline

__all__ = [
    "FakeChannel",
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
