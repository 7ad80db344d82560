"""The key by which a tool can make its own effect happen once, also when it is run again."""

from __future__ import annotations

from google.adk.tools.tool_context import ToolContext

from signoff.worker.verification import key_of


def idempotency_key(tool_context: ToolContext) -> str:
    """Return a key that is the same each time this very call is run: 32 letters and digits.

    Send it with a payment, or make it a unique column: a call that was in doubt and is run again
    then has its effect once. It is a function of the session and of the function call.
    """
    session = tool_context.session
    call_id = tool_context.function_call_id or ""
    return key_of(session.app_name, session.user_id, session.id, call_id)
