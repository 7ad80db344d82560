"""The findings of `signoff doctor`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["good", "warning", "broken"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        about: What was checked.
        level: Whether it works.
        text: The result as text, with the remedy if something is wrong.
    """

    about: str
    level: Level
    text: str

    def as_json(self) -> dict[str, Any]:
        """Return the finding as JSON."""
        return asdict(self)
