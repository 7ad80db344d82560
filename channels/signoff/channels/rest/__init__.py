"""The REST API, version 1: everything that the other channels offer, for programs."""

from importlib.resources import files
from typing import Final

PATH: Final = "/api/v1"
"""The path at which the gateway serves it."""


def openapi_json() -> bytes:
    """Return the OpenAPI document of the API, as JSON.

    It is a file that `make docs` writes. To build the document from the code, a process needs the
    validators of all responses, which take 7 MiB and then stay in its memory.
    """
    return files(__name__).joinpath("openapi.json").read_bytes()
