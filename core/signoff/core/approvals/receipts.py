"""The payload of a receipt: a signed statement about a decision (RFC 7515).

The process that decides signs the receipt, and the process that runs the tool verifies it. The
statement is derived from the approval alone, so it does not match an approval that was changed
later.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.parts import approval_id
from signoff.core.payloads.digest import require_canonical

ISSUER: Final = "signoff"

DECIDED: Final = frozenset({State.APPROVED, State.REJECTED})
"""The states that need a receipt, because they pass a person's decision to the agent. The other
final states pass no decision, and a worker may set them."""


def statement(approval: Approval) -> dict[str, JsonValue]:
    """Return the statement of a receipt about a decided approval.

    It has only hashes of values and of texts that people wrote, because receipts are passed on.
    """
    decision, terms, origin = approval.decision, approval.terms, approval.origin
    said: dict[str, JsonValue] = {
        "iss": ISSUER,
        "sub": approval.id,
        "state": approval.state.value,
        "kind": approval.kind.value,
        "tool": approval.call.name,
        "digest": approval.digest,
        "app": origin.app,
        "user": origin.user,
        "run": origin.run,
        "policy": terms.policy if terms is not None else "",
        "policy_version": terms.version if terms is not None else "",
        "valid_for": _seconds(approval),
        "by": list(approval.decided_by),
    }
    if approval.is_wide:
        said |= {"agent": origin.agent, "declared": approval.declared}
    if decision is not None:
        said |= {
            "iat": int(decision.at.timestamp()),
            "at": decision.at.isoformat(),
            "channel": decision.channel,
            "reason": _hash(decision.reason),
            "values": _hash(decision.payload),
            "proposal": _hash(decision.proposal),
            "grant": decision.grant,
        }
    if (glass := approval.glass) is not None:
        said["glass"] = {
            "by": glass.by,
            "at": glass.at.isoformat(),
            "reason": _hash(glass.reason),
            "despite": list(glass.despite),
        }
    return said


def claims(
    approval: Approval, *, proof: Mapping[str, JsonValue], entry: str
) -> dict[str, JsonValue]:
    """Return the payload of a receipt.

    Args:
        approval: The decided approval.
        proof: The audit's details about how the identity of the person was proven.
        entry: The SHA-256 of the audit entry about the decision, from which its link is computed.
    """
    return {**statement(approval), "proof": dict(proof), "entry": entry}


def why_not_about(approval: Approval, said: Mapping[str, object]) -> str:
    """Return why a receipt does not match the present approval, "" if it does."""
    if approval.id != approval_id(approval.origin):
        return "its id does not belong to its session and call"
    if approval.digest != approval.digest_of(approval.call.name, approval.call.args):
        return "its digest is not that of its call"
    for name, value in statement(approval).items():
        if said.get(name) != value:
            return f"its {name} is not what was signed"
    if "glass" in said and approval.glass is None:
        return "its glass is not what was signed"
    return ""


def _seconds(approval: Approval) -> JsonValue:
    terms = approval.terms
    if terms is None or terms.valid_for is None:
        return None
    return int(terms.valid_for.total_seconds())


def _hash(value: JsonValue) -> JsonValue:
    if value is None or value == "":
        return None
    canonical = require_canonical(value, "What a decision says")
    return "sha256:" + hashlib.sha256(canonical).hexdigest()
