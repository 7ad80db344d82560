"""The errors of the protocol."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Final

from starlette.responses import JSONResponse, Response

from signoff.core.base.errors import (
    ApprovalNotFound,
    Conflict,
    DecisionRefused,
    Frozen,
    IllegalMove,
    LeaseLost,
    LedgerUnavailable,
    NotCanonical,
    ProgramRefused,
    SignoffError,
)

HEADER: Final = "X-Request-ID"
"""The header of every response with the id of the exchange; errors repeat the id."""

_TYPES: Final = {
    400: "invalid_request",
    401: "authentication",
    403: "authorization",
    404: "not_found",
    405: "invalid_request",
    408: "invalid_request",
    409: "conflict",
    413: "invalid_request",
    415: "invalid_request",
    422: "invalid_request",
    429: "rate_limit",
    500: "internal",
    503: "dependency",
}
_RETRY_AFTER: Final = "2"
_BUSY: Final = (503, "unavailable", "Signoff cannot do this now. Send it again.", "")
_FAULTS: Final[Mapping[type[SignoffError], tuple[int, str, str, str]]] = {
    Frozen: (409, "tool_frozen", "", ""),
    IllegalMove: (409, "already_terminal", "", ""),
    DecisionRefused: (409, "refused", "", ""),
    ApprovalNotFound: (404, "not_found", "There is no such request for this token.", ""),
    NotCanonical: (400, "invalid_field", "", "arguments"),
    Conflict: _BUSY,
    LeaseLost: _BUSY,
    LedgerUnavailable: _BUSY,
}
"""Status, code, message and field of an error; "" takes the error's own message."""


class Fault(Exception):
    """A request is refused; nothing was stored.

    Args:
        status: The HTTP status.
        code: The reason, for programs.
        message: The reason, for people.
        param: The invalid field, "" for none.
        retry_after: Seconds after which to send it again, 0 for none.
    """

    def __init__(
        self, status: int, code: str, message: str, *, param: str = "", retry_after: int = 0
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.param = status, code, message, param
        self.retry_after = retry_after

    def response(self) -> Response:
        """Return the response of the protocol."""
        exchange = str(uuid.uuid4())
        error = {
            "type": _TYPES.get(self.status, "invalid_request"),
            "code": self.code,
            "message": self.message,
            **({"param": self.param} if self.param else {}),
            "request_id": exchange,
        }
        headers = {HEADER: exchange}
        if self.retry_after or self.status == 503:
            headers["Retry-After"] = str(self.retry_after or _RETRY_AFTER)
        if self.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="signoff"'
        return JSONResponse({"error": error}, self.status, headers=headers)


def invalid(message: str, param: str = "", code: str = "invalid_field") -> Fault:
    """Return the fault for a request in the wrong form."""
    return Fault(400, code, message, param=param)


def not_found() -> Fault:
    """Return the fault for a missing object, and for one that belongs to another instance."""
    return Fault(404, "not_found", "There is no such request or instance for this token.")


def fault_of(error: SignoffError) -> Fault:
    """Translate an error into a fault."""
    if isinstance(error, ProgramRefused):
        return Fault(409, error.code, str(error))
    for kind, (status, code, message, param) in _FAULTS.items():
        if isinstance(error, kind):
            return Fault(status, code, message or str(error), param=param)
    return Fault(500, "internal", "Signoff has failed. Its log says why.")
