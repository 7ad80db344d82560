"""The manifest from which Slack makes the app (https://docs.slack.dev/app-manifests)."""

from __future__ import annotations

from typing import Any

from signoff.channels.slack.inbound.http import PATH
from signoff.channels.slack.references import AWAY, REQUESTS
from signoff.channels.slack.web import SCOPES


def manifest(*, name: str, url: str) -> dict[str, Any]:
    """Return the manifest of an app of this name.

    Slack posts clicks to the public URL of the gateway; "" stands for Socket Mode.
    """
    interactivity: dict[str, Any] = {"is_enabled": True}
    if url:
        interactivity["request_url"] = url.rstrip("/") + PATH
    return {
        "display_information": {
            "name": name,
            "description": "Asks people before an AI agent acts",
            "background_color": "#1f3a5f",
        },
        "features": {
            "bot_user": {"display_name": name, "always_online": True},
            "shortcuts": [
                {
                    "name": "Say that you are away",
                    "type": "global",
                    "callback_id": AWAY,
                    "description": "Until when, and who decides instead of you",
                },
                {
                    "name": "See what you asked for",
                    "type": "global",
                    "callback_id": REQUESTS,
                    "description": "See whom your requests wait for; remind them, or withdraw",
                },
            ],
        },
        "oauth_config": {"scopes": {"bot": list(SCOPES)}},
        "settings": {
            "interactivity": interactivity,
            "org_deploy_enabled": False,
            "socket_mode_enabled": not url,
            "token_rotation_enabled": False,
        },
    }
