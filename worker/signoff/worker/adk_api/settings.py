"""The tokens of the API: the tables `[[gateway.tokens]]`."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from signoff.core.base.model import Value

ANYBODY: Final = "*"
"""In `users`: every user."""


class ApiToken(Value):
    """[[gateway.tokens]]: who may use the API, by the hash of a bearer token (RFC 6750)."""

    name: str = Field("", max_length=64, description="What the log calls whoever holds it.")
    sha256: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description='SHA-256 of the token, in hexadecimal: `printf %s "$TOKEN" | sha256sum`. '
        "Make tokens with `openssl rand -base64 32`.",
    )
    users: tuple[str, ...] = Field(
        (),
        description="The ADK user ids whose sessions it may use and for whom it may submit; "
        '"*" for everybody.',
    )
    apps: tuple[str, ...] = Field((), description="The agents it may use; all where not set.")
    person: str = Field(
        "", description="The id of the person as whom it answers; where not set, it cannot answer."
    )
