"""The scopes of API tokens; the client needs them without the rest of the domain."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """A permission of a token."""

    RUNS_SUBMIT = "runs:submit"
    RUNS_READ = "runs:read"
    APPROVALS_READ = "approvals:read"
    APPROVALS_DECIDE = "approvals:decide"
    APPROVALS_WITHDRAW = "approvals:withdraw"
    AUDIT_READ = "audit:read"
    INSTANCES_MANAGE = "instances:manage"
    """Create instances of the Agent Approval Protocol: for provisioners."""
    REQUESTS_SUBMIT = "requests:submit"
    """Make requests by the Agent Approval Protocol: the credential of an instance."""
    ADMIN = "admin"
    """See everything and withdraw any request. It cannot submit or decide."""
