"""The REST API, version 1: everything that the other channels do, for programs."""

from typing import Final

PATH: Final = "/api/v1"
"""Where the gateway serves it."""
