"""A language model without an API key: a function from the conversation to the next reply.

A run may start and resume in different processes, so the model keeps no state between calls: it
uses only the request that ADK gives it.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

DEFAULT_MODEL = "gemini-flash-latest"
"""The model of the examples if there is a key and `SIGNOFF_MODEL` is not set."""


@dataclass(frozen=True)
class ToolCall:
    """A tool call that the model makes."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolResult:
    """The last response of a tool to one call, with the arguments of the call."""

    name: str
    response: Mapping[str, Any]
    args: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    """None for an id that ADK has created, because ADK removes these ids from requests."""

    @property
    def waiting(self) -> bool:
        """Whether this is the placeholder of a call that waits for a decision."""
        words = " ".join(str(self.response.get(key, "")) for key in ("status", "error")).lower()
        return any(sign in words for sign in ("requires confirmation", "pending", "is required"))

    @property
    def refusal(self) -> str | None:
        """Why the call was refused or has failed; None if it has succeeded or still waits."""
        if self.waiting:
            return None
        reason = self.response.get("reason") or self.response.get("error")
        if reason is None and "reject" in str(self.response.get("status", "")).lower():
            reason = self.response["status"]
        return None if reason is None else str(reason)


@dataclass(frozen=True)
class Turn:
    """The conversation as a script sees it: the user's last message, and the results so far."""

    user_text: str
    tool_results: tuple[ToolResult, ...] = ()
    tools: tuple[str, ...] = ()


Reply = str | ToolCall | Sequence[str | ToolCall]
"""The reply of a script: a text, a call, or several of them in one message."""

Script = Callable[[Turn], Reply]
"""A pure function: the same turn must get the same reply in every process."""


class ScriptedModel(BaseLlm):
    """A model whose replies come from a script.

    `delay` is the seconds that it waits before each reply, for load tests.
    """

    model: str = "scripted"
    script: Script
    delay: float = 0.0

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the reply as one response, also in a stream."""
        if self.delay:
            await asyncio.sleep(self.delay)
        reply = self.script(read_turn(llm_request))
        yield LlmResponse(
            content=types.Content(role="model", parts=_parts(reply)),
            # ADK logs a warning if a model does not report its usage.
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=0, candidates_token_count=0, total_token_count=0
            ),
        )


def _parts(reply: Reply) -> list[types.Part]:
    pieces = [reply] if isinstance(reply, str | ToolCall) else reply
    return [
        types.Part(text=piece)
        if isinstance(piece, str)
        else types.Part(function_call=types.FunctionCall(name=piece.name, args=dict(piece.args)))
        for piece in pieces
    ]


def read_turn(request: LlmRequest) -> Turn:
    """Return the turn of a request, for a script."""
    contents = list(request.contents)
    start, text = _last_user_text(contents)
    return Turn(
        user_text=text,
        tool_results=_results(contents[start:]),
        tools=tuple(request.tools_dict),
    )


def _last_user_text(contents: list[types.Content]) -> tuple[int, str]:
    for index in range(len(contents) - 1, -1, -1):
        parts = contents[index].parts or []
        texts = [part.text for part in parts if part.text]
        # ADK reports the actions of other agents as messages of the user that begin like this.
        retold = bool(texts) and texts[0].startswith("For context:")
        if contents[index].role == "user" and texts and not retold:
            return index, "\n".join(texts)
    return 0, ""


def _results(contents: list[types.Content]) -> tuple[ToolResult, ...]:
    """Pair calls and responses by id, or in their order if ADK has removed the ids."""
    calls: list[types.FunctionCall] = []
    answers: dict[int, types.FunctionResponse] = {}
    for part in (part for content in contents for part in content.parts or []):
        if part.function_call:
            calls.append(part.function_call)
        elif response := part.function_response:
            mine = [
                at
                for at, call in enumerate(calls)
                if (call.name, call.id) == (response.name, response.id)
            ]
            if mine:
                # A later response to the same call replaces the earlier one.
                answers[next((at for at in mine if at not in answers), mine[-1])] = response
    return tuple(
        ToolResult(
            name=response.name or "",
            response=response.response or {},
            args=calls[at].args or {},
            id=response.id,
        )
        for at, response in sorted(answers.items())
    )


def model_or_script(script: Script) -> str | BaseLlm:
    """Return the model of `SIGNOFF_MODEL` (or Gemini Flash) if there is a key, else the script.

    So an example runs without a key, and is a real agent with a `GOOGLE_API_KEY`.
    """
    if os.environ.get("GOOGLE_API_KEY"):
        return os.environ.get("SIGNOFF_MODEL") or DEFAULT_MODEL
    return ScriptedModel(script=script)


# --- The two scripts of the examples ------------------------------------------------------------

_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_MONEY = re.compile(
    rf"(?:[$€£]\s*(?P<before>{_NUMBER})|(?P<after>{_NUMBER})\s*(?:[$€£]|USD\b|EUR\b|GBP\b))",
    re.IGNORECASE,
)
_BARE = re.compile(rf"(?P<before>{_NUMBER})(?P<after>)")
_PURPOSE = re.compile(r"\bfor\s+(.+?)\s*(?:[,;.!?]|\band\b|$)", re.IGNORECASE)
_DAYS = re.compile(r"\d+")


def finance_script(turn: Turn) -> Reply:
    """Request each amount of money in the message, then report the result of each."""
    if turn.tool_results:
        return " ".join(_finance_sentence(result) for result in turn.tool_results)
    # Amounts with a currency come first, so that "2 nights, $300" is not read as two expenses.
    amounts = list(_MONEY.finditer(turn.user_text)) or list(_BARE.finditer(turn.user_text))[:1]
    if not amounts:
        return "How much shall I reimburse, and what for?"
    ends = [match.start() for match in amounts[1:]] + [len(turn.user_text)]
    calls = []
    for match, end in zip(amounts, ends, strict=True):
        amount = float((match["before"] or match["after"]).replace(",", ""))
        purpose = _PURPOSE.search(turn.user_text[match.end() : end])
        named = purpose[1] if purpose else turn.user_text.strip()
        calls.append(ToolCall("reimburse", {"amount": amount, "purpose": named}))
    return calls


def _finance_sentence(result: ToolResult) -> str:
    amount = result.response.get("amount", result.args.get("amount", 0.0))
    if result.waiting:
        return f"The reimbursement of {amount:,.2f} is waiting for approval."
    if result.refusal is not None:
        return f"The reimbursement of {amount:,.2f} was not made: {result.refusal}"
    return f"I have reimbursed {amount:,.2f}."


def time_off_script(turn: Turn) -> Reply:
    """Request the days in the message, then report how many were granted."""
    if turn.tool_results:
        return " ".join(_time_off_sentence(result) for result in turn.tool_results)
    days = _DAYS.search(turn.user_text)
    if days is None:
        return "How many days would you like to take off?"
    return ToolCall("request_time_off", {"days": int(days[0])})


def _time_off_sentence(result: ToolResult) -> str:
    if result.waiting:
        return "Your request for time off is waiting for approval."
    if result.refusal is not None:
        return f"You cannot take this time off: {result.refusal}"
    granted = result.response.get("approved_days", result.args.get("days"))
    return f"You may take {granted} days off."
