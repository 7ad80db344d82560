"""The words of a remote agent before a call are stored with its approval."""

from __future__ import annotations

import pytest

from worker.remote.far_office import FarOffice

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


async def test_approval_has_the_remote_agents_explanation(odd_agents: FarOffice) -> None:
    """They come from the server's session, as from a local one."""
    run = await odd_agents.submit("tells", "pay both")
    assert (await odd_agents.approval(run)).said == "I look at the budget first."
