"""How code that is suspended inside of a tool call shows in ADK's request for a confirmation.

ADK asks about the tool call that carries the code. The call inside it, which an approver is asked
about, stands in the sealed snapshot; the payload of the request says where that is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

KEY: Final = "signoff_code"
"""The key in the payload of a `ToolConfirmation`."""


class CarriesCode:
    """Marks the tools whose calls carry code that can be suspended: `CesTool` alone."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A call inside of code that waits for an approval.

    Attributes:
        tool: What would be called.
        args: With what.
        sealed: The snapshot, "" where it is kept in the ledger.
        ref: Its name in the ledger, "" where it is not there.
        doubtful: Whether a worker died while it made this call, which may have happened.
    """

    tool: str
    args: dict[str, Any]
    sealed: str = ""
    ref: str = ""
    doubtful: bool = False

    def payload(self) -> dict[str, Any]:
        """Return the payload of the request for a confirmation."""
        return {KEY: asdict(self)}


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a worker hands to suspended code.

    Attributes:
        sealed: The snapshot.
        tool: The tool of the call that the answer is about.
        args: Its arguments.
        refused: Why the call was not approved; None where it was.
    """

    sealed: str
    tool: str
    args: dict[str, Any]
    refused: str | None = None


def claimed(payload: object) -> Suspended | None:
    """Return the suspended code that a payload speaks of, None where it speaks of none.

    Any tool can write such a payload, also one that a model has made up: only a seal that verifies
    (`signoff.worker.ces.seal`) says which call the code is suspended at.
    """
    said = payload.get(KEY) if isinstance(payload, dict) else None
    if not isinstance(said, dict) or not isinstance(said.get("args"), dict):
        return None
    return Suspended(
        str(said.get("tool")),
        said["args"],
        str(said.get("sealed") or ""),
        str(said.get("ref") or ""),
        doubtful=said.get("doubtful") is True,
    )
