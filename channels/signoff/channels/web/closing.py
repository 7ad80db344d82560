"""Ends streaming responses when a process stops."""

from __future__ import annotations

from collections.abc import Callable


class Closing:
    """The functions that end streaming responses, without which the server would not stop."""

    def __init__(self) -> None:
        self._ends: list[Callable[[], object]] = []
        self._closed = False

    def add(self, end: Callable[[], object]) -> None:
        """Call a function when the server stops, or now if it is stopping; once in any case."""
        if end in self._ends:
            return
        self._ends.append(end)
        if self._closed:
            end()

    def close(self) -> None:
        """Call all functions: the server stops."""
        self._closed = True
        for end in tuple(self._ends):
            end()
