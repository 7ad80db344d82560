"""An agent whose tool asks for a credential."""

from typing import Any

from fastapi.openapi.models import APIKey, APIKeyIn
from google.adk.agents import Agent
from google.adk.auth.auth_credential import AuthCredential, AuthCredentialTypes
from google.adk.auth.auth_tool import AuthConfig
from google.adk.tools.tool_context import ToolContext

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn

CONFIG = AuthConfig(
    auth_scheme=APIKey(**{"in": APIKeyIn.header, "name": "X-Key"}),
    raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY),
    credential_key="key",
)


def look(tool_context: ToolContext) -> dict[str, Any]:
    """Look something up with a key that has to be asked for."""
    tool_context.request_credential(CONFIG)
    return {"status": "pending"}


def script(turn: Turn) -> Reply:
    """Look."""
    return "Done." if turn.tool_results else ToolCall("look", {})


root_agent = Agent(name="credential", model=ScriptedModel(script=script), tools=[look])
