"""Keeps libraries from importing optional packages that Signoff does not use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

_UNUSED: Final = (
    # structlog: coloured tracebacks, Windows, greenlets.
    *("better_exceptions", "colorama", "greenlet", "rich"),
    # kombu: messages other than JSON. Celery: memory reports.
    *("msgpack", "psutil", "yaml"),
)


def import_lean(*libraries: str) -> None:
    """Import libraries without the optional packages that they would import if installed.

    Signoff does not need these packages, and some of them are large. A worker imports only
    structlog in this way, because its agents may use Celery with other messages than JSON.
    """
    with _hidden(_UNUSED):
        for one in libraries:
            import_module(one)


@contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Let imports of these modules raise ModuleNotFoundError, unless they are imported already."""
    hidden = [name for name in names if name not in sys.modules]
    # Python's import system raises ModuleNotFoundError for a module that is None in sys.modules.
    vars(sys)["modules"].update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
