"""The objects of the protocol as JSON. Numbers keep every digit.

The objects refuse unknown fields and nulls. The arguments of a tool and the context are any JSON;
their text is stored and returned as it was sent.
"""

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic_core import from_json

from signoff.channels.aap.faults import invalid
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.parts import Program
from signoff.core.approvals.programs import note_of, permission
from signoff.core.base.plain import plainly

T = TypeVar("T", bound=BaseModel)

DURATION: Final = r"^[1-9][0-9]*(s|m|h)$"
LONGEST: Final = timedelta(days=30)
"""The longest time for a decision; a longer one is shortened to it."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_MOST_DIGITS: Final = 9
_STATES: Final = {
    State.PENDING: "pending",
    State.APPROVED: "approved",
    State.REJECTED: "denied",
    State.TIMED_OUT: "expired",
    State.WITHDRAWN: "cancelled",
    State.SUPERSEDED: "cancelled",
}
_DECODER: Final = json.JSONDecoder()
_BLANK: Final = re.compile(r"[ \t\n\r]*")


class Wire(BaseModel):
    """A protocol object: no other fields, no nulls, no conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Submission(Wire):
    """A request for an approval: `CreateApprovalRequest`."""

    tool: str = Field(min_length=1, max_length=512)
    arguments: dict[str, Any]
    timeout: str = Field(pattern=DURATION)
    server: str = Field("", min_length=1, max_length=512)
    agent_reasoning: str = ""
    context: dict[str, Any] = Field(default_factory=dict)


class Outcome(Wire):
    """The reported outcome of a call."""

    status: str = Field(pattern="^(succeeded|failed)$")
    note: str = Field("", min_length=1)


class DeliveryInput(Wire):
    """The receiver of an instance's notifications: `WebhookDeliveryInput`."""

    type: str
    url: str = Field(max_length=2000)
    registration_id: str = Field(pattern=r"^[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")
    signing_secret: str = Field(pattern=r"^whsec_[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$")


class Provision(Wire):
    """A new instance, or changes of one: `ProvisionInstanceRequest`."""

    instance_name: str = Field("", min_length=1, max_length=64)
    delivery: DeliveryInput | None = None


def loads(body: bytes) -> Any:  # noqa: ANN401 -- JSON
    """Parse JSON; fractions become decimals.

    Raises:
        Fault: It is not JSON, or an object has a duplicate key.
    """
    try:
        # Stricter than `json`: it refuses lone surrogates and deep nesting.
        from_json(body)
        return json.loads(
            body.decode(),
            object_pairs_hook=_once_each,
            parse_float=_fraction,
            parse_constant=_refuse_constant,
        )
    except ValueError as error:
        raise invalid(f"The body is not JSON: {error}.", code="invalid_json") from error


def read(kind: type[T], body: bytes) -> T:
    """Parse a body as an object of the protocol.

    Raises:
        Fault: It has another form.
    """
    return validated(kind, loads(body))


def validated(kind: type[T], value: object) -> T:
    """Return a parsed value as an object of the protocol; see `read`."""
    if isinstance(value, dict):
        for name, one in value.items():
            if one is None:
                raise invalid(f"{name}: null is not allowed. Leave it out.", name)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise invalid(f"{where or 'the body'}: {plainly(first)}.", where) from error


def members(body: bytes) -> dict[str, str]:
    """Return the members of a JSON object that `loads` accepts, by name, as parts of its text."""
    text = body.decode()
    found: dict[str, str] = {}
    at = _BLANK.match(text, 0).end() + 1  # type: ignore[union-attr] # it matches the empty text
    while True:
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr] # the same
        if text[at] == "}":
            return found
        name, at = _DECODER.raw_decode(text, at)
        at = _BLANK.match(text, at).end() + 1  # type: ignore[union-attr] # the same
        start = _BLANK.match(text, at).end()  # type: ignore[union-attr] # the same
        _, at = _DECODER.raw_decode(text, start)
        found[name] = text[start:at]
        at = _BLANK.match(text, at).end()  # type: ignore[union-attr] # the same
        at += text[at] == ","


def same(one: Any, other: Any) -> bool:  # noqa: ANN401 -- JSON
    """Return whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    match one, other:
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
    numbers = isinstance(one, int | Decimal) and isinstance(other, int | Decimal)
    return one == other if numbers or type(one) is type(other) else False


def shown(value: Any) -> JsonValue:  # noqa: ANN401 -- JSON
    """Return a value in the form that people and policies see.

    A fraction that a binary number would change becomes a string of its digits, so that exactly
    the shown value runs.
    """
    match value:
        case Decimal():
            near = float(value)
            return near if math.isfinite(near) and Decimal(repr(near)) == value else str(value)
        case dict():
            return {name: shown(one) for name, one in value.items()}
        case list():
            return [shown(one) for one in value]
    given: JsonValue = value
    return given


def length_of(duration: str) -> timedelta:
    """Return the length of a duration, at most `LONGEST`."""
    count = duration[:-1]
    if len(count) > _MOST_DIGITS:
        return LONGEST
    return min(timedelta(seconds=int(count) * _UNITS[duration[-1]]), LONGEST)


def is_same_request(program: Program, submission: Submission) -> bool:
    """Return whether a request was submitted with the same values."""
    mine = (program.tool, program.server, program.timeout, program.reasoning)
    sent = submission.model_fields_set
    reasoning = submission.agent_reasoning if "agent_reasoning" in sent else None
    if mine != (submission.tool, submission.server, submission.timeout, reasoning):
        return False
    if bool(program.context) != ("context" in sent):
        return False
    kept = [loads(one.encode()) for one in (program.arguments, program.context or "{}")]
    return same(kept, [submission.arguments, submission.context])


def request_text(approval: Approval) -> str:
    """Return a request in the form of the protocol: `ApprovalRequest`.

    Raises:
        NotStartable: It is not a program's.
    """
    program, until = permission(approval)
    fields: dict[str, object] = {"id": program.request, "tool": program.tool}
    if program.server:
        fields["server"] = program.server
    fields["timeout"] = program.timeout
    if program.reasoning is not None:
        fields["agent_reasoning"] = program.reasoning
    fields |= {
        "status": _STATES[approval.state],
        "created_at": stamp(approval.opened_at),
        "deadline_at": stamp(program.until),
        **_decision(approval, until),
        **_consumption(program),
    }
    raw = {"arguments": program.arguments, "context": program.context}
    parts = [f'"{name}":{text}' for name, text in raw.items() if text]
    return json.dumps(fields, ensure_ascii=True)[:-1] + "," + ",".join(parts) + "}"


def _decision(approval: Approval, until: datetime | None) -> Mapping[str, object]:
    if approval.decision is None:
        return {}
    status, note = _STATES[approval.state], note_of(approval)
    decision = {"status": status, "decided_at": stamp(approval.decision.at)}
    if note:
        decision["note"] = note
    if until is not None:
        decision["expires_at"] = stamp(until)
    return {"decision": decision}


def _consumption(program: Program) -> Mapping[str, object]:
    if program.consumed_at is None:
        return {}
    found: dict[str, object] = {"consumed_at": stamp(program.consumed_at)}
    if (said := program.report) is not None:
        outcome = {"status": "succeeded" if said.succeeded else "failed"}
        outcome |= {"note": said.note} if said.note else {}
        found["outcome"] = {**outcome, "reported_at": stamp(said.at)}
    return {"consumption": found}


def stamp(at: datetime) -> str:
    """Return a time in the form of the protocol (RFC 3339, UTC)."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _fraction(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"the exponent of {text} is too large") from error


def _refuse_constant(name: str) -> Any:  # noqa: ANN401 -- as json has it
    raise ValueError(f"{name} is not JSON")
