"""A language model that needs no key: a function from the conversation to the next thing said.

A run and its resume happen in different processes, so the model keeps nothing between calls: all it
knows is in the request that ADK hands it.
"""

from __future__ import annotations

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
"""The model of the examples where there is a key and `SIGNOFF_MODEL` names no other."""


@dataclass(frozen=True)
class ToolCall:
    """A call that the model wants made."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolResult:
    """What a tool last answered to one call, beside the arguments it was called with."""

    name: str
    response: Mapping[str, Any]
    args: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    """None for the ids that ADK makes: it takes them out of what it shows the model."""

    @property
    def waiting(self) -> bool:
        """Whether this is the placeholder of a call that nobody has decided yet."""
        words = " ".join(str(self.response.get(key, "")) for key in ("status", "error")).lower()
        return any(sign in words for sign in ("requires confirmation", "pending", "is required"))

    @property
    def refusal(self) -> str | None:
        """Why the call was turned down or failed; None if it went through or still waits."""
        if self.waiting:
            return None
        reason = self.response.get("reason") or self.response.get("error")
        if reason is None and "reject" in str(self.response.get("status", "")).lower():
            reason = self.response["status"]
        return None if reason is None else str(reason)


@dataclass(frozen=True)
class Turn:
    """The conversation as a script sees it: the user's last words, and the results so far."""

    user_text: str
    tool_results: tuple[ToolResult, ...] = ()
    tools: tuple[str, ...] = ()


Reply = str | ToolCall | Sequence[str | ToolCall]
"""What a script answers: words, one call, or several of them in one message."""

Script = Callable[[Turn], Reply]
"""A pure function: the same turn must get the same reply in whatever process it is asked."""


class ScriptedModel(BaseLlm):
    """A model that says what its script says.

    `delay` is the seconds it pretends to think, for load tests.
    """

    model: str = "scripted"
    script: Script
    delay: float = 0.0

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer the request in one piece, streaming or not."""
        if self.delay:
            await asyncio.sleep(self.delay)
        reply = self.script(read_turn(llm_request))
        yield LlmResponse(
            content=types.Content(role="model", parts=_parts(reply)),
            # ADK complains in the log of a model that does not say what it used.
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
    """Read out of a request what a script decides from."""
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
        # ADK retells what another agent of the tree did as words of the user that begin like this.
        retold = bool(texts) and texts[0].startswith("For context:")
        if contents[index].role == "user" and texts and not retold:
            return index, "\n".join(texts)
    return 0, ""


def _results(contents: list[types.Content]) -> tuple[ToolResult, ...]:
    """Pair calls and responses by id, and in their order where ADK has taken the ids out."""
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
                # A later response to the same call takes the place of the earlier one.
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
    """Name the model of `SIGNOFF_MODEL` (or Gemini Flash) where there is a key, else play a script.

    So that an example runs for everybody, and is a real agent with a `GOOGLE_API_KEY`.
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
    """Ask for every amount of money in the message, then say what became of each."""
    if turn.tool_results:
        return " ".join(_finance_sentence(result) for result in turn.tool_results)
    # Marked money first, so that "2 nights, $300" is not read as two expenses.
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
    """Ask for the days in the message, then say how many were granted."""
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
