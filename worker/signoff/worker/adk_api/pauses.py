"""Pauses of remote agents, as `signoff.worker.plugin` publishes them."""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import structlog
from google.adk.events.event import Event
from google.genai import types
from pydantic import Field, ValidationError, model_validator

from signoff.broker.decisions import Decisions
from signoff.broker.effects import open_approval
from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval, State, approval_id
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.moves import Actor, WithdrawObsolete
from signoff.core.approvals.parts import Origin, ToolCall
from signoff.core.approvals.run import Run
from signoff.core.base.errors import ApprovalNotFound
from signoff.core.base.hiding import Hidden
from signoff.worker.adk.history import Confirmation, confirmations
from signoff.worker.adk.questions import CONFIRMATION
from signoff.worker.adk_api.answering import latest_approval
from signoff.worker.adk_api.callers import Caller
from signoff.worker.adk_api.problems import (
    Body,
    Problem,
    invalid,
    misformed,
    not_your_user,
    session_busy,
)
from signoff.worker.adk_remote.settings import RemoteApp

log = structlog.get_logger(__name__)

_MOST: Final = 64
_ELSEWHERE: Final = "it was answered where the agent runs, and not through Signoff"
_NO_WORDS: Final = "(The turn began without words.)"


class AdkCall(Body):
    """A waiting call: the ``adk_request_confirmation`` call that ADK has made."""

    agent: str = ""
    function_call: dict[str, Any]


class Published(Body):
    """The calls that a turn waits for, and the calls that were answered without Signoff."""

    app_name: str
    user_id: str
    session_id: str
    invocation_id: str = Field(min_length=1, max_length=128)
    app_url: str | None = None
    message: str = ""
    answered: list[str] = Field(default_factory=list, max_length=_MOST)
    pauses: list[AdkCall] = Field(max_length=_MOST)

    @property
    def where(self) -> tuple[str, str, str]:
        """The app, the user and the session."""
        return self.app_name, self.user_id, self.session_id

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.pauses and not self.answered:
            raise ValueError("there are no pauses, and nothing was answered")
        return self


@dataclass(frozen=True, slots=True)
class OpenedPause:
    """The approvals of a pause.

    Attributes:
        approvals: The approvals of all calls.
        fresh: Whether at least one of them is new.
    """

    approvals: tuple[str, ...]
    fresh: bool


@dataclass(frozen=True, slots=True)
class Pauses:
    """Opens approvals for remote agents.

    Attributes:
        decisions: Gives access to the ledger.
        remote: The remote agents that Signoff can answer.
        hides: Returns the arguments to hide in a call until its policy is known.
    """

    decisions: Decisions
    remote: Mapping[str, RemoteApp]
    hides: Callable[[], Hidden] = tuple

    async def open(self, caller: Caller, body: dict[str, Any]) -> OpenedPause:
        """Open an approval for each call that has none; publishing again changes nothing.

        Approvals that were answered without Signoff are withdrawn first.

        Raises:
            Problem: 403 if the caller may not act for this user in this app; 404 if Signoff has no
                address to answer to; 409 while Signoff itself runs the session, and so finds its
                pauses; 422 for a body that cannot be read.
            NotCanonical: The arguments of a call have no digest.
            LedgerUnavailable: Redis cannot be reached.
        """
        try:
            published = Published.model_validate(body)
        except ValidationError as error:
            raise invalid(error) from error
        published = self._named(caller, published)
        asked = _confirmations(published)
        await self._take_back(published)

        async def attempt() -> OpenedPause:
            return await self._open(published, asked)

        return await self.decisions.ledger.decide_again(attempt)

    async def _take_back(self, published: Published) -> None:
        """Withdraw the approvals that were answered where the agent runs."""
        ledger = self.decisions.ledger
        cancel, plugin = WithdrawObsolete(reason=_ELSEWHERE), Actor(Operator(name="plugin"))
        for call in published.answered:
            approval = await latest_approval(ledger, *published.where, call)
            # An ended approval cannot be withdrawn, and does not need to be.
            if approval is not None and approval.state is State.PENDING:
                await self.decisions.take(approval.id, cancel, plugin)

    def _named(self, caller: Caller, published: Published) -> Published:
        """Return the pause with our name for the app, if the caller may publish it.

        Only the settings determine where answers go, because answers carry credentials. The address
        that the agent sends only distinguishes servers with apps of the same name.
        """
        given = (published.app_url or "").rstrip("/")
        found = [
            name
            for name, one in self.remote.items()
            if (one.app_name or name) == published.app_name and given in {"", one.url}
        ]
        if len(found) != 1:
            count = "two or more tables" if found else "no table"
            raise Problem(
                404,
                "no-such-app",
                "There is no such app",
                f"There is {count} [agents.remote.APP] for an app of this name"
                + (" at this `app_url`" if given else "")
                + ": Signoff would not know where to answer it. Set `url` there to its ADK API "
                "server, and `app_url` of the plugin to the same.",
            )
        if not caller.may_use(found[0], published.user_id):
            raise not_your_user(
                "The token may not publish for this user in this app: see `users` and `apps` of "
                "[[gateway.tokens]]."
            )
        return published.model_copy(update={"app_name": found[0]})

    async def _open(self, published: Published, asked: Sequence[Confirmation]) -> OpenedPause:
        ledger = self.decisions.ledger
        ids = tuple(approval_id(_origin(published, one, run="")) for one in asked)
        fresh = []
        for one, known in zip(asked, ids, strict=True):
            try:
                await ledger.approval(known)
            except ApprovalNotFound:
                fresh.append(one)
        if not fresh:
            return OpenedPause(ids, fresh=False)
        runs = await ledger.session_runs(*published.where)
        if any(run.under_way for run in runs):
            raise session_busy(
                "Signoff itself runs this session at the moment, and sees its pauses already. "
                "If it does not have this one in a moment, publish it again."
            )
        await ledger.commit(await self._change(published, fresh))
        log.info("api.published", app=published.app_name, approvals=list(ids))
        return OpenedPause(ids, fresh=True)

    async def _change(self, published: Published, fresh: Sequence[Confirmation]) -> Change:
        now = await self.decisions.ledger.now()
        try:
            run = Run(
                id=_run_id(published, fresh),
                app=published.app_name,
                user=published.user_id,
                session=published.session_id,
                message=published.message.strip() or _NO_WORDS,
                submitted_at=now,
                trace=secrets.token_hex(16),
            )
        except ValidationError as error:
            raise invalid(error) from error
        change = Change().note(run.submitted())
        opened = []
        for one in fresh:
            approval, events = Approval.open(
                _origin(published, one, run=run.id),
                ToolCall(id=one.call_id, name=one.tool, args=one.args),
                hint=one.hint,
                template=one.payload,
                request=published.message,
                now=now,
                hide=self.hides(),
            )
            opened.append(approval.id)
            open_approval(change, approval, events)
        return change.put(run.paused(opened), was=None)


def _confirmations(published: Published) -> list[Confirmation]:
    found: dict[str, Confirmation] = {}
    for place, one in enumerate(published.pauses):
        at = f"/pauses/{place}/functionCall"
        try:
            call = types.FunctionCall.model_validate(one.function_call)
            part = types.Part(function_call=call)
            event = Event(
                author=one.agent,
                invocation_id=published.invocation_id,
                content=types.Content(role="model", parts=[part]),
                long_running_tool_ids={call.id} if call.id else None,
            )
            asked = confirmations(event)
            if len(asked) != 1 or not asked[0].call_id or not asked[0].tool:
                raise misformed(
                    f"{at} is no {CONFIRMATION} call with an id and an originalFunctionCall."
                )
            ToolCall(id=asked[0].call_id, name=asked[0].tool, args=asked[0].args)
        except ValidationError as error:
            raise invalid(error, at=at) from error
        except (AttributeError, TypeError) as error:
            # A value is not an object where one is required.
            raise misformed(f"{at} cannot be read: {error}") from error
        found[asked[0].id] = asked[0]
    return list(found.values())


def _origin(published: Published, asked: Confirmation, *, run: str) -> Origin:
    return Origin(
        run=run,
        app=published.app_name,
        agent=asked.agent,
        user=published.user_id,
        session=published.session_id,
        invocation=published.invocation_id,
        confirmation=asked.id,
    )


def _run_id(published: Published, fresh: Sequence[Confirmation]) -> str:
    """Return an id derived from the waiting calls, so that publishing twice gives the same run."""
    names = [
        published.app_name,
        published.user_id,
        published.session_id,
        published.invocation_id,
        *sorted(one.id for one in fresh),
    ]
    return f"run_{hashlib.sha256(chr(0).join(names).encode()).hexdigest()[:16]}"
