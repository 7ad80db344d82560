"""The inbox page in a browser, one for all tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from running_inbox import RunningInbox, running_inbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(
    redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[RunningInbox]:
    """Return a gateway and a browser for all tests of a module."""
    async with running_inbox(redis_url, tmp_path_factory.mktemp("inbox")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def at(place: RunningInbox) -> RunningInbox:
    """Return them with an empty ledger and nobody signed in."""
    await place.sweep()
    return place
