"""A model on this machine with the APIs of OpenAI, Anthropic and Google.

It asks for one refund, and repeats the result of the tool.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

REFUND = {"order": "A-17", "amount": 49.5}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _tool(names: Iterator[str]) -> str:
    return next((one for one in names if one.endswith("refund")), "")


async def _chat(request: web.Request) -> web.Response:
    """Answer POST /v1/chat/completions."""
    body = await request.json()
    said = [_text(one["content"]) for one in body["messages"] if one["role"] == "tool"]
    tool = _tool(one["function"]["name"] for one in body.get("tools", []))
    message: dict[str, Any] = {"role": "assistant", "content": said[-1] if said else "hello"}
    if tool and not said:
        call = {"name": tool, "arguments": json.dumps(REFUND)}
        name = f"call_{uuid.uuid4().hex[:12]}"
        calls = [{"id": name, "type": "function", "function": call}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    reason = "tool_calls" if "tool_calls" in message else "stop"
    answer = {
        "id": "chat_1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    return web.json_response(answer)


async def _responses(request: web.Request) -> web.Response:
    """Answer POST /v1/responses."""
    body = await request.json()
    given = body["input"] if isinstance(body["input"], list) else []
    said = [_text(one["output"]) for one in given if one.get("type") == "function_call_output"]
    tool = _tool(one.get("name", "") for one in body.get("tools", []))
    name = uuid.uuid4().hex[:12]
    content = [{"type": "output_text", "text": said[-1] if said else "hello", "annotations": []}]
    output: dict[str, Any] = {
        "type": "message",
        "id": f"msg_{name}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }
    if tool and not said:
        output = {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": f"call_{name}",
            "name": tool,
            "arguments": json.dumps(REFUND),
            "status": "completed",
        }
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    answer = {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": [output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    return web.json_response(answer)


async def _gemini(request: web.Request) -> web.Response:
    """Answer POST /v1beta/models/MODEL:generateContent."""
    body = await request.json()
    parts = [part for one in body["contents"] for part in one.get("parts", [])]
    said = [
        _text(one["functionResponse"]["response"]) for one in parts if "functionResponse" in one
    ]
    tools = (one["name"] for tool in body.get("tools", []) for one in tool["functionDeclarations"])
    part: dict[str, Any] = {"text": said[-1] if said else "hello"}
    if (tool := _tool(tools)) and not said:
        part = {"functionCall": {"name": tool, "args": REFUND}}
    content = {"role": "model", "parts": [part]}
    candidates = [{"content": content, "finishReason": "STOP"}]
    return web.json_response({"candidates": candidates, "usageMetadata": {}})


async def _messages(request: web.Request) -> web.StreamResponse:
    """Answer POST /v1/messages, streamed or not."""
    body = await request.json()
    blocks = [
        part
        for one in body["messages"]
        if isinstance(one["content"], list)
        for part in one["content"]
    ]
    said = [_text(one.get("content", "")) for one in blocks if one["type"] == "tool_result"]
    tool = _tool(one.get("name", "") for one in body.get("tools", []))
    block: dict[str, Any] = {"type": "text", "text": said[-1] if said else "hello"}
    if tool and not said:
        name = f"toolu_{uuid.uuid4().hex[:20]}"
        block = {"type": "tool_use", "id": name, "name": tool, "input": REFUND}
    reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{uuid.uuid4().hex[:20]}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }
    if not body.get("stream"):
        return web.json_response(message)
    nothing: dict[str, Any] = {"input": {}} if reason == "tool_use" else {"text": ""}
    empty = {**block, **nothing}
    delta = (
        {"type": "input_json_delta", "partial_json": json.dumps(REFUND)}
        if reason == "tool_use"
        else {"type": "text_delta", "text": block["text"]}
    )
    start = {**message, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    for event in events:
        await answer.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
    return answer


@asynccontextmanager
async def model() -> AsyncIterator[dict[str, str]]:
    """Serve the model; yield the variables that lead the clients of all three APIs to it."""
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", _chat)
    app.router.add_post("/v1/responses", _responses)
    app.router.add_post("/v1beta/models/{model}", _gemini)
    app.router.add_post("/v1/messages", _messages)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield {
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_BASE": f"{url}/v1",
            "OPENAI_API_KEY": "sk-none",
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-none",
            "ENABLE_TOOL_SEARCH": "false",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GOOGLE_API_KEY": "none",
            "CREWAI_TRACING_ENABLED": "false",
            "CREWAI_DISABLE_TELEMETRY": "true",
            "OTEL_SDK_DISABLED": "true",
        }
    finally:
        await runner.cleanup()
