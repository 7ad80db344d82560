"""What an agent behind an API server says before a call is kept with its approval."""

from __future__ import annotations

import pytest

from worker.remote.far_office import FarOffice

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


async def test_its_words_come_along(odd_agents: FarOffice) -> None:
    """From the session that the server tells, as from one of our own."""
    run = await odd_agents.submit("tells", "pay both")
    assert (await odd_agents.approval(run)).said == "I look at the budget first."
