"""The sections of the settings that belong to no channel: ledger, broker, agents, gateway, log."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from signoff.core.durations import Duration
from signoff.core.model import Value
from signoff.worker.adk_api.settings import ApiToken
from signoff.worker.adk_remote.settings import RemoteApps


class RedisSettings(Value):
    """[redis]: where the ledger is kept."""

    url: str = Field(
        "redis://127.0.0.1:6379/0",
        description="redis://, rediss:// or unix:// URL. `signoff up` starts a Redis of its own "
        "where this is not set.",
    )
    prefix: str = Field(
        "{signoff}:",
        min_length=1,
        max_length=64,
        description="Put before every key; the braces keep all keys in one slot of a cluster.",
    )


class BrokerSettings(Value):
    """[broker]: what carries Celery's doorbells."""

    url: str = Field("", description="redis:// or amqp:// URL; the ledger's Redis where not set.")


class SessionSettings(Value):
    """[sessions]: where ADK keeps its sessions."""

    url: str = Field(
        "sqlite:///.signoff/sessions.db",
        description="As for `adk api_server --session_service_uri`: sqlite:///FILE, "
        "postgresql+asyncpg://… or redis://…; a relative file is relative to the settings file.",
    )


class AgentSettings(Value):
    """[agents]: the agents that the workers run."""

    folder: Path = Field(
        Path("agents"),
        description="The folder that `adk web` takes: one sub-folder for each app. Relative to "
        "the settings file.",
    )
    concurrency: int = Field(
        128, ge=1, le=4096, description="How many runs one worker process carries at once."
    )
    lease: float = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds without a sign of life after which a worker is taken for dead and "
        "its runs are taken up again.",
    )
    artifacts: str = Field(
        ".signoff/artifacts",
        description="Where agents keep their artifacts: a folder, relative to the settings file, "
        "or a URL as for `adk api_server --artifact_service_uri` (gs://BUCKET). All workers and "
        "the gateway need the same.",
    )
    valid_for: Duration = Field(
        timedelta(days=7),
        description="How long a yes is good for: a call that no worker could start by then is not "
        "started, and asked about again. A policy may say otherwise.",
    )
    owners: dict[str, str] = Field(
        default_factory=dict,
        description="Who owns an agent: the id of a person, by the agent's name or its folder's. "
        "They never decide what it asks for.",
    )
    remote: RemoteApps = Field(
        default_factory=dict,
        description="Agents behind ADK API servers, by the name under which runs are submitted.",
    )


class GatewaySettings(Value):
    """[gateway]: the HTTP server."""

    host: str = Field("127.0.0.1", description="The address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="0 lets the system choose.")
    api: bool = Field(
        True,
        description="Serve the REST API under /api/v1, for those to whom `signoff tokens create` "
        "has given a token.",
    )
    rate: int = Field(
        1200,
        ge=0,
        le=1_000_000,
        description="How many requests a minute one token of `signoff tokens` may make; 0 for any "
        "number.",
    )
    adk: bool = Field(
        False,
        description="Serve the API of ADK's own server, `/run_sse` and the sessions, in front of "
        "the workers.",
    )
    adk_web: bool = Field(
        False,
        description="Serve the page of `adk web` too, under /dev-ui/; it needs `adk`. Browsers "
        "send no tokens: without a proxy that adds one it is for this machine.",
    )
    tokens: tuple[ApiToken, ...] = Field(
        (),
        description="Who may use the API of ADK's server, besides those to whom `signoff tokens "
        "create` has given a token: for development, and for tokens that a secret store makes.",
    )
    local: bool | None = Field(
        None,
        description="While there are no `tokens` here, let programs of this user on this machine "
        "use that API without one. For development. If it is not set: true, unless the settings "
        "say that requests come from other machines (`[inbox] url`, `[gateway] host`, Slack by "
        "HTTP, `[email.webhook]`).",
    )
    local_person: str = Field(
        "",
        description="The id of the person as whom programs on this machine answer without a token.",
    )


class LogSettings(Value):
    """[log]: what the processes write to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe events to write."
    )
    format: Literal["console", "json"] = Field(
        "console", description="One event a line, for people or for machines."
    )
    redact: tuple[str, ...] = Field(
        (), description="Names of tool arguments whose values never reach the log."
    )
