"""The settings that do not belong to a channel: ledger, broker, agents, gateway, log."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field, SecretStr, field_validator

from signoff.core.base.durations import Duration
from signoff.core.base.model import Value
from signoff.worker.adk_api.settings import ApiToken
from signoff.worker.adk_remote.settings import RemoteApps

if TYPE_CHECKING:
    from signoff.channels.pipeline.informing import Notifications


class RedisSettings(Value):
    """[redis]: the Redis that stores the ledger."""

    url: str = Field(
        "redis://127.0.0.1:6379/0",
        description="A redis://, rediss:// or unix:// URL, or "
        "sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/0?master=NAME for the primary that Sentinels "
        "name, or redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT (rediss+cluster:// with TLS) "
        "for a Redis Cluster. If it is not set, `signoff up` starts its own Redis.",
    )
    durability: Literal["local", "replica"] = Field(
        "local",
        description="When a commit counts: `local`, when Redis has it; `replica`, when its "
        "connected replicas have it too. With `replica` a failover loses no acknowledged answer, "
        "and without a connected replica nothing is acknowledged.",
    )
    prefix: str = Field(
        "{signoff}:",
        min_length=1,
        max_length=64,
        description="The prefix of every key. A cluster needs the braces, which keep all keys "
        "in one slot, and a prefix for each ledger, such as {signoff:finance}:.",
    )
    pack_after: Duration | None = Field(
        None,
        ge=timedelta(minutes=1),
        description="How long a request must wait until it is packed, together with its part of "
        "the audit log: `1m`. A waiting request then takes about half of the memory. Processes of "
        "the last release cannot read packed requests, so set it when none of them is left. If it "
        "is not set, nothing is packed; what is packed stays readable.",
    )


class RetentionSettings(Value):
    """[retention]: how long the ledger keeps ended runs, and where they are archived."""

    after: Duration | None = Field(
        None,
        ge=timedelta(minutes=1),
        description="How long after its last event an ended run moves into the archive, with its "
        "approvals and its part of the audit log: `90d`. If it is not set, everything stays in "
        "Redis, and `signoff archive run` archives on demand.",
    )
    archive: Path = Field(
        Path(".signoff/archive"),
        description="The folder of the archive, relative to the settings file. All `signoff "
        "channels` processes, and the machine where `signoff archive` runs, must share it.",
    )


class BrokerSettings(Value):
    """[broker]: the broker that carries Celery's doorbells."""

    url: str = Field(
        "",
        description="A redis://, amqp://, sentinel:// or redis+cluster:// URL. The default is the "
        "ledger's Redis.",
    )


class SessionSettings(Value):
    """[sessions]: the store of ADK's sessions."""

    url: str = Field(
        "",
        description="As for `adk api_server --session_service_uri`: sqlite:///FILE, "
        "postgresql+asyncpg://… or redis://…. A relative file is relative to the "
        "settings file. The default is the ledger's Redis; where the last release has left "
        "`.signoff/sessions.db`, it is that file until `signoff sessions move`.",
    )


class AgentSettings(Value):
    """[agents]: the agents that the workers run."""

    folder: Path = Field(
        Path("agents"),
        description="The folder that `adk web` takes, with a subfolder for each app. Relative to "
        "the settings file.",
    )
    concurrency: int = Field(
        128, ge=1, le=4096, description="How many runs a worker process executes at the same time."
    )
    lease: float = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds without a heartbeat after which a worker counts as dead and its runs "
        "are taken over.",
    )
    artifacts: str = Field(
        ".signoff/artifacts",
        description="Where agents keep artifacts: a folder, relative to the settings file, or a "
        "URL as for `adk api_server --artifact_service_uri` (gs://BUCKET). All workers"
        " and the gateway must share it.",
    )
    valid_for: Duration = Field(
        timedelta(days=7),
        description="How long an approval is valid. A call that no worker has started by then "
        "needs a new approval. A policy can override this.",
    )
    owners: dict[str, str] = Field(
        default_factory=dict,
        description="The owner of each agent: a person's id, by the name of the agent or of its "
        "folder. Owners never decide what their agent asks for.",
    )
    remote: RemoteApps = Field(
        default_factory=dict,
        description="Agents behind ADK API servers, by the name under which runs are submitted.",
    )


class GatewaySettings(Value):
    """[gateway]: the HTTP server."""

    host: str = Field(
        "127.0.0.1",
        description="The address to listen on: `0.0.0.0` is every IPv4 address, `::` every IPv6 "
        "address, and not both.",
    )
    port: int = Field(
        8080, ge=0, le=65535, description="The port to listen on; 0 lets the system choose."
    )
    api: bool = Field(
        True,
        description="Serve the REST API under /api/v1, for the tokens of `signoff tokens create`.",
    )
    rate: int = Field(
        1200,
        ge=0,
        le=1_000_000,
        description="Requests a minute for each of these tokens; 0 means no limit.",
    )
    adk: bool = Field(
        False,
        description="Serve the API of ADK's server: `/run_sse` and the sessions.",
    )
    adk_web: bool = Field(
        False,
        description="Serve the page of `adk web` under /dev-ui/; needs `adk`. Browsers send no "
        "tokens, so without a proxy that adds one the page works only on this machine.",
    )
    tokens: tuple[ApiToken, ...] = Field(
        (),
        description="Who may use the API of ADK's server, besides those to whom `signoff tokens "
        "create` has given a token: for development, and for tokens that a secret store makes.",
    )
    local: bool | None = Field(
        None,
        description="For development: without `tokens` here, programs of the same user on this "
        "machine need no token for ADK's API. The default is true, unless the settings"
        " imply requests from other machines (`[inbox] url`, `[gateway] host`, Slack "
        "by HTTP, `[email.webhook]`).",
    )
    local_person: str = Field(
        "",
        description="The id of the person as whom programs on this machine decide without a token.",
    )


class DeliverySettings(Value):
    """[delivery]: when people get messages, and how many they get."""

    quiet_hours: bool = Field(
        False,
        description="Whether messages that are not urgent wait for people's working hours, "
        "for all people with `hours` whose own `quiet_hours` is not set.",
    )
    bundle_over: int = Field(
        5,
        ge=0,
        le=1000,
        description="How many cards a person or Slack channel gets one by one within "
        "`bundle_within`. More of them become one message with a link to the page of each. 0 sends "
        "each card as its own message. So does a setup without `[inbox] url`.",
    )
    bundle_within: Duration = Field(
        timedelta(minutes=5),
        ge=timedelta(seconds=10),
        le=timedelta(hours=1),
        description="The time for `bundle_over`, and the longest that a card waits for others.",
    )


class NotificationSettings(Value):
    """[notifications]: messages to people who do not decide."""

    wait_for_result: float = Field(
        15,
        ge=0,
        le=3600,
        description="Seconds for which the news of a decision waits for the result of the call, so "
        "that one message tells both: to the person who decided by mail, and to the "
        "requester. 0 sends it at once, and the result in a second message.",
    )
    requester_domains: tuple[str, ...] = Field(
        (),
        description="Domains of mail addresses, such as `example.com`. A requester who is not in "
        "the directory is told by mail if their user id is an address at one of them. "
        "The client that starts a run chooses its user id, so name only domains of your own.",
    )

    def as_told(self) -> "Notifications":
        """Return these settings in the form that the stages use."""
        from signoff.channels.pipeline.informing import Notifications  # noqa: PLC0415 -- the ledger

        return Notifications(timedelta(seconds=self.wait_for_result), self.requester_domains)


class ReceiptSettings(Value):
    """[receipts]: the keys that sign and verify decisions."""

    private_key: SecretStr = Field(
        SecretStr(""),
        description="The key that gateway, channels and command line sign decisions with: an "
        "Ed25519 key as JSON (JWK), as `signoff receipt new-key` prints it. Workers never get it. "
        "If it is not set, it is in `.signoff/receipts/private` beside the settings file, made "
        "at the first start.",
    )
    public_keys: str = Field(
        "",
        description="The keys that workers trust: a set as JSON (JWKS), with the earlier key while "
        "keys rotate. If it is not set, it is in `.signoff/receipts/public`.",
    )
    unsigned_until: datetime | None = Field(
        None,
        description="Until when decisions without a receipt count, such as those of an earlier "
        "release: `2026-12-01T00:00:00Z`. By default they never do: their calls are asked about "
        "again. Until then, anybody who can write to Redis can forge decisions.",
    )

    @field_validator("unsigned_until", mode="after")
    @classmethod
    def _in_a_zone(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("it has no time zone: write 2026-12-01T00:00:00Z")
        return value


class MetricsSettings(Value):
    """[metrics]: metrics for Prometheus."""

    enabled: bool = Field(
        False,
        description="Count, and serve `/metrics`: the gateway on its own port, workers and "
        "channels on the ports below.",
    )
    host: str = Field(
        "127.0.0.1", description="The address on which workers and channels serve their metrics."
    )
    worker_port: int = Field(
        9464,
        ge=0,
        le=65535,
        description="The port of a worker's metrics; 0 lets the system choose, and the log event "
        "`ready` names it. Each process on a machine needs its own.",
    )
    channels_port: int = Field(
        9465, ge=0, le=65535, description="The port of a channels process's metrics."
    )
    token: SecretStr = Field(
        SecretStr(""),
        description="What Prometheus sends as a bearer token. Required if other machines can reach "
        "the metrics.",
    )


class TracingSettings(Value):
    """[tracing]: traces for OpenTelemetry."""

    enabled: bool = Field(
        False,
        description="Send traces by OTLP over HTTP; needs `signoff[otel]`. The standard variables "
        "apply, such as OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER.",
    )
    endpoint: str = Field(
        "",
        description="The URL of the collector, such as http://127.0.0.1:4318. The default is "
        "OTEL_EXPORTER_OTLP_ENDPOINT, or that URL.",
    )
    content: bool = Field(
        False,
        description="Let ADK put prompts, answers and tool arguments into its spans, hidden values "
        "included.",
    )


class LogSettings(Value):
    """[log]: the log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level of events to write."
    )
    format: Literal["console", "json"] = Field(
        "console", description="One event per line, for people (`console`) or machines (`json`)."
    )
    redact: tuple[str, ...] = Field(
        (), description="The tool arguments whose values are never logged."
    )
