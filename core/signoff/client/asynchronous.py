"""The client for programs that use asyncio; the other one is made from it by `make docs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import httpx
from pydantic import JsonValue, TypeAdapter

from signoff.client.errors import ApiUnreachable
from signoff.client.models import Approval, AuditLine, Entry, Me, Page, Run
from signoff.client.reading import (
    base_of,
    checked,
    headers_of,
    key_of,
    pause_before,
    without_defaults,
)
from signoff.core.lifecycle import State
from signoff.core.run import RunState


class AsyncClient:
    """Asks the gateway, as the holder of a token.

    A request whose answer is lost is sent again, under the same key: it is carried out once. Every
    method raises `ApiError` where the gateway says no, and `ApiUnreachable` where it cannot be
    asked. Use it in an ``async with``, or close it.

    Args:
        url: Of the gateway: ``https://approvals.example.com``.
        token: That `signoff tokens create` has made.
        timeout: Seconds without a sign of the gateway after which a try has failed.
        tries: How often a request is tried.
        transport: Another way there, for tests.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30,
        tries: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._tries = tries
        self._http = httpx.AsyncClient(
            base_url=base_of(url), headers=headers_of(token), timeout=timeout, transport=transport
        )

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def me(self) -> Me:
        """Return whose token it is, and what it is good for."""
        return Me.model_validate_json((await self._send("GET", "/me")).content)

    # -- runs ----------------------------------------------------------------------------------

    async def submit(
        self, app: str, message: str, *, user: str = "", session: str = "", key: str = ""
    ) -> Run:
        """Say something to an agent.

        Args:
            app: The agent.
            message: What the user says.
            user: The ADK user, for a system's token.
            session: An ADK session to go on with; a new one where none is given.
            key: The same for each attempt at the same thing, also from another process.
        """
        body = {"app": app, "message": message, "user": user, "session": session}
        return Run.model_validate_json((await self._post("/runs", body, key)).content)

    async def run(self, run_id: str) -> Run:
        """Return one run."""
        return Run.model_validate_json((await self._send("GET", f"/runs/{run_id}")).content)

    async def runs(
        self, *, state: RunState | None = None, app: str = "", user: str = ""
    ) -> AsyncIterator[Run]:
        """Yield runs, the newest first, a page at a time."""
        wanted = without_defaults(state=state, app=app, user=user, limit=100)
        cursor: str | None = ""
        while cursor is not None:
            answer = await self._send("GET", "/runs", params={**wanted, "cursor": cursor})
            page = Page[Run].model_validate_json(answer.content)
            for one in page.items:
                yield one
            cursor = page.next

    # -- approvals -----------------------------------------------------------------------------

    async def approval(self, approval_id: str) -> Approval:
        """Return one approval."""
        answer = await self._send("GET", f"/approvals/{approval_id}")
        return Approval.model_validate_json(answer.content)

    async def approvals(
        self,
        *,
        state: State | None = None,
        waiting_for: str = "",
        app: str = "",
        tool: str = "",
        requester: str = "",
        run: str = "",
    ) -> AsyncIterator[Approval]:
        """Yield approvals, the newest first, a page at a time.

        Args:
            state: Only those that stand so.
            waiting_for: Only what waits for this person.
            app: Only those of this app.
            tool: Only calls of this tool.
            requester: Only what this ADK user asks for.
            run: Only those of this run.
        """
        wanted = without_defaults(
            state=state,
            waiting_for=waiting_for,
            app=app,
            tool=tool,
            requester=requester,
            run=run,
            limit=100,
        )
        cursor: str | None = ""
        while cursor is not None:
            answer = await self._send("GET", "/approvals", params={**wanted, "cursor": cursor})
            page = Page[Approval].model_validate_json(answer.content)
            for one in page.items:
                yield one
            cursor = page.next

    async def timeline(self, approval_id: str) -> list[Entry]:
        """Return what happened to an approval, the oldest first."""
        answer = await self._send("GET", f"/approvals/{approval_id}/timeline")
        return TypeAdapter(list[Entry]).validate_json(answer.content)

    async def approve(
        self,
        approval: Approval,
        *,
        values: Mapping[str, JsonValue] | None = None,
        reason: str = "",
        key: str = "",
    ) -> Approval:
        """Approve the call that this approval shows, as the token's person.

        Args:
            approval: As it was shown to whoever decides.
            values: For its template.
            reason: In the person's own words.
            key: As for `submit`.
        """
        body = {
            "digest": approval.digest,
            "values": None if values is None else dict(values),
            "reason": reason,
        }
        return await self._move(approval.id, "approve", body, key)

    async def reject(self, approval_id: str, *, reason: str = "", key: str = "") -> Approval:
        """Reject, as the token's person; the agent reads the reason."""
        return await self._move(approval_id, "reject", {"reason": reason}, key)

    async def withdraw(self, approval_id: str, *, reason: str, key: str = "") -> Approval:
        """Take a question back, as whoever has asked it."""
        return await self._move(approval_id, "withdraw", {"reason": reason}, key)

    async def claim(self, approval_id: str, *, length: str = "", key: str = "") -> Approval:
        """Reserve the decision for the token's person: for ``30m``, or as the queue says."""
        return await self._move(approval_id, "claim", {"length": length}, key)

    async def release(self, approval_id: str, *, reason: str = "", key: str = "") -> Approval:
        """Give a claim back."""
        return await self._move(approval_id, "release", {"reason": reason}, key)

    async def reassign(
        self, approval_id: str, to: str, *, reason: str, of: str = "", key: str = ""
    ) -> Approval:
        """Give a place, the token's person's own or that of another, to somebody else."""
        body = {"to": to, "of": of, "reason": reason}
        return await self._move(approval_id, "reassign", body, key)

    async def ask(self, approval_id: str, text: str, *, key: str = "") -> Approval:
        """Put a question to the requester."""
        return await self._move(approval_id, "ask", {"text": text}, key)

    async def comment(self, approval_id: str, text: str, *, key: str = "") -> Approval:
        """Say something for all who see the card; of the requester it answers a question."""
        return await self._move(approval_id, "comment", {"text": text}, key)

    async def extend(self, approval_id: str, by: str, *, reason: str, key: str = "") -> Approval:
        """Move the deadline, by ``4h`` or ``1d``."""
        return await self._move(approval_id, "extend", {"by": by, "reason": reason}, key)

    # -- the audit -----------------------------------------------------------------------------

    async def audit(self, *, after: str = "") -> AsyncIterator[AuditLine]:
        """Yield the lines of the audit, the oldest first, to its present end.

        Args:
            after: The id of a line; only what comes behind it.
        """
        params = without_defaults(after=after)
        try:
            async with self._http.stream("GET", "/audit", params=params) as answer:
                if not answer.is_success:
                    await answer.aread()
                    checked(answer)
                async for line in answer.aiter_lines():
                    yield AuditLine.model_validate_json(line)
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    # -- inside --------------------------------------------------------------------------------

    async def _move(
        self, approval_id: str, verb: str, body: Mapping[str, Any], key: str
    ) -> Approval:
        answer = await self._post(f"/approvals/{approval_id}/{verb}", body, key)
        return Approval.model_validate_json(answer.content)

    async def _post(self, path: str, body: Mapping[str, Any], key: str) -> httpx.Response:
        return await self._send("POST", path, json=body, headers=key_of(key))

    async def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:  # noqa: ANN401 -- as httpx has it
        for attempt in range(1, self._tries + 1):
            answer, problem = None, None
            try:
                answer = await self._http.request(method, path, **parts)
            except httpx.TransportError as error:
                problem = error
            pause = pause_before(attempt, answer)
            if not pause or attempt == self._tries:
                break
            await asyncio.sleep(pause)
        if answer is None:
            raise _unreachable(problem) from problem
        return checked(answer)


def _unreachable(error: Exception | None) -> ApiUnreachable:
    return ApiUnreachable(
        f"The gateway cannot be reached: {error or type(error).__name__}. Is it running at this "
        "URL, and does it serve /api/v1 ([gateway] api)?"
    )
