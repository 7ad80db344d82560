"""Problem documents for refused requests (RFC 9457), the same in all HTTP APIs of Signoff."""

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
    ReasonContradicts,
    RunNotFound,
    SecondFactorNeeded,
    SecondStepNeeded,
    SignoffError,
    TooLate,
)

MEDIA_TYPE: Final = "application/problem+json"
"""The media type of a problem document."""

Kinds = Mapping[type[SignoffError], tuple[int, str, str]]
"""The status, type and title of each error; any other error is an internal one (500)."""

KINDS: Final[Kinds] = {
    ApprovalNotFound: (404, "not-found", "There is no such approval"),
    RunNotFound: (404, "not-found", "There is no such run"),
    OwnRequest: (403, "own-request", "Nobody decides their own request"),
    NotAnApprover: (403, "not-an-approver", "This person is not an approver"),
    NotShownInFull: (403, "not-shown-in-full", "The channel did not show the whole call"),
    SecondStepNeeded: (403, "second-step-needed", "The approval needs a second step"),
    SecondFactorNeeded: (403, "second-factor-needed", "A second factor is needed"),
    AlreadyDecided: (409, "already-decided", "It is already decided"),
    Claimed: (409, "claimed", "Somebody else has claimed it"),
    Escalated: (409, "escalated", "It was escalated to other people"),
    NotYourTurn: (409, "not-your-turn", "Others are asked first"),
    TooLate: (409, "too-late", "The answer came after the deadline"),
    DecisionRefused: (403, "refused", "The answer does not count"),
    GrantNotFound: (404, "not-found", "There is no such grant"),
    FreezeRefused: (409, "freeze-refused", "It is already frozen, or is not frozen"),
    GrantRefused: (409, "grant-refused", "No such grant can be given, or it has ended"),
    AbsenceRefused: (422, "absence", "The absence cannot be noted"),
    IllegalMove: (409, "not-pending", "It is not pending"),
    Conflict: (409, "conflict", "Somebody else changed it first"),
    LeaseLost: (409, "in-flight", "The same request is being carried out"),
    ReasonContradicts: (422, "reason-contradicts", "The reason contradicts the approval"),
    PayloadError: (422, "payload", "The values do not fit the request"),
    NotCanonical: (422, "payload", "The values cannot be stored"),
    InvalidRun: (422, "invalid", "This cannot be submitted"),
    LedgerUnavailable: (503, "unavailable", "Signoff cannot reach its Redis"),
}
"""The errors that all APIs can return."""

_UNAVAILABLE: Final = 503


class BaseProblem(Exception):
    """A refused request, for which nothing was stored. Each API returns it in its own response.

    Args:
        status: The HTTP status.
        kind: The last part of the problem's type: ``urn:signoff:problem:<kind>``.
        title: The title of all problems of this kind (RFC 9457, section 3.1.4).
        detail: What is wrong with this request, and what to do.
        headers: The headers of the response.
        more: Further members of the document (RFC 9457, section 3.2).
    """

    retry_after: ClassVar[int] = 5
    """The seconds after which to try again if Redis was unavailable."""

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
        """Return the problem for an error."""
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
