"""Ids and state that a store cannot keep are errors of the request, not of the server."""

from __future__ import annotations

import pytest

from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.sessions import CallerSessions
from worker.office import Office

CALLER = Caller("test", None, None, None, "")


@pytest.fixture
def sessions(office: Office) -> CallerSessions:
    """The sessions API over the store of the test."""
    return CallerSessions(office.apps.sessions, office.decider)


@pytest.mark.parametrize(("user", "tail"), [("\0", ""), ("riley", "\0"), ("riley\0", "")])
async def test_session_id_with_a_zero_byte_is_not_found(
    sessions: CallerSessions, user: str, tail: str
) -> None:
    """PostgreSQL cannot look for one (%00 in a path); it gets 404 like any unknown session."""
    made = await sessions.create(CALLER, "finance", "riley", {})
    for look in (sessions.get, sessions.delete):
        with pytest.raises(Problem) as caught:
            await look(CALLER, "finance", user, made.id + tail)
        assert caught.value.status == 404
    if "\0" in user:
        assert await sessions.list(CALLER, "finance", user) == []


@pytest.mark.parametrize("state", [{"a": "\0"}, {"\0": 1}, {"a": [{"b": "x\0"}]}])
async def test_state_with_a_zero_byte_is_refused(
    sessions: CallerSessions, state: dict[str, object]
) -> None:
    """Every store refuses it, when a session is created and later."""
    with pytest.raises(Problem, match="U\\+0000") as caught:
        await sessions.create(CALLER, "finance", "riley", {"state": state})
    assert caught.value.status == 422
    made = await sessions.create(CALLER, "finance", "riley", {})
    with pytest.raises(Problem, match="U\\+0000"):
        await sessions.update(CALLER, "finance", "riley", made.id, {"stateDelta": state})
    assert (await sessions.get(CALLER, "finance", "riley", made.id)).state == {}
