"""A DNS server for tests, signing keys, and signed mails."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from zone import Zone, serving


@pytest.fixture
async def zone() -> AsyncIterator[Zone]:
    """Return a running DNS server; the test sets its records."""
    async with serving(Zone()) as running:
        yield running
