"""What all values of the domain have in common: frozen, strict about extra keys, comparable."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen pydantic model that refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")
