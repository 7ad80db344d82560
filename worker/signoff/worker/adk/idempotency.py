"""The key with which a tool ensures that its effect happens once, even if it runs again."""

from __future__ import annotations

from google.adk.tools.tool_context import ToolContext

from signoff.worker.verification import key_of


def idempotency_key(tool_context: ToolContext) -> str:
    """Return a key that is the same each time this function call runs: 32 letters and digits.

    Send it with a payment, or store it in a unique column. If a call in doubt runs again, it then
    has its effect only once. The key is derived from the session and the id of the function call.
    """
    session = tool_context.session
    call_id = tool_context.function_call_id or ""
    return key_of(session.app_name, session.user_id, session.id, call_id)
