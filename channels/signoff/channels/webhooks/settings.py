"""The settings of webhooks: the tables `[[webhooks]]`."""

from typing import Final, Self

from pydantic import Field, model_validator

from signoff.channels.web.settings import SettingsTable, WebhookSecret
from signoff.channels.web.signatures import key_of
from signoff.channels.webhooks.addresses import why_refused
from signoff.core.approvals.events import What

USUAL: Final = (
    What.OPENED,
    What.ASKED,
    What.APPROVED,
    What.REJECTED,
    What.TIMED_OUT,
    What.WITHDRAWN,
    What.SUPERSEDED,
    What.COMPLETED,
    What.FAILED,
)
"""The events that are posted by default."""


class Webhook(SettingsTable):
    """[[webhooks]]: a server that gets events.

    Attributes:
        name: The webhook's name. Its stage is `signoff.webhook.NAME`.
        url: The address to post to: `https://`, on the public internet.
        secrets: Signing secrets of Standard Webhooks (`whsec_…`). List two during a rotation; both
            sign.
        events: The events to post.
        allow_private: Allow private networks, this machine, and plain HTTP.
        timeout: Seconds for one attempt.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,31}$")
    url: str = Field(max_length=2000)
    secrets: tuple[WebhookSecret, ...] = Field(min_length=1)
    events: tuple[What, ...] = USUAL
    allow_private: bool = False
    timeout: float = Field(default=10, ge=1, le=20)

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys in the secrets."""
        return tuple(key_of(one.get_secret_value()) or b"" for one in self.secrets)

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if problem := why_refused(self.url, allow_private=self.allow_private):
            raise ValueError(problem)
        return self
