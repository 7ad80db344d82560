"""Converts between ADK's objects and plain data for the vocabulary of the sandbox.

Each object of the vocabulary is a dictionary with its class under "signoff". The sandbox converts
the dictionary to the object, and back.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final

from google.adk.agents.context import Context
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from signoff.worker.ces.errors import CodeFailed

Plain = dict[str, Any]

_OWN: Final = ("adk_", "signoff_")


def variables(context: Context) -> Plain:
    """Return the session state that code can see: plain data with a value.

    ADK cannot remove an entry from a session's state, so a removed entry has the value None.
    """
    return {
        key: value
        for key, value in context.state.to_dict().items()
        if value is not None and not key.startswith(_OWN) and is_plain(value)
    }


def context_of(context: Context, state: Plain, *, call_id: str | None = None) -> Plain:
    """Return the `ToolContext` of a call, or a `CallbackContext` without a call id.

    Args:
        context: The context of ADK.
        state: The variables, see `variables`.
        call_id: The id of the call.
    """
    made: Plain = {
        "signoff": "CallbackContext" if call_id is None else "ToolContext",
        "user_content": content_of(context.user_content),
        "invocation_id": context.invocation_id,
        "agent_name": context.agent_name,
        "session_id": context.session.id,
        "state": state,
        "events": [_event(one) for one in context.session.events if _is_of_the_talk(one)],
    }
    return made if call_id is None else {**made, "function_call_id": call_id}


def content_of(content: types.Content | None) -> Plain | None:
    """Return a `Content`, without parts of kinds that the vocabulary does not have."""
    if content is None:
        return None
    parts = [part for one in content.parts or [] if (part := _part(one)) is not None]
    return {"signoff": "Content", "parts": parts, "role": content.role}


def request_of(request: LlmRequest) -> Plain:
    """Return the `LlmRequest` of a call of the model."""
    instruction = request.config.system_instruction
    return {
        "signoff": "LlmRequest",
        "model": request.model,
        "contents": [content_of(one) for one in request.contents],
        "config": {
            "signoff": "GenerateContentConfig",
            "system_instruction": instruction
            if isinstance(instruction, str) or instruction is None
            else _texts(instruction),
            "tools": [
                {
                    "signoff": "ToolDeclaration",
                    "function_declarations": [
                        {
                            "signoff": "FunctionDeclaration",
                            "name": one.name,
                            "description": one.description,
                        }
                        for one in tool.function_declarations or []
                    ],
                }
                for tool in request.config.tools or []
                if isinstance(tool, types.Tool)
            ],
            "excluded_tools": None,
        },
    }


def response_of(response: LlmResponse) -> Plain:
    """Return the `LlmResponse` of the model."""
    return {
        "signoff": "LlmResponse",
        "content": content_of(response.content),
        "partial": response.partial,
    }


def tool_of(tool: BaseTool) -> Plain:
    """Return the `Tool` for a callback."""
    return {"signoff": "Tool", "name": tool.name, "description": tool.description}


def to_content(plain: Any, code: str) -> types.Content:
    """Return ADK's content for a `Content` or an `LlmResponse`.

    Raises:
        CodeFailed: It is neither.
    """
    if isinstance(plain, dict) and plain.get("signoff") == "LlmResponse":
        plain = plain.get("content")
    if isinstance(plain, dict) and plain.get("signoff") == "Content":
        parts = [_to_part(one, code) for one in plain.get("parts") or []]
        return types.Content(role=plain.get("role") or "model", parts=parts)
    raise CodeFailed(f"{code} returned {_name(plain)}; a Content or an LlmResponse was wanted.")


def to_response(plain: Any, code: str) -> LlmResponse:
    """Return ADK's response for an `LlmResponse` that a callback has returned.

    Raises:
        CodeFailed: It is not an `LlmResponse`.
    """
    if not isinstance(plain, dict) or plain.get("signoff") != "LlmResponse":
        raise CodeFailed(f"{code} returned {_name(plain)}; an LlmResponse or None was wanted.")
    # `partial` is dropped: ADK would not store a partial response in the session.
    return LlmResponse(content=to_content(plain, code))


def change_request(request: LlmRequest, before: Plain, after: Plain, code: str) -> None:
    """Apply a callback's changes to the request: model, contents, instruction, hidden tools."""
    if after["model"] != before["model"]:
        request.model = after["model"]
    if after["contents"] != before["contents"]:
        request.contents = [to_content(one, code) for one in after["contents"]]
    config, was = after["config"] or {}, before["config"]
    if config.get("system_instruction") != was["system_instruction"]:
        said = config.get("system_instruction")
        request.config.system_instruction = _instruction(said, code)
    _hide(request, config.get("excluded_tools") or [])


def _instruction(said: Any, code: str) -> types.Content | str | None:
    return said if said is None or isinstance(said, str) else to_content(said, code)


def _hide(request: LlmRequest, names: list[str]) -> None:
    for name in names:
        request.tools_dict.pop(name, None)
    tools = [one for one in request.config.tools or [] if isinstance(one, types.Tool)]
    for tool in tools:
        declared = tool.function_declarations or []
        kept = [one for one in declared if one.name not in names]
        if declared and not kept and request.config.tools is not None:
            request.config.tools.remove(tool)
        tool.function_declarations = kept if declared else tool.function_declarations


def _event(event: Event) -> Plain:
    actions = event.actions
    return {
        "signoff": "Event",
        "id": event.id,
        "invocation_id": event.invocation_id,
        "author": event.author,
        "timestamp": int(event.timestamp),
        "content": content_of(event.content),
        "actions": {
            "signoff": "EventActions",
            "skip_summarization": actions.skip_summarization,
            "state_delta": {k: v for k, v in actions.state_delta.items() if is_plain(v)},
            "artifact_delta": dict(actions.artifact_delta),
            "transfer_to_agent": actions.transfer_to_agent,
            "escalate": actions.escalate,
            # The code does not get credentials.
            "requested_auth_configs": {key: {} for key in actions.requested_auth_configs},
            "end_invocation": getattr(actions, "end_of_agent", None),
        },
        "long_running_tool_ids": sorted(event.long_running_tool_ids)
        if event.long_running_tool_ids
        else None,
        "partial": event.partial,
        "turn_complete": event.turn_complete,
        "error_code": event.error_code,
        "error_message": event.error_message,
        "interrupted": event.interrupted,
        "branch": event.branch,
        "grounding_metadata": event.grounding_metadata.model_dump(mode="json", exclude_none=True)
        if event.grounding_metadata
        else None,
    }


def _is_of_the_talk(event: Event) -> bool:
    """Return whether an event belongs to the conversation, not to ADK's own bookkeeping."""
    names = [
        *(one.name or "" for one in event.get_function_calls()),
        *(one.name or "" for one in event.get_function_responses()),
    ]
    return not any(name.startswith("adk_") for name in names)


def _part(part: types.Part) -> Plain | None:
    made: Plain = {"signoff": "Part"}
    if part.function_call is not None:
        call = part.function_call
        made["function_call"] = {
            "signoff": "FunctionCall",
            "id": call.id,
            "name": call.name,
            "args": _json(call.args),
        }
    elif part.function_response is not None:
        given = part.function_response
        made["function_response"] = {
            "signoff": "FunctionResponse",
            "id": given.id,
            "name": given.name,
            "response": _json(given.response),
        }
    elif part.inline_data is not None:
        blob = part.inline_data
        made["inline_data"] = {
            "signoff": "Blob",
            "display_name": blob.display_name,
            "mime_type": blob.mime_type,
            "data": base64.b64encode(blob.data or b"").decode(),
        }
    elif part.text is not None and not part.thought:
        made["text"] = part.text
    else:
        return None
    return made


def _to_part(plain: Any, code: str) -> types.Part:
    if not isinstance(plain, dict) or plain.get("signoff") != "Part":
        raise CodeFailed(f"{code} returned {_name(plain)} among its parts; a Part was wanted.")
    if (call := plain.get("function_call")) is not None:
        return types.Part(
            function_call=types.FunctionCall(
                id=call["id"], name=call["name"], args=call["args"] or {}
            )
        )
    if (given := plain.get("function_response")) is not None:
        return types.Part(
            function_response=types.FunctionResponse(
                id=given["id"], name=given["name"], response=given["response"]
            )
        )
    if (blob := plain.get("inline_data")) is not None:
        return types.Part(
            inline_data=types.Blob(
                data=base64.b64decode(blob["data"] or ""),
                mime_type=blob["mime_type"],
                display_name=blob["display_name"],
            )
        )
    return types.Part(text=plain.get("text") or "")


def _texts(instruction: Any) -> Plain:
    content = types.Content(role="user", parts=_parts_of(instruction))
    return content_of(content) or {}


def _parts_of(instruction: Any) -> list[types.Part]:
    match instruction:
        case types.Content():
            return instruction.parts or []
        case types.Part():
            return [instruction]
        case str():
            return [types.Part(text=instruction)]
        case list():
            return [part for one in instruction for part in _parts_of(one)]
    return []


def _json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def is_plain(value: Any) -> bool:
    """Return whether a value is plain JSON data."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _name(plain: Any) -> str:
    if isinstance(plain, dict) and "signoff" in plain:
        return str(plain["signoff"])
    return type(plain).__name__
