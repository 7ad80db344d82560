"""The scopes of API tokens; the client needs them without the rest of the domain."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """What a token is good for."""

    RUNS_SUBMIT = "runs:submit"
    RUNS_READ = "runs:read"
    APPROVALS_READ = "approvals:read"
    APPROVALS_DECIDE = "approvals:decide"
    APPROVALS_WITHDRAW = "approvals:withdraw"
    AUDIT_READ = "audit:read"
    INSTANCES_MANAGE = "instances:manage"
    """Makes instances that ask by the Agent Approval Protocol: a provisioner token."""
    REQUESTS_SUBMIT = "requests:submit"
    """Asks by the Agent Approval Protocol: the credential of an instance."""
    ADMIN = "admin"
    """Sees everything, and takes back any question. It does not submit, and it decides nothing."""
