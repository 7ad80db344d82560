"""ADK's contract of a session service: ours keeps it like those of google-adk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.errors._stale_session_error import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.sessions.database_session_service import DatabaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types
from pydantic import BaseModel

from signoff.broker.ledger.store import Store
from signoff.worker.adk.sessions.ledger import LedgerSessionService
from signoff.worker.adk.sessions.sqlite import PatientSqliteSessionService

APP, RILEY = "finance", "riley@example.com"

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.fixture(
    params=[
        "ledger",
        "sqlite",
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("adk-sqlite", "adk-database")),
    ]
)
async def sessions(
    request: pytest.FixtureRequest, tmp_path: Path, redis_url: str, prefix: str
) -> AsyncIterator[BaseSessionService]:
    """Return our services and the two of google-adk, for comparison."""
    match request.param:
        case "ledger":
            store = Store.open(redis_url, prefix=prefix)
            yield LedgerSessionService(store)
            await store.close()
        case "sqlite":
            ours = PatientSqliteSessionService(tmp_path / "s.db")
            yield ours
            await ours.close()
        case "adk-sqlite":
            theirs = SqliteSessionService(str(tmp_path / "s.db"))
            yield theirs
            await theirs.close()
        case _:
            database = DatabaseSessionService(f"sqlite+aiosqlite:///{tmp_path}/s.db")
            yield database
            await database.close()


async def make(sessions: BaseSessionService, name: str = "one", **state: Any) -> Session:
    """Create a session of Riley's."""
    return await sessions.create_session(
        app_name=APP, user_id=RILEY, session_id=name, state=state or None
    )


async def read(
    sessions: BaseSessionService, name: str = "one", config: GetSessionConfig | None = None
) -> Session:
    """Return a session of Riley's as it is stored."""
    found = await sessions.get_session(app_name=APP, user_id=RILEY, session_id=name, config=config)
    assert found is not None
    return found


def event(text: str, at: float = 0, **more: Any) -> Event:
    """Return an event that says something."""
    made = Event(
        author="root",
        invocation_id="e-1",
        content=types.Content(role="model", parts=[types.Part(text=text)]),
        **more,
    )
    if at:
        made.timestamp = at
    return made


def delta(**state: Any) -> EventActions:
    """Return actions that set state; a key's prefix is separated from it by two underscores."""
    return EventActions(state_delta={key.replace("__", ":"): one for key, one in state.items()})


def words(session: Session) -> list[str]:
    """Return what the events of a session say."""
    return [
        part.text or ""
        for one in session.events
        for part in (one.content.parts if one.content else None) or []
    ]


async def test_a_session_is_created_once(sessions: BaseSessionService) -> None:
    """A second one with the same id is refused, and the first does not change."""
    made = await make(sessions, color="red")
    assert (made.app_name, made.user_id, made.id, made.events) == (APP, RILEY, "one", [])
    with pytest.raises(AlreadyExistsError):
        await make(sessions, color="blue")
    assert (await read(sessions)).state == {"color": "red"}
    assert made.last_update_time == pytest.approx((await read(sessions)).last_update_time)


async def test_session_without_an_id_gets_a_new_one(sessions: BaseSessionService) -> None:
    """Each gets another one."""
    ids = {(await sessions.create_session(app_name=APP, user_id=RILEY)).id for _ in range(3)}
    assert len(ids) == 3
    assert all(ids)


async def test_session_of_another_user_or_app_reads_as_none(sessions: BaseSessionService) -> None:
    """An id belongs to one user in one app."""
    await make(sessions)
    for app, user, name in ((APP, RILEY, "two"), (APP, "nora", "one"), ("other", RILEY, "one")):
        assert await sessions.get_session(app_name=app, user_id=user, session_id=name) is None


async def test_event_reads_back_as_written(sessions: BaseSessionService) -> None:
    """Every field of an event is kept, in order."""
    session = await make(sessions)
    call = types.FunctionCall(id="adk-1", name="pay", args={"a": 1.5, "b": [], "ü": {"c": None}})
    first = Event(
        author="user",
        invocation_id="e-1",
        content=types.Content(role="user", parts=[types.Part(text='\N{SNOWMAN} \\ " \n')]),
        custom_metadata={"signoff_run": "run_1"},
    )
    second = Event(
        author="root",
        invocation_id="e-1",
        branch="root.pay",
        content=types.Content(role="model", parts=[types.Part(function_call=call)]),
        long_running_tool_ids={"adk-1"},
        actions=EventActions(artifact_delta={"a.txt": 3}, skip_summarization=True),
    )
    for one in (first, second):
        assert await sessions.append_event(session, one) is one
    found = await read(sessions)
    assert [one.model_dump(exclude_none=True) for one in found.events] == [
        one.model_dump(exclude_none=True) for one in (first, second)
    ]
    assert session.events == [first, second]
    assert found.last_update_time == pytest.approx(second.timestamp)
    assert session.last_update_time == pytest.approx(second.timestamp)


async def test_a_partial_event_is_not_stored(sessions: BaseSessionService) -> None:
    """A streamed text is stored once, as a whole."""
    session = await make(sessions)
    partial = event("hel", partial=True)
    assert await sessions.append_event(session, partial) is partial
    assert session.events == (await read(sessions)).events == []


async def test_state_prefix_decides_who_shares_it(sessions: BaseSessionService) -> None:
    """`app:` is for all users, `user:` for a user's sessions, and the rest for one session."""
    values: dict[str, Any] = {"app:a": 1, "user:u": [1], "own": {"x": None}, "temp:t": 1}
    session = await make(sessions, "one", **values)
    assert session.state == {"app:a": 1, "user:u": [1], "own": {"x": None}}
    await sessions.append_event(
        session, event("set", actions=delta(app__b=2, user__v="é", more=0.1, temp__s="now"))
    )
    both = {"app:a": 1, "app:b": 2, "user:u": [1], "user:v": "é"}
    assert session.state == {**both, "own": {"x": None}, "more": 0.1, "temp:s": "now"}
    assert (await read(sessions)).state == {**both, "own": {"x": None}, "more": 0.1}
    assert (await make(sessions, "two")).state == both
    other = await sessions.create_session(app_name=APP, user_id="nora", session_id="one")
    assert other.state == {"app:a": 1, "app:b": 2}
    assert (await sessions.create_session(app_name="other", user_id=RILEY)).state == {}
    assert await sessions.get_user_state(app_name=APP, user_id=RILEY) == {"u": [1], "v": "é"}
    assert await sessions.get_user_state(app_name=APP, user_id="tom") == {}


async def test_temporary_state_is_not_stored(sessions: BaseSessionService) -> None:
    """The current turn sees it, and the stored event does not have it."""
    session = await make(sessions)
    await sessions.append_event(session, event("set", actions=delta(temp__only="x", kept="y")))
    assert session.state == {"temp:only": "x", "kept": "y"}
    found = await read(sessions)
    assert found.state == {"kept": "y"}
    assert found.events[0].actions.state_delta == {"kept": "y"}


async def test_state_that_is_set_again_is_replaced(sessions: BaseSessionService) -> None:
    """It works as in a dictionary: None is a value, and objects are not merged."""
    session = await make(sessions, a={"x": 1}, b=1, c=2**70)
    await sessions.append_event(session, event("set", actions=delta(a={"y": 2}, b=None)))
    assert (await read(sessions)).state == {"a": {"y": 2}, "b": None, "c": 2**70}


async def test_state_that_is_not_json_is_stored_as_text(sessions: BaseSessionService) -> None:
    """A time becomes its text, a model becomes an object; the run does not end."""

    class Trip(BaseModel):
        days: int

    session = await make(sessions)
    at = datetime(2026, 11, 22, tzinfo=UTC)
    await sessions.append_event(session, event("set", actions=delta(at=at, trip=Trip(days=2))))
    assert (await read(sessions)).state == {"at": "2026-11-22T00:00:00Z", "trip": {"days": 2}}


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, "abcd"),
        ({"num_recent_events": 2}, "cd"),
        ({"num_recent_events": 9}, "abcd"),
        ({"num_recent_events": 0}, ""),
        ({"after_timestamp": 2000.0}, "bcd"),
        ({"after_timestamp": 9000.0}, ""),
        ({"after_timestamp": 2000.0, "num_recent_events": 2}, "cd"),
        ({"after_timestamp": 4000.0, "num_recent_events": 2}, "d"),
    ],
)
async def test_events_can_be_read_in_part(
    sessions: BaseSessionService, config: dict[str, Any], wanted: str
) -> None:
    """The last ones, those since a time, or both; the state is always complete."""
    session = await make(sessions, color="red")
    for place, text in enumerate("abcd", 1):
        await sessions.append_event(session, event(text, at=place * 1000.0))
    found = await read(sessions, config=GetSessionConfig(**config))
    assert words(found) == list(wanted)
    assert found.state == {"color": "red"}


async def test_event_is_appended_after_a_partial_read(sessions: BaseSessionService) -> None:
    """A runner that read only the last events writes after all of them."""
    session = await make(sessions)
    for text in "abc":
        await sessions.append_event(session, event(text))
    part = await read(sessions, config=GetSessionConfig(num_recent_events=1))
    await sessions.append_event(part, event("d"))
    assert words(part) == ["c", "d"]
    assert words(await read(sessions)) == ["a", "b", "c", "d"]


async def test_changed_copy_of_a_session_does_not_affect_the_store(
    sessions: BaseSessionService,
) -> None:
    """Changes to one copy are not in the other, nor in the store."""
    session = await make(sessions, box={"x": 1})
    await sessions.append_event(session, event("said"))
    first, second = await read(sessions), await read(sessions)
    first.state["box"]["x"] = 2
    content = first.events[0].content
    assert content is not None
    assert content.parts
    content.parts[0].text = "changed"
    first.events.clear()
    for one in (second, await read(sessions)):
        assert words(one) == ["said"]
        assert one.state == {"box": {"x": 1}}


async def test_a_writer_that_was_overtaken_is_refused(sessions: BaseSessionService) -> None:
    """A copy from before another write has to be read again."""
    await make(sessions)
    first, second = await read(sessions), await read(sessions)
    await sessions.append_event(first, event("first"))
    with pytest.raises(StaleSessionError):
        await sessions.append_event(second, event("second", actions=delta(app__lost=1)))
    assert words(await read(sessions)) == ["first"]
    assert "app:lost" not in (await read(sessions)).state
    await sessions.append_event(await read(sessions), event("third"))
    assert words(await read(sessions)) == ["first", "third"]


async def test_parallel_appends_lose_no_event(
    sessions: BaseSessionService,
) -> None:
    """Parallel agents write into one session: no event is lost or refused."""
    session = await make(sessions)
    texts = [f"say {number:02}" for number in range(8)]
    at = session.last_update_time + 1
    await asyncio.gather(*(sessions.append_event(session, event(one, at=at)) for one in texts))
    assert sorted(words(await read(sessions))) == texts
    assert sorted(words(session)) == texts


async def test_session_built_by_the_caller_is_accepted(sessions: BaseSessionService) -> None:
    """ADK's own tests and some servers build a `Session` themselves; its content counts."""
    made = await make(sessions)
    own = Session(id="one", app_name=APP, user_id=RILEY, last_update_time=made.last_update_time)
    await sessions.append_event(own, event("first"))
    assert words(await read(sessions)) == ["first"]
    with pytest.raises(StaleSessionError):
        await sessions.append_event(
            Session(id="one", app_name=APP, user_id=RILEY, last_update_time=1.0), event("second")
        )


async def test_an_event_of_a_session_that_is_gone_is_refused(sessions: BaseSessionService) -> None:
    """The session does not return, and no shared state is set."""
    session = await make(sessions)
    await sessions.append_event(session, event("said", actions=delta(user__u=1)))
    await sessions.delete_session(app_name=APP, user_id=RILEY, session_id="one")
    with pytest.raises(SessionNotFoundError):
        await sessions.append_event(session, event("late", actions=delta(user__u=2, app__a=3)))
    assert await sessions.get_session(app_name=APP, user_id=RILEY, session_id="one") is None
    assert await sessions.get_user_state(app_name=APP, user_id=RILEY) == {"u": 1}
    again = await make(sessions)
    assert (again.events, again.state) == ([], {"user:u": 1})
    assert (await read(sessions)).events == []


async def test_deleting_a_missing_session_does_nothing(sessions: BaseSessionService) -> None:
    """This holds any number of times."""
    for _ in range(2):
        await sessions.delete_session(app_name=APP, user_id=RILEY, session_id="none")


async def test_sessions_are_listed_oldest_first(sessions: BaseSessionService) -> None:
    """For one user or all, by their last events, with states and without events."""
    one, two = await make(sessions, "one", color="red"), await make(sessions, "two")
    theirs = await sessions.create_session(
        app_name=APP, user_id="nora", session_id="one", state={"user:n": 1, "app:a": 2}
    )
    await sessions.create_session(app_name="other", user_id=RILEY, session_id="three")
    later = max(each.last_update_time for each in (one, two, theirs))
    await sessions.append_event(two, event("b", at=later + 10))
    await sessions.append_event(theirs, event("c", at=later + 20))
    await sessions.append_event(one, event("a", at=later + 30))
    mine = (await sessions.list_sessions(app_name=APP, user_id=RILEY)).sessions
    assert [(each.id, each.state, each.events) for each in mine] == [
        ("two", {"app:a": 2}, []),
        ("one", {"color": "red", "app:a": 2}, []),
    ]
    everybody = (await sessions.list_sessions(app_name=APP)).sessions
    assert [(each.user_id, each.id) for each in everybody] == [
        (RILEY, "two"),
        ("nora", "one"),
        (RILEY, "one"),
    ]
    assert everybody[1].state == {"user:n": 1, "app:a": 2}
    assert everybody[2].last_update_time == pytest.approx(later + 30)
    await sessions.delete_session(app_name=APP, user_id=RILEY, session_id="one")
    mine = (await sessions.list_sessions(app_name=APP, user_id=RILEY)).sessions
    assert [each.id for each in mine] == ["two"]
    assert (await sessions.list_sessions(app_name="none")).sessions == []


class Counting(BaseAgent):
    """Counts its turns in the state, and stores the number in an artifact."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        count = ctx.session.state.get("count", 0) + 1
        assert ctx.artifact_service is not None
        version = await ctx.artifact_service.save_artifact(
            app_name=ctx.app_name,
            user_id=ctx.user_id,
            session_id=ctx.session.id,
            filename="count.txt",
            artifact=types.Part(text=str(count)),
        )
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[types.Part(text=f"turn {count}")]),
            actions=EventActions(
                state_delta={"count": count}, artifact_delta={"count.txt": version}
            ),
        )


async def test_rewind_restores_state_and_artifacts(sessions: BaseSessionService) -> None:
    """ADK's Runner rewinds with stored events only: state, artifact and history follow."""
    artifacts = InMemoryArtifactService()
    runner = Runner(
        app_name=APP,
        agent=Counting(name="counting"),
        session_service=sessions,
        artifact_service=artifacts,
    )
    await make(sessions)
    message = types.Content(role="user", parts=[types.Part(text="go")])
    invocations = list[str]()
    for _ in range(3):
        turn = runner.run_async(user_id=RILEY, session_id="one", new_message=message)
        invocations += [one.invocation_id async for one in turn]
    assert (await read(sessions)).state == {"count": 3}
    await runner.rewind_async(
        user_id=RILEY, session_id="one", rewind_before_invocation_id=invocations[1]
    )
    found = await read(sessions)
    assert found.state == {"count": 1}
    assert found.events[-1].actions.rewind_before_invocation_id == invocations[1]
    assert found.events[1].actions.artifact_delta == {"count.txt": 0}
    kept = await artifacts.load_artifact(
        app_name=APP, user_id=RILEY, session_id="one", filename="count.txt"
    )
    assert kept is not None
    assert kept.text == "1"
    async for one in runner.run_async(user_id=RILEY, session_id="one", new_message=message):
        assert words(Session(id="-", app_name=APP, user_id=RILEY, events=[one])) == ["turn 2"]
