"""Refused requests as problem documents (RFC 9457), the same at every HTTP API of Signoff."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Self

from pydantic import JsonValue

from signoff.core.base.errors import (
    AbsenceRefused,
    AlreadyDecided,
    ApprovalNotFound,
    Claimed,
    Conflict,
    DecisionRefused,
    Escalated,
    FreezeRefused,
    GrantNotFound,
    GrantRefused,
    IllegalMove,
    InvalidRun,
    LeaseLost,
    LedgerUnavailable,
    NotAnApprover,
    NotCanonical,
    NotShownInFull,
    NotYourTurn,
    OwnRequest,
    PayloadError,
    RunNotFound,
    SecondFactorNeeded,
    SecondStepNeeded,
    SignoffError,
    TooLate,
)

MEDIA_TYPE: Final = "application/problem+json"
"""The media type of a problem document."""

Kinds = Mapping[type[SignoffError], tuple[int, str, str]]
"""Status, type and title of an error; any other error is a failure of ours (500)."""

KINDS: Final[Kinds] = {
    ApprovalNotFound: (404, "not-found", "There is no such approval"),
    RunNotFound: (404, "not-found", "There is no such run"),
    OwnRequest: (403, "own-request", "Nobody decides their own request"),
    NotAnApprover: (403, "not-an-approver", "This person is not asked"),
    NotShownInFull: (403, "not-shown-in-full", "Not all of the call was shown"),
    SecondStepNeeded: (403, "second-step-needed", "It takes a second step that is not taken here"),
    SecondFactorNeeded: (403, "second-factor-needed", "It takes a second factor"),
    AlreadyDecided: (409, "already-decided", "It has been decided before"),
    Claimed: (409, "claimed", "Somebody else has reserved it"),
    Escalated: (409, "escalated", "Others are asked by now"),
    NotYourTurn: (409, "not-your-turn", "Others are asked first"),
    TooLate: (409, "too-late", "The answer came after the deadline"),
    DecisionRefused: (403, "refused", "The answer does not count"),
    GrantNotFound: (404, "not-found", "There is no such grant"),
    FreezeRefused: (409, "freeze-refused", "It is frozen already, or is not"),
    GrantRefused: (409, "grant-refused", "No such grant can be given, or it has ended"),
    AbsenceRefused: (422, "absence", "The absence cannot be noted"),
    IllegalMove: (409, "not-pending", "It does not wait for an answer any more"),
    Conflict: (409, "conflict", "Somebody else changed it at the same moment"),
    LeaseLost: (409, "in-flight", "The same request is being carried out"),
    PayloadError: (422, "payload", "The values do not fit the request"),
    NotCanonical: (422, "payload", "The values cannot be kept"),
    InvalidRun: (422, "invalid", "This cannot be submitted"),
    LedgerUnavailable: (503, "unavailable", "Signoff cannot reach its Redis"),
}
"""The errors that a request can meet at any API."""

_UNAVAILABLE: Final = 503


class BaseProblem(Exception):
    """A request is not carried out; nothing was stored. Each API writes it as its own response.

    Args:
        status: The HTTP status.
        kind: The last part of the problem's type: ``urn:signoff:problem:<kind>``.
        title: What every problem of this kind is (RFC 9457, section 3.1.4).
        detail: What is wrong with this request, and what to do.
        headers: Headers of the response.
        more: Further members of the document (RFC 9457, section 3.2).
    """

    retry_after: ClassVar[int] = 5
    """Seconds after which to try again what was unavailable."""

    def __init__(
        self,
        status: int,
        kind: str,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: JsonValue,
    ) -> None:
        super().__init__(detail)
        self.status, self.kind, self.title, self.detail = status, kind, title, detail
        retry = {"Retry-After": f"{self.retry_after}"} if status == _UNAVAILABLE else {}
        self.headers, self.more = {**retry, **(headers or {})}, more

    @classmethod
    def of(cls, error: SignoffError, kinds: Kinds) -> Self:
        """Return the problem that an error is for the client."""
        found = next((kinds[one] for one in type(error).__mro__ if one in kinds), None)
        if found is None:
            return cls(500, "internal", "Signoff has failed", str(error))
        problem = cls(*found, str(error))
        if isinstance(error, PayloadError):
            problem.more |= {"key": error.key, "read": error.read, "example": error.example}
        return problem

    def document(self) -> dict[str, JsonValue]:
        """Return the problem document."""
        return {
            "type": f"urn:signoff:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }
