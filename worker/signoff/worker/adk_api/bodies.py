"""Reads the bodies of requests; what cannot be used is refused, not ignored."""

import json
import math
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from fastapi import Request
from google.genai import types
from pydantic import JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from signoff.core.base.text import brief
from signoff.worker.adk.questions import CONFIRMATION
from signoff.worker.adk_api.problems import Body, Problem, invalid, misformed, unknown_name

LARGEST: Final = 1 << 20
"""The largest body, in bytes."""

_DRAINED: Final = 16 * LARGEST


class RunRequest(Body):
    """The body of ``/run`` and ``/run_sse`` (RunAgentRequest of google.adk.cli.api_server)."""

    app_name: str
    user_id: str
    session_id: str
    new_message: dict[str, Any] | None = None
    streaming: bool = False
    state_delta: dict[str, Any] | None = None
    function_call_event_id: str | None = None
    invocation_id: str | None = None
    custom_metadata: dict[str, Any] | None = None
    service_tier: str | None = None


@dataclass(frozen=True, slots=True)
class SentAnswer:
    """One function response, as it was sent.

    Attributes:
        call: The id of the call that it answers.
        name: The name of that call.
        response: Its content; `signoff.worker.adk_api.stated` reads it.
    """

    call: str
    name: str
    response: JsonValue


async def read_object(request: Request, *, optional: bool = False) -> dict[str, Any]:
    """Return the JSON object in the body of a request; {} for no body if it is optional.

    Raises:
        Problem: 413 for a body over `LARGEST`, 415 for another media type, 400 for invalid JSON.
    """
    body = await _read(request)
    if optional and not body.strip():
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != (
        "application/json"
    ):
        raise Problem(
            415,
            "media-type",
            "The body is not JSON",
            "Send the body with `Content-Type: application/json`.",
        )
    parsed = parse_json(body, "The body")
    if not isinstance(parsed, dict):
        raise misformed("It is not a JSON object.")
    return parsed


async def _read(request: Request) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > _DRAINED:
        raise _too_large()
    body = bytearray()
    length = 0
    async for chunk in request.stream():
        length += len(chunk)
        if length > _DRAINED:
            break
        # A client reads the response only after it has sent everything: the rest is discarded.
        if length <= LARGEST:
            body += chunk
    if length > LARGEST:
        raise _too_large()
    return bytes(body)


def _too_large() -> Problem:
    return Problem(
        413,
        "too-large",
        "The body is too large",
        f"A request may have {LARGEST:,} bytes; this one was not read.",
    )


def parse_json(text: bytes | str, what: str) -> Any:  # noqa: ANN401 -- JSON
    """Parse JSON that every parser reads in the same way (RFC 8259, section 4; RFC 7493).

    Parsers disagree about a name that occurs twice, so the approved values would depend on the
    parser. Such a name is refused, and so are NaN and infinite numbers.

    Raises:
        Problem: 400, with the reason.
    """
    try:
        decoded = text.decode() if isinstance(text, bytes) else text
        parsed = json.loads(
            decoded,
            object_pairs_hook=_unique,
            parse_constant=_no_number,
            parse_float=_finite,
        )
        # JSON can contain a lone surrogate, which is not valid text.
        json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(
            400, "not-json", "This is not JSON", f"{what} is not JSON that can be read: {why}."
        ) from error
    return parsed


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name {brief(twice)!r} is given twice in one object")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{brief(text)} is too large for a number")
    return number


def read_request(body: dict[str, Any]) -> tuple[RunRequest, str | list[SentAnswer]]:
    """Return a request to run an agent, and its message: a text, or answers.

    Raises:
        Problem: 400 for text and answers in one message, and for an unknown name; 422 for
            everything else that would be dropped or misunderstood.
    """
    try:
        request = RunRequest.model_validate(body)
    except ValidationError as error:
        raise invalid(error) from error
    dropped = [
        to_camel(name)
        for name in ("state_delta", "custom_metadata", "service_tier")
        if getattr(request, name)
    ]
    if dropped:
        raise misformed(
            f"{', '.join(dropped)} would be dropped on the way to the worker. State can be set "
            "by PATCH of the session, before the message."
        )
    message = _content(request.new_message)
    parts = message.parts or []
    kinds = [frozenset(part.model_dump(exclude_none=True)) for part in parts]
    words = [part.text or "" for part, kind in zip(parts, kinds, strict=True) if kind == {"text"}]
    responses = [part.function_response for part in parts if part.function_response is not None]
    if words and responses:
        raise Problem(
            400,
            "mixed",
            "Words and answers in one message",
            "A message is either text, which the agent reads, or function_response parts, which "
            "answer what it asked. Send two messages.",
        )
    if responses and all(kind == {"function_response"} for kind in kinds):
        return request, _answers(responses)
    if not words or len(words) < len(parts):
        raise misformed(
            "newMessage.parts needs at least one part, and each part is either `text` alone or "
            "`functionResponse` alone: other content cannot be carried to the worker."
        )
    if request.invocation_id:
        raise misformed("invocationId goes with an answer; a text begins an invocation of its own.")
    return request, "\n".join(words)


def _content(message: dict[str, Any] | None) -> types.Content:
    if message is None:
        raise misformed("newMessage is missing: there is nothing to tell the agent.")
    try:
        content = types.Content.model_validate(message)
    except ValidationError as error:
        raise invalid(error, at="/newMessage") from error
    if content.role not in {None, "user"}:
        raise misformed(f"newMessage.role is {brief(content.role or '')!r}; only users speak here.")
    return content


def _answers(responses: list[types.FunctionResponse]) -> list[SentAnswer]:
    answers = [_answer(one) for one in responses]
    if len({one.call for one in answers}) < len(answers):
        raise misformed("One message answers a call twice.")
    return answers


def _answer(response: types.FunctionResponse) -> SentAnswer:
    if not response.name:
        raise unknown_name(
            "function_response.name is missing; it is that of the call that waits, such as "
            f"{CONFIRMATION!r}."
        )
    if not response.id or set(response.model_dump(exclude_none=True)) - {"id", "name", "response"}:
        raise misformed(
            "function_response has exactly id, name and response; id is that of the call that "
            f"waits, such as {CONFIRMATION}."
        )
    return SentAnswer(response.id, response.name, response.response)


def wrong_field(key: str, read: object, example: str, wanted: str) -> Problem:
    """Return the problem for a wrong field of an answer."""
    shown = brief(json.dumps(read, ensure_ascii=False, default=str))
    return Problem(
        422,
        "payload",
        "The answer has the wrong form",
        f'"{brief(key)}" {wanted}; I read {shown}. For example: {example}',
        key=brief(key),
        read=shown,
        example=example,
    )
