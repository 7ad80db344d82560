"""What a plain yes or no means to an agent that asks for input without a schema."""

from collections.abc import Mapping, Sequence

from pydantic import Field, JsonValue

from signoff.core.approvals.input.form import REASON_NAMES
from signoff.core.base.errors import ConditionError
from signoff.core.base.model import Value
from signoff.core.payloads.digest import require_canonical
from signoff.core.policies import conditions

WHEN_NAMES = ("app", "agent", "message", "payload")
"""What `when` can use: three strings, and the payload of the request as a map."""


class InputRule(Value):
    """[[inputs]]: what an agent gets for a yes or no. The first match applies."""

    app: str = Field("", max_length=64, description="Only in this app. The default is every app.")
    when: str = Field(
        "",
        description="A CEL expression over app, agent, message and payload. Only requests for "
        "which it is true. The default is every request without a response schema.",
    )
    yes: JsonValue = Field("approve", description="What the agent gets for a plain approval.")
    no: JsonValue = Field(
        "reject",
        description="What the agent gets for a rejection or a timeout. A text called `reason`, "
        "`comment` or the like, in it or in `yes`, is replaced by the approver's "
        "reason.",
    )


def check(rule: InputRule) -> None:
    """Refuse a rule that can never work.

    Raises:
        ConditionError: `when` does not parse, uses an unknown name, or is not a boolean.
        NotCanonical: `yes` or `no` is not JSON.
    """
    require_canonical(rule.yes, "The yes of [[inputs]]")
    require_canonical(rule.no, "The no of [[inputs]]")
    if rule.when:
        conditions.check(rule.when, WHEN_NAMES)


def rule_for(
    rules: Sequence[InputRule], *, app: str, agent: str, args: Mapping[str, JsonValue]
) -> InputRule | None:
    """Return the rule for a request, None if there is none.

    Args:
        rules: The rules, in order.
        app: The app.
        agent: The agent that asks.
        args: The `message` and `payload` of the request.
    """
    message, payload = args.get("message"), args.get("payload")
    facts: dict[str, JsonValue] = {
        "app": app,
        "agent": agent,
        "message": message if isinstance(message, str) else "",
        "payload": payload if isinstance(payload, dict) else {},
    }
    for rule in rules:
        if rule.app not in {"", app}:
            continue
        try:
            if not rule.when or conditions.holds(rule.when, facts):
                return rule
        except ConditionError:
            continue
    return None


def answer_of(rule: InputRule | None, *, yes: bool, reason: str) -> JsonValue:
    """Return what the agent gets for a plain yes or no.

    Without a rule this is the word itself, followed by the reason.
    """
    if rule is None:
        word = "approve" if yes else "reject"
        return f"{word}: {reason}" if reason else word
    value = rule.yes if yes else rule.no
    if not isinstance(value, dict) or not reason:
        return value
    takes = [name for name in value if name.casefold() in REASON_NAMES]
    return {**value, **({takes[0]: reason} if takes else {})}
