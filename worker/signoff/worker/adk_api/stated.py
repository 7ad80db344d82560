"""Reads a function response: whether it approves the call, and with which values.

There are three kinds of waiting calls. Each is answered under the name of its call, as in ADK:

- ``adk_request_confirmation``, and ``adk_request_input`` of a node that asks whether it may run:
  ``{"confirmed": true, "payload": …}``.
- ``adk_request_input``: the answer itself; a value that is not an object is wrapped in
  ``{"result": …}``.
- a long-running tool: ``{"confirmed": true, "payload": …}`` too. The settings build the tool's
  result from it, for answers of all channels.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from pydantic import JsonValue

from signoff.core.approvals.answers import form_of
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.form import Form
from signoff.core.approvals.masking import masked
from signoff.core.approvals.parts import INPUT, Kind
from signoff.core.base.text import brief, clean_text
from signoff.core.payloads.payload import LONE_FIELD, LONGEST_TEXT, check_payload
from signoff.core.payloads.schema import misfit
from signoff.worker.adk.questions import CONFIRMATION, is_node
from signoff.worker.adk_api.bodies import SentAnswer, parse_json, wrong_field
from signoff.worker.adk_api.problems import Problem, unknown_name

_ANSWER_KEYS = frozenset({"confirmed", "payload", "hint"})
"""The fields of ADK's ToolConfirmation; it sends the hint back unchanged."""


@dataclass(frozen=True, slots=True)
class Stated:
    """An answer to a waiting call.

    Attributes:
        yes: Whether it approves the call.
        values: The values of the answer, by field; None if there are none.
        reason: The reason of a rejection.
    """

    yes: bool
    values: dict[str, JsonValue] | None = None
    reason: str = ""


def name_of(approval: Approval) -> str:
    """Return the name under which the call of an approval is answered."""
    if approval.kind is Kind.INPUT or is_node(approval):
        return INPUT
    return approval.call.name if approval.kind is Kind.LONG_RUNNING else CONFIRMATION


def stated_in(approval: Approval, answer: SentAnswer) -> Stated:
    """Return the answer in a function response to the call of an approval.

    Raises:
        Problem: 400 for a name other than that of the call, 422 for an answer of another form.
        PayloadError: A value does not fit, or there is one too many.
    """
    if answer.name != name_of(approval):
        raise unknown_name(
            f"function_response.name is {brief(answer.name)!r}; "
            f"this call is answered as {name_of(approval)!r}."
        )
    if approval.kind is Kind.INPUT:
        return _of_input(form_of(approval.call), answer.response)
    return _of_confirmation(approval, answer.response)


def _of_input(form: Form, given: JsonValue) -> Stated:
    yes, values = form.read(_unwrapped(form, given))
    return Stated(yes, values)


def _unwrapped(form: Form, given: JsonValue) -> JsonValue:
    """Return the answer in a response (google.adk.workflow.utils._rehydration_utils).

    ADK's page wraps the typed text, and ADK parses it as JSON if it can. A value that the schema
    declares as text stays text: "0042" does not become 42.
    """
    if not isinstance(given, dict) or set(given) != {"result"}:
        return given
    value = given["result"]
    if not isinstance(value, str) or (form.lone and misfit(form.schema, value) is None):
        return value
    with contextlib.suppress(Problem):
        return parse_json(value, "function_response.response.result")  # type: ignore[no-any-return]
    return value


def _of_confirmation(approval: Approval, given: JsonValue) -> Stated:
    # The form in which ADK's own clients wrap it (google.adk.tools.tool_confirmation).
    if isinstance(given, dict) and set(given) == {"response"}:
        inner = given["response"]
        given = (
            parse_json(inner, "function_response.response.response")
            if isinstance(inner, str)
            else inner
        )
    if not isinstance(given, dict):
        raise wrong_field("response", given, '{"confirmed": true}', "is a JSON object")
    for key in given:
        if key not in _ANSWER_KEYS:
            example = '{"confirmed": true, "payload": null}'
            raise wrong_field(key, given[key], example, "is not a field")
    confirmed = given.get("confirmed")
    if not isinstance(confirmed, bool):
        # ADK itself accepts "yes" and 1 as true; an approval must not be guessed.
        raise wrong_field("confirmed", confirmed, '"confirmed": true', "is true or false")
    payload = given.get("payload")
    if confirmed:
        return Stated(yes=True, values=values_of(approval, payload))
    # ADK's page sends back what it was shown, whatever is answered.
    shown = payload in (approval.template, approval.call.args)
    return Stated(yes=False, reason="" if shown else _reason(payload))


def values_of(approval: Approval, payload: JsonValue) -> dict[str, JsonValue] | None:
    """Return the payload of an approval as values by field.

    Args:
        approval: What is answered.
        payload: The payload as received; None without one.

    Raises:
        PayloadError: It has a key too many, or a value of another kind; see
            `signoff.core.payloads.payload.check_payload`.

    A template that comes back unchanged has no values: ADK's page sends it so, and values that
    nobody has chosen are not an approval.
    """
    if payload is None:
        return None
    payload, seen = _without_fixed(approval, payload), masked(approval)
    if approval.template is None:
        # Not a template, but the arguments that would be approved; see Approval.approve.
        checked = check_payload({} if payload == {} else dict(seen.call.args), payload)
    else:
        checked = check_payload(seen.template, payload)
        if checked == seen.template:
            return None
    if approval.template is not None and not isinstance(approval.template, dict):
        return {LONE_FIELD: checked}
    # Unchanged: the answer itself has to fill what a template leaves open.
    return payload if isinstance(payload, dict) else None


def _without_fixed(approval: Approval, payload: JsonValue) -> JsonValue:
    """Return a payload without hidden fields that come back as the client was shown them."""
    fixed, seen = approval.fixed, masked(approval)
    if not fixed or not isinstance(payload, dict):
        return payload
    shown = [one.call.args if one.template is None else one.template for one in (approval, seen)]
    fields = [one for one in shown if isinstance(one, dict)]
    return {
        name: value
        for name, value in payload.items()
        if name not in fixed or all(one.get(name) != value for one in fields)
    }


def _reason(payload: JsonValue) -> str:
    """Return the reason of a rejection; its other values have no meaning."""
    reason = payload.get("reason") if isinstance(payload, dict) else None
    if reason is None:
        return ""
    if not isinstance(reason, str) or len(reason) > LONGEST_TEXT:
        example = '"payload": {"reason": "over budget"}'
        raise wrong_field(
            "reason", reason, example, f"is text of at most {LONGEST_TEXT:,} characters"
        )
    # It is shown on cards and reaches a model.
    return clean_text(reason).strip()
