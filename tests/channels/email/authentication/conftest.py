"""A DNS server of our own, keys to sign with, and mails that are signed."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from zone import Zone, serving


@pytest.fixture
async def zone() -> AsyncIterator[Zone]:
    """A running DNS server whose records the test sets."""
    async with serving(Zone()) as running:
        yield running
