"""Libraries import whatever they find installed; what Signoff does not use stays out of memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

_UNUSED: Final = (
    # structlog: tracebacks in colours, Windows, greenlets.
    *("better_exceptions", "colorama", "greenlet", "rich"),
    # kombu: messages that are not JSON. Celery: reports about memory.
    *("msgpack", "psutil", "yaml"),
)


def import_lean(*libraries: str) -> None:
    """Import libraries without others that they use where they happen to be installed.

    Which ones those are is of no importance to Signoff, and some of them are large. A worker does
    without this: its agents may use them.

    Args:
        libraries: The names of modules.
    """
    with _hidden(_UNUSED):
        for one in libraries:
            import_module(one)


@contextmanager
def _hidden(names: tuple[str, ...]) -> Iterator[None]:
    """Let an import of these raise ModuleNotFoundError, where they are not imported already."""
    hidden = [name for name in names if name not in sys.modules]
    # So Python's import system has it, for None in the place of a module.
    vars(sys)["modules"].update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
