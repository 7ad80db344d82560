"""The errors of the REST API client."""

from __future__ import annotations

from signoff.client.models import Problem
from signoff.core.base.errors import SignoffError


class ApiUnreachable(SignoffError):
    """The gateway could not be reached, after several tries.

    The request may have been carried out. It is safe to send it again with the same key.
    """


class ApiError(SignoffError):
    """The gateway refused or failed to carry out the request, or another server has answered.

    Args:
        problem: The problem document of the gateway.
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
