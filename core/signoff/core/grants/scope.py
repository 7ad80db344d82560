"""The scope of a grant: which calls are like the one that was approved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

from pydantic import Field, JsonValue

from signoff.core.approvals.approval import Approval, Kind
from signoff.core.base.errors import ConditionError, NotCanonical
from signoff.core.base.model import Value
from signoff.core.payloads.digest import require_canonical
from signoff.core.policies import conditions
from signoff.core.policies.grant_rules import GrantRules

_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


class Scope(Value):
    """The calls that a grant covers: calls like the one that it came from.

    Texts are equal when they are the same characters, and numbers when they are the same value;
    a number, its digits as a text and a truth value are three different things. See
    `signoff.core.payloads.digest`.

    Attributes:
        app: The agent's folder.
        agent: The agent that calls the tool.
        tool: The tool.
        user: The user id of the session: the requester.
        kind: What is asked for.
        policy: The name of the policy that the calls fall under.
        args: The arguments that have to be equal.
        vary: The JSON types of the arguments whose values may differ, by name. They have to be
            there, and of this type: a default that nobody has seen is no value.
        limits: CEL expressions that have to be true of each call.
    """

    app: str
    agent: str
    tool: str
    user: str
    kind: Kind
    policy: str
    args: dict[str, JsonValue]
    vary: dict[str, str] = Field(default_factory=dict)
    limits: tuple[str, ...] = ()

    @classmethod
    def of(cls, approval: Approval, rules: GrantRules, *, limit: str = "") -> Self:
        """Return the calls like this one, as far as the rules of its policy let them differ."""
        origin, args = approval.origin, approval.call.args
        return cls(
            app=origin.app,
            agent=origin.agent,
            tool=approval.call.name,
            user=origin.user,
            kind=approval.kind,
            policy=approval.terms.policy if approval.terms else "",
            args={name: value for name, value in args.items() if name not in rules.vary},
            vary={name: json_type(args[name]) for name in sorted(args) if name in rules.vary},
            limits=tuple(dict.fromkeys(one for one in (rules.limit, limit) if one.strip())),
        )

    def why_not(self, approval: Approval) -> str:
        """Say why a call is outside; "" where it is inside. Never raises."""
        for name, ours, theirs in (
            ("app", self.app, approval.origin.app),
            ("agent", self.agent, approval.origin.agent),
            ("tool", self.tool, approval.call.name),
            ("requester", self.user, approval.origin.user),
            ("kind", self.kind, approval.kind),
        ):
            if ours != theirs:
                return f"it is for another {name}"
        args = approval.call.args
        if {name: json_type(args[name]) for name in self.vary if name in args} != self.vary:
            return "an argument that may vary is missing, or is of another type"
        fixed = {name: value for name, value in args.items() if name not in self.vary}
        try:
            if require_canonical(fixed, "they") != require_canonical(self.args, "they"):
                return "the arguments differ"
            outside = next((one for one in self.limits if not _holds(one, approval)), "")
        except (ConditionError, NotCanonical) as error:
            return str(error)
        return f"it is outside of {outside}" if outside else ""


def json_type(value: JsonValue) -> str:
    """Return the JSON type of a value; what is none has a name of its own, equal to no other."""
    return _JSON_TYPES.get(type(value), type(value).__name__)


def _holds(source: str, approval: Approval) -> bool:
    return conditions.holds(source, approval.facts)
