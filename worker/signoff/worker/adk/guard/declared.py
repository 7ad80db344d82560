"""The declaration of a tool: the parameters that the model sees."""

from __future__ import annotations

import hashlib

import structlog
from google.adk.tools.base_tool import BaseTool

from signoff.core.payloads.digest import require_canonical

log = structlog.get_logger(__name__)


def declared_by(tool: BaseTool) -> str:
    """Return ``sha256:`` and 64 hex digits over the declared parameters of a tool; "" for none.

    Its description is left out: it may differ each time, and does not affect the arguments.
    """
    try:
        declaration = tool._get_declaration()  # noqa: SLF001 -- ADK offers no other way
        if declaration is None:
            return ""
        parameters = declaration.model_dump(
            mode="json", include={"parameters", "parameters_json_schema"}, exclude_none=True
        )
        canonical = require_canonical(parameters, f"What {tool.name}() declares")
    except Exception as error:  # noqa: BLE001 -- a tool may raise anything
        log.warning("tool.declares_nothing", tool=tool.name, error=str(error))
        return ""
    return "sha256:" + hashlib.sha256(canonical).hexdigest()
