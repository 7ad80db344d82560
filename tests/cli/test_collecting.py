"""Python's garbage collector in the processes that run for years."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from signoff.cli.composition.process import collect_less


@pytest.fixture(autouse=True)
def threshold_of_tests() -> Iterator[None]:
    """The collector's thresholds as they were."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


class _Circle:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_startup_objects_are_exempt_from_garbage_collection() -> None:
    """Objects of the start are exempt, and garbage of the start is not kept for ever."""
    loaded: list[list[object]] = [[] for _ in range(1_000)]
    garbage = weakref.ref(_Circle())
    before = gc.get_freeze_count()
    collect_less()
    assert gc.get_freeze_count() >= before + len(loaded)
    assert garbage() is None


def test_later_garbage_is_collected_automatically() -> None:
    """Circles of later work do not fill the memory: the collector runs without being asked."""
    collect_less()
    collected = gc.get_stats()[0]["collected"]
    for _ in range(20_000):
        _Circle()
    assert gc.get_stats()[0]["collected"] > collected
