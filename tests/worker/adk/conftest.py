"""Fixtures of the tests about ADK's behaviour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from worker.adk.harness import House

NewHouse = Callable[..., Awaitable[House]]


@pytest.fixture
def new_house(tmp_path: Path) -> NewHouse:
    """Return a function that builds houses, each with a database of its own."""
    count = 0

    async def build(**options: Any) -> House:
        nonlocal count
        count += 1
        return await House(tmp_path / f"{count}.db", **options).open()

    return build
