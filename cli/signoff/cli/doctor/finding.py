"""What `signoff doctor` finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["good", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        about: What.
        level: How it is.
        text: In words, with what to do where something is wrong.
    """

    about: str
    level: Level
    text: str

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)
