"""The meaning of an approval or a rejection for each kind: a payload, an answer or a proposal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue

from signoff.core.approvals.input.form import (
    Form,
    GivenAnswer,
    read_form,
)
from signoff.core.approvals.parts import Kind, ToolCall
from signoff.core.base.errors import PayloadError
from signoff.core.payloads.digest import digest
from signoff.core.payloads.payload import (
    check_payload,
    example_value,
    fields_of,
    fill,
    missing_fields,
)
from signoff.core.replies.examples import example_of_approval


class Meaning(NamedTuple):
    """The meaning of an answer.

    Attributes:
        payload: The values for the tool, or the answer to a request for input.
        proposal: The arguments that the person would approve instead of the shown ones.
    """

    payload: JsonValue = None
    proposal: dict[str, JsonValue] | None = None


def form_of(call: ToolCall) -> Form:
    """Return the form of a request for input."""
    return read_form(call.args.get("response_schema"))


def asks_freely(kind: Kind, call: ToolCall) -> bool:
    """Return whether any text or JSON answers this request."""
    return kind is Kind.INPUT and form_of(call).free


def template_of(kind: Kind, call: ToolCall, template: JsonValue) -> JsonValue:
    """Return the payload template that a person fills in."""
    return form_of(call).template if kind is Kind.INPUT else template


def example_of_yes(kind: Kind, call: ToolCall, template: JsonValue) -> str:
    """Return an answer that would approve, for help texts."""
    return form_of(call).example() if kind is Kind.INPUT else example_of_approval(template)


def meaning_of_yes(
    kind: Kind,
    call: ToolCall,
    template: JsonValue,
    values: Mapping[str, JsonValue] | None,
    reason: str,
) -> Meaning:
    """Return the meaning of an approval with these values.

    Without a template, a call runs exactly as it was shown. Values that differ from its arguments
    are then a proposal.

    Raises:
        PayloadError: The values do not fit the template, the schema or the arguments, or some are
            missing.
    """
    if kind is Kind.INPUT:
        return Meaning(payload=form_of(call).accept(values, reason))
    if template is None and values:
        proposal = check_payload(call.args, dict(values))
        if isinstance(proposal, dict) and digest(call.name, proposal) != digest(
            call.name, call.args
        ):
            return Meaning(proposal=proposal)
        values = None
    if lacking := missing_fields(template, values):
        example = example_value(fields_of(template)[lacking[0]])
        raise PayloadError(
            f"An approval of {call.name}() needs a value for {', '.join(lacking)}.",
            key=lacking[0],
            read="",
            example=f"{lacking[0]}: {example}",
        )
    return Meaning(payload=fill(template, values))


def refusal_of_input(
    call: ToolCall, reason: str, values: Mapping[str, JsonValue] | None = None
) -> GivenAnswer | None:
    """Return the answer to a request for input that says no, None if the form has none.

    Raises:
        PayloadError: The values do not fit the form.
    """
    return form_of(call).refuse(reason, values)
