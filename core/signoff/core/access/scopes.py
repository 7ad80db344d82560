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
    ADMIN = "admin"
    """Sees everything, and takes back any question. It does not submit, and it decides nothing."""
