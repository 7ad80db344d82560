"""The sessions API: lets callers see and change ADK's sessions."""

import json
import re
import secrets
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.state import State
from pydantic import JsonValue, ValidationError

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.lease import session_key
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.moves import Actor, WithdrawObsolete
from signoff.core.approvals.run import RunState
from signoff.worker.adk.questions import request_of
from signoff.worker.adk.showing import session_json
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import (
    Body,
    Problem,
    invalid,
    misformed,
    not_your_user,
    session_busy,
)

_ID = re.compile(r"[^\x00-\x1f\x7f/\\]{1,128}")
_LEASE: Final = 20.0
_OURS: Final = "signoff_"


class NewSession(Body):
    """The body that creates a session (CreateSessionRequest of google.adk.cli.api_server)."""

    session_id: str | None = None
    state: dict[str, Any] | None = None
    events: list[Any] | None = None
    options: dict[str, Any] | None = None


class NewState(Body):
    """The body that changes a session's state (UpdateSessionRequest)."""

    state_delta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class CallerSessions:
    """ADK's sessions, with the permissions of the caller.

    Attributes:
        usual: The session service that the workers use.
        decisions: Withdraws the approvals that a deleted session waits for.
        others: The session services of remote agents, by app.
    """

    usual: BaseSessionService
    decisions: Decisions
    others: Mapping[str, BaseSessionService] = field(default_factory=dict)

    def service(self, app: str) -> BaseSessionService:
        """Return the session service of an app."""
        return self.others.get(app, self.usual)

    async def get(self, caller: Caller, app: str, user: str, session: str) -> Session:
        """Return a session.

        Raises:
            Problem: 404 if it does not exist or the caller may not see it: the two look the same.
        """
        found = None
        if caller.may_use(app, user) and not _has_zero([user, session]):
            found = await self.service(app).get_session(
                app_name=app, user_id=user, session_id=session
            )
        if found is None:
            raise Problem(
                404,
                "no-such-session",
                "There is no such session",
                "This user has no session with this id in this app, or it is not yours to see. "
                "POST /apps/{app}/users/{user}/sessions makes one.",
            )
        return found

    async def event_of(self, approval: Approval) -> str:
        """Return the id of the event that asks for an approval; "" if it is not in the session."""
        origin = approval.origin
        found = await self.service(origin.app).get_session(
            app_name=origin.app, user_id=origin.user, session_id=origin.session
        )
        request = request_of(found.events, approval) if found is not None else None
        return found.events[request.place].id if found is not None and request is not None else ""

    async def list(self, caller: Caller, app: str, user: str) -> list[Any]:
        """Return the sessions of a user as JSON.

        Raises:
            Problem: 403 if the caller may not act for this user.
        """
        _require_use(caller, app, user)
        if _has_zero(user):
            return []
        listed = await self.service(app).list_sessions(app_name=app, user_id=user)
        return [session_json(one) for one in listed.sessions]

    async def create(self, caller: Caller, app: str, user: str, body: dict[str, Any]) -> Session:
        """Create a session.

        Raises:
            Problem: 403 if the caller may not act for this user; 409 if the id is in use, or if the
                user's state would change while calls wait; 422 for ids that cannot be stored, and
                for fields that would be dropped.
        """
        _require_use(caller, app, user)
        try:
            new = NewSession.model_validate(body)
        except ValidationError as error:
            raise invalid(error) from error
        if new.events or new.options:
            raise misformed(
                "A session is made empty here: history comes from agents, and `events` and "
                "`options` would be dropped."
            )
        for name, value in (("userId", user), ("sessionId", new.session_id)):
            if value is not None and not _ID.fullmatch(value):
                raise misformed(
                    f"{name} has 1 to 128 characters, no slashes and no control characters."
                )
        _require_own_state(caller, new.state or {})
        await self._require_no_pause(app, user, "", new.state or {})
        try:
            return await self.service(app).create_session(
                app_name=app, user_id=user, session_id=new.session_id, state=new.state
            )
        except AlreadyExistsError as error:
            raise Problem(
                409,
                "session-exists",
                "There is such a session",
                f"This user has a session {new.session_id!r} in this app.",
            ) from error

    async def update(
        self, caller: Caller, app: str, user: str, session: str, body: dict[str, Any]
    ) -> Session:
        """Set some keys of a session's state; the agent does not run.

        Raises:
            Problem: 404 as for `get`; 409 while an agent runs in the session or a call in it waits
                for an approval; 422 for keys that belong to Signoff.
        """
        await self.get(caller, app, user, session)
        try:
            new = NewState.model_validate(body)
        except ValidationError as error:
            raise invalid(error) from error
        _require_own_state(caller, new.state_delta)
        async with self._alone(app, user, session):
            await self._require_no_pause(app, user, session, new.state_delta)
            found = await self.get(caller, app, user, session)
            event = Event(
                invocation_id=f"p-{uuid.uuid4()}",
                author="user",
                actions=EventActions(state_delta=new.state_delta),
            )
            await self.service(app).append_event(session=found, event=event)
        return found

    async def delete(self, caller: Caller, app: str, user: str, session: str) -> None:
        """Delete a session, and withdraw its pending approvals.

        Raises:
            Problem: 404 as for `get`; 409 while an agent runs in the session, or is about to.
        """
        await self.get(caller, app, user, session)
        async with self._alone(app, user, session):
            runs = await self.decisions.ledger.session_runs(app, user, session)
            if any(one.under_way for one in runs):
                raise _busy()
            for approval in [one for run in runs for one in run.waiting]:
                # An approval that is answered at this moment cannot be withdrawn, and need not be.
                cancel = WithdrawObsolete(reason="the session was deleted")
                await self.decisions.take(approval, cancel, Actor(Operator(name=user)))
            await self.service(app).delete_session(app_name=app, user_id=user, session_id=session)

    async def _require_no_pause(
        self, app: str, user: str, session: str, state: Mapping[str, Any]
    ) -> None:
        """Refuse to change state while a call waits that was shown with it and may run with it.

        The state of a whole app may change, because some call always waits in an app. Whatever the
        state is when a tool runs, the guard compares the call with the approved one.
        """
        ledger = self.decisions.ledger
        runs = await ledger.session_runs(app, user, session) if session else []
        if any(key.startswith(State.USER_PREFIX) for key in state):
            runs = await ledger.user_runs(app, user)
        waiting = [one for one in runs if one.state in {RunState.PAUSED, RunState.ANSWERED}]
        if waiting:
            approvals: list[JsonValue] = [approval for one in waiting for approval in one.approvals]
            raise Problem(
                409,
                "session-paused",
                "A call waits for an approval",
                "What an approver was shown must stay as it is until the call has run or was "
                f"refused, so the state of session {waiting[0].session} cannot be changed now. "
                "Try again when its pause has ended; to end it, answer or withdraw the approvals.",
                approvals=approvals,
            )

    @asynccontextmanager
    async def _alone(self, app: str, user: str, session: str) -> AsyncIterator[None]:
        """Hold the session's lease, so that no worker runs or changes the session meanwhile."""
        ledger, key = self.decisions.ledger, session_key(app, user, session)
        token = secrets.token_hex(8)
        if not await ledger.take_lease(key, token, lease=_LEASE):
            raise _busy()
        try:
            yield
        finally:
            await ledger.release_lease(key, token)


def _busy() -> Problem:
    return session_busy(
        "An agent is at work in this session, or is about to be. Try again when it has ended."
    )


def _require_use(caller: Caller, app: str, user: str) -> None:
    if not caller.may_use(app, user):
        raise not_your_user(
            "The token may not act for this user in this app: see `users` and `apps` of "
            "[[gateway.tokens]]."
        )


def _has_zero(value: object) -> bool:
    """Return whether JSON contains U+0000, which PostgreSQL can neither store nor look up."""
    return "\\u0000" in json.dumps(value).replace("\\\\", "")


def _require_own_state(caller: Caller, state: dict[str, Any]) -> None:
    """Refuse keys that are Signoff's own, and state of all users from a caller for some users."""
    if _has_zero(state):
        raise misformed(
            "The state has the character U+0000, which not every store of sessions can keep. "
            "Leave it out."
        )
    if own := [key for key in state if key.startswith(_OURS)]:
        raise misformed(
            f"{own[0]!r} is a key of Signoff's own. Give it a name that does not begin with "
            f"{_OURS!r}."
        )
    shared = [key for key in state if key.startswith(State.APP_PREFIX)]
    if shared and caller.users is not None:
        raise Problem(
            403,
            "not-your-user",
            "This token is not for all users",
            f"{shared[0]!r} would be set for every user of the app; that takes a token with "
            'users = ["*"].',
        )
