"""Long-running tools whose calls wait for an approver, and the results that they get.

A `LongRunningFunctionTool` returns something like ``{"status": "pending", "ticket": "t-17"}``, and
its result comes later, as a function response with the id of the call. ADK does not define who
sends the result. For a tool in ``[[long_running]]``, an approver gives it.
"""

from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import ConditionError, NotCanonical
from signoff.core.base.model import Value
from signoff.core.payloads.digest import require_canonical
from signoff.core.policies import conditions

WHEN_NAMES = ("app", "tool", "args", "result")
"""What `when` can use: two strings and two maps."""

RESPONSE_NAMES = (
    "approved",
    "status",
    "reason",
    "values",
    "proposal",
    "by",
    "app",
    "tool",
    "args",
    "result",
)
"""What `response` can use: `approved` is true or false; `values`, `proposal`, `args` and `result`
are maps, which may be empty; the others are strings."""

_PROPOSED = (
    "The approver would approve other arguments. If that serves the user, call the tool again with "
    "exactly the arguments of the proposal."
)


class LongRunning(Value):
    """[[long_running]]: a long-running tool that an approver answers. The first match applies."""

    tool: str = Field(
        min_length=1, max_length=128, description="The name of the `LongRunningFunctionTool`."
    )
    app: str = Field("", max_length=64, description="Only in this app. The default is every app.")
    when: str = Field(
        "",
        description="A CEL expression over app, tool, args and result (the preliminary result). "
        "Only calls for which it is true wait. The default is every call.",
    )
    payload: JsonValue = Field(
        None,
        description="A template for the approver's values, as in "
        "`request_confirmation(payload=…)`.",
    )
    response: str = Field(
        "",
        description="A CEL expression for the result of the call, a map, over approved, status, "
        "reason, values, proposal, by, app, tool, args and result. The default is the "
        "preliminary result with `status` (approved, rejected, timed_out, …) and "
        "`reason`.",
    )


def check(rule: LongRunning) -> None:
    """Refuse a rule that can never work.

    Raises:
        ConditionError: `when` or `response` does not parse, or uses an unknown name; `when` is not
            a boolean, or `response` is not a map.
        NotCanonical: The payload is not JSON.
    """
    require_canonical(rule.payload, f"The payload of {rule.tool}")
    if rule.when:
        conditions.check(rule.when, WHEN_NAMES)
    if rule.response:
        conditions.check(rule.response, RESPONSE_NAMES, gives=dict)


def rule_for(
    rules: Sequence[LongRunning],
    *,
    app: str,
    tool: str,
    args: Mapping[str, JsonValue],
    result: JsonValue,
) -> LongRunning | None:
    """Return the rule for a call that waits for an approval, None if there is none.

    A rule also applies if its `when` cannot be evaluated on this call. It also applies if its
    `when` uses the result and there is none because the worker died. An unnecessary question does
    no harm.
    """
    facts: dict[str, JsonValue] = {
        "app": app,
        "tool": tool,
        "args": dict(args),
        "result": result if isinstance(result, dict) else {},
    }
    for rule in rules:
        if rule.tool != tool or rule.app not in {"", app}:
            continue
        if not rule.when or (result is None and "result" in rule.when):
            return rule
        try:
            if conditions.holds(rule.when, facts):
                return rule
        except ConditionError:
            return rule
    return None


def result_of(
    rule: LongRunning | None, approval: Approval, result: JsonValue
) -> dict[str, JsonValue]:
    """Return the final result of a call that was decided.

    Args:
        rule: The rule of the tool, None if it was removed from the settings.
        approval: The decided approval.
        result: The preliminary result of the tool, None if there is none.

    Raises:
        ConditionError: The expression cannot be evaluated on this decision, or is not a map.
    """
    so_far = dict(result) if isinstance(result, dict) else {}
    if rule is None or not rule.response:
        return _usual(approval, so_far)
    decision = approval.decision
    payload = decision.payload if decision is not None else None
    facts: dict[str, JsonValue] = {
        "approved": approval.state is State.APPROVED,
        "status": approval.state.value,
        "reason": decision.reason if decision is not None else "",
        "values": payload if isinstance(payload, dict) else {},
        "proposal": (decision.proposal if decision is not None else None) or {},
        "by": decision.by if decision is not None else "",
        "app": approval.origin.app,
        "tool": approval.call.name,
        "args": dict(approval.call.args),
        "result": so_far,
    }
    try:
        built = conditions.value(rule.response, facts)
    except KeyError as error:
        raise ConditionError(f"{rule.response!r} uses {error}, which does not exist.") from error
    if not isinstance(built, dict):
        raise ConditionError(f"{rule.response!r} gives {type(built).__name__}, not a map.")
    try:
        require_canonical(built, f"What {rule.response!r} gives")
    except NotCanonical as error:
        raise ConditionError(str(error)) from error
    return built


def _usual(approval: Approval, so_far: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the preliminary result of the tool, updated with the decision."""
    told: dict[str, JsonValue] = {**so_far, "status": approval.state.value}
    decision = approval.decision
    if decision is None:
        return told
    if decision.reason:
        told["reason"] = decision.reason
    if decision.payload is not None:
        told["values"] = decision.payload
    if decision.by and approval.terms is not None and approval.terms.name_approver:
        told["decided_by"] = decision.by
    if decision.proposal is not None:
        told["proposal"] = {"tool": approval.call.name, "args": decision.proposal}
        told["what_to_do"] = _PROPOSED
    return told
