"""The parts that the settings of several channels share."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, SecretStr

from signoff.channels.web.signatures import key_of

_SHORTEST_KEY: Final = 24
_LONGEST_KEY: Final = 64


class SettingsTable(BaseModel):
    """A table of the settings file, which refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _webhook_secret(secret: SecretStr) -> SecretStr:
    key = key_of(secret.get_secret_value())
    if key is None or not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        raise ValueError(
            "it is not a secret of Standard Webhooks: whsec_ and 24 to 64 bytes in base64; "
            'make one with: echo "whsec_$(openssl rand -base64 32)"'
        )
    return secret


WebhookSecret = Annotated[SecretStr, AfterValidator(_webhook_secret)]
"""A secret of Standard Webhooks."""
