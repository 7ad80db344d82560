"""The REST API, version 1: everything that the other channels offer, for programs."""

from typing import Final

PATH: Final = "/api/v1"
"""The path at which the gateway serves it."""
