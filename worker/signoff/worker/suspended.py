"""How ADK's request for a confirmation refers to code that is suspended inside of a tool call.

ADK asks about the tool call that contains the code. The inner call, which an approver is asked
about, is in a sealed snapshot; the payload of the request says where the snapshot is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

KEY: Final = "signoff_code"
"""The key in the payload of a `ToolConfirmation`."""


class CarriesCode:
    """Marks a tool whose code can be suspended; only `CesTool` is one."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """A call of suspended code that waits for an approval.

    Attributes:
        tool: The tool that would be called.
        args: The arguments of the call.
        sealed: The snapshot; "" if it is in the ledger.
        ref: The name of the snapshot in the ledger; "" if it is not there.
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
    """The answer with which suspended code resumes.

    Attributes:
        sealed: The snapshot.
        tool: The tool of the call that the answer is about.
        args: Its arguments.
        refused: Why the call was not approved; None if it was.
    """

    sealed: str
    tool: str
    args: dict[str, Any]
    refused: str | None = None


def claimed(payload: object) -> Suspended | None:
    """Return the suspended code that a payload claims to be about; None if it claims nothing.

    Any tool, and so a model, can write such a payload. Only a valid seal
    (`signoff.worker.ces.seal`) proves the call at which the code is suspended.
    """
    claim = payload.get(KEY) if isinstance(payload, dict) else None
    if not isinstance(claim, dict) or not isinstance(claim.get("args"), dict):
        return None
    return Suspended(
        str(claim.get("tool")),
        claim["args"],
        str(claim.get("sealed") or ""),
        str(claim.get("ref") or ""),
        doubtful=claim.get("doubtful") is True,
    )
