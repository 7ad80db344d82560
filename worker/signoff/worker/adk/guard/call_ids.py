"""Gives calls ids of their own if a model has used an id twice.

Some models number their calls in each response, so that two agents that run in parallel, or two
turns of a session, have calls of the same id. ADK and we know a call by its id, and would take the
approval, the arguments or the result of one call for those of another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_response import LlmResponse
from google.genai import types

_Session = tuple[str, str, str]


class CallIds:
    """The ids of the calls in the turns that run in this process."""

    def __init__(self) -> None:
        self._used: dict[_Session, set[str]] = {}

    @contextmanager
    def of(self, session: _Session) -> Iterator[None]:
        """Remember the ids of a session's calls inside the `with` block.

        The events of agents that run in parallel may not be in the session yet.
        """
        used = self._used[session] = set()
        try:
            yield
        finally:
            # A turn that has lost its lease may end after the next one has begun.
            if self._used.get(session) is used:
                del self._used[session]

    def make_unique(self, response: LlmResponse, context: CallbackContext) -> None:
        """Replace the ids in a model's response that other calls have.

        Calls without an id get a unique one from ADK. Parts of a streamed response do not count:
        the whole response follows, with the same ids.
        """
        content = response.content
        parts = content.parts or [] if content is not None else []
        if content is None or response.partial or not any(map(_id, parts)):
            return
        session = context.session
        used = self._used.get((session.app_name, session.user_id, session.id), set())
        used.update(
            call.id for event in session.events for call in event.get_function_calls() if call.id
        )
        own = [_with_unique_id(part, used) for part in parts]
        if own != parts:
            # The model may keep its response, so that it is not changed here.
            response.content = types.Content(role=content.role, parts=own)


def _id(part: types.Part) -> str:
    return part.function_call.id or "" if part.function_call is not None else ""


def _with_unique_id(part: types.Part, used: set[str]) -> types.Part:
    call, given = part.function_call, _id(part)
    if call is None or not given:
        return part
    names = (f"{given}_{number}" for number in count(2))
    made = next(one for one in names if one not in used) if given in used else given
    used.add(made)
    if made == given:
        return part
    return part.model_copy(update={"function_call": call.model_copy(update={"id": made})})
