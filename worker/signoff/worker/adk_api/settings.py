"""The tokens of the API: the tables `[[gateway.tokens]]`."""

from typing import Final

from pydantic import Field

from signoff.core.base.model import Value

ANYBODY: Final = "*"
"""The entry of `users` that stands for every user."""


class ApiToken(Value):
    """[[gateway.tokens]]: a token for ADK's API: the hash of a bearer token (RFC 6750)."""

    name: str = Field("", max_length=64, description="The name of the holder in the log.")
    sha256: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description='The token\'s SHA-256 in hexadecimal: `printf %s "$TOKEN" | sha256sum`. Create '
        "tokens with `openssl rand -base64 32`.",
    )
    users: tuple[str, ...] = Field(
        (),
        description='The ADK user ids whose sessions it may use and for whom it may submit; "*" '
        "for everybody.",
    )
    apps: tuple[str, ...] = Field((), description="The agents it may use. The default is all.")
    person: str = Field(
        "", description="The id of the person as whom it decides. Without one, it cannot decide."
    )
