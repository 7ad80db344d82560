"""An answer that does not count is a client error, in the ADK API as in the REST API."""

from __future__ import annotations

import pytest

from signoff.core.base.errors import (
    Claimed,
    DecisionRefused,
    Escalated,
    NotShownInFull,
    NotYourTurn,
    SignoffError,
)
from signoff.worker.adk_api.problems import problem_of


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (Claimed, 409, "claimed"),
        (Escalated, 409, "escalated"),
        (NotYourTurn, 409, "not-your-turn"),
        (NotShownInFull, 403, "not-shown-in-full"),
        (DecisionRefused, 403, "refused"),
    ],
)
def test_refused_answer_is_not_a_server_error(
    error: type[SignoffError], status: int, kind: str
) -> None:
    """Status 500 would make clients try again."""
    problem = problem_of(error.__new__(error, "no"))
    assert (problem.status, problem.kind) == (status, kind)
    assert problem.document()["type"] == f"urn:signoff:problem:{kind}"
