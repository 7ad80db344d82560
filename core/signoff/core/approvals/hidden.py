"""The parts of an approval without the values that its policy hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from signoff.core.approvals.parts import Decision, Program, ToolCall
from signoff.core.base.hiding import (
    schema_without_hidden,
    without_hidden,
    without_hidden_text,
    without_secrets,
)
from signoff.core.payloads.payload import LONE_FIELD

_SCHEMA = "response_schema"


def call_without_hidden(call: ToolCall, hide: Sequence[str]) -> ToolCall:
    """Return a call without what is hidden in its arguments."""
    args = without_hidden(call.args, hide)
    schema = call.args.get(_SCHEMA)
    if isinstance(schema, dict):
        # The form of a request for input is built from the schema, which contains few values.
        args[_SCHEMA] = schema_without_hidden(schema, hide)
    return call.model_copy(update={"args": args})


def decision_without_hidden(one: Decision, hide: Sequence[str], secrets: Sequence[str]) -> Decision:
    """Return a decision without hidden values in its payload, proposal or reason.

    See `signoff.core.base.hiding.secrets_in` for `secrets`.
    """
    return one.model_copy(
        update={
            "payload": values_without_hidden(one.payload, hide),
            "proposal": None if one.proposal is None else without_hidden(one.proposal, hide),
            "reason": without_secrets(one.reason, secrets),
        }
    )


def program_without_hidden(one: Program, hide: Sequence[str], secrets: Sequence[str]) -> Program:
    """Return the request of a program without hidden values; see `decision_without_hidden`.

    It contains a second copy of the arguments, as they were sent.
    """

    def clean(text: str) -> str:
        return without_secrets(without_hidden_text(text, hide), secrets)

    report = one.report
    return one.model_copy(
        update={
            "arguments": clean(one.arguments),
            "context": clean(one.context),
            "reasoning": one.reasoning and without_secrets(one.reasoning, secrets),
            "report": report and report.model_copy(update={"note": clean(report.note)}),
        }
    )


def values_without_hidden(
    value: JsonValue, hide: Sequence[str], *, blanks: bool = True
) -> JsonValue:
    """Return a payload or a template without hidden values; a single value is called ``value``.

    Args:
        value: The values, None if there are none.
        hide: Names and paths.
        blanks: See `signoff.core.base.hiding.without_hidden`.
    """
    if value is None or not hide:
        return value
    if isinstance(value, Mapping):
        return without_hidden(value, hide, blanks=blanks)
    return without_hidden({LONE_FIELD: value}, hide, blanks=blanks)[LONE_FIELD]
