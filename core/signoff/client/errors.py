"""What a client of the REST API can meet."""

from __future__ import annotations

from signoff.client.models import Problem
from signoff.core.base.errors import SignoffError


class ApiUnreachable(SignoffError):
    """The gateway could not be reached, after several tries.

    What was asked for may have been done; to ask again with the same key is safe.
    """


class ApiError(SignoffError):
    """The gateway did not do what was asked.

    Args:
        problem: Why, in the gateway's words.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.title}: {problem.detail}" if problem.detail else problem.title)
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def kind(self) -> str:
        """The last part of the problem's type: ``already-decided``."""
        return self.problem.type.rpartition(":")[2]
