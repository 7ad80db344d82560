"""The client for programs that use asyncio; the other one is made from it by `make docs`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date
from typing import Any

from pydantic import JsonValue, TypeAdapter

from signoff.client.base_asynchronous import AsyncAsking
from signoff.client.models import Approval, AuditLine, Entry, Me, Outcome, Run
from signoff.client.others import Figures, Grant, Person, Queue
from signoff.client.reading import quoted, without_defaults
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.run import RunState
from signoff.core.approvals.search_terms import Due, Sort, Standing


class AsyncClient(AsyncAsking):
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

    async def me(self) -> Me:
        """Return the token's owner and scopes."""
        return Me.model_validate_json((await self._send("GET", "/me")).content)

    # -- runs ----------------------------------------------------------------------------------

    async def submit(
        self, app: str, message: str, *, user: str = "", session: str = "", key: str = ""
    ) -> Run:
        """Submit a run.

        Args:
            app: The agent.
            message: The user's message.
            user: The ADK user, for a system's token.
            session: An ADK session to go on with; a new one where none is given.
            key: The same for each attempt at the same thing, also from another process.
        """
        body = {"app": app, "message": message, "user": user, "session": session}
        return Run.model_validate_json((await self._post("/runs", body, key)).content)

    async def run(self, run_id: str) -> Run:
        """Return one run."""
        return Run.model_validate_json((await self._send("GET", f"/runs/{quoted(run_id)}")).content)

    async def runs(
        self, *, state: RunState | None = None, app: str = "", user: str = ""
    ) -> AsyncIterator[Run]:
        """Yield runs, the newest first, a page at a time."""
        wanted = without_defaults(state=state, app=app, user=user, limit=100)
        async for one in self._pages("/runs", Run, wanted):
            yield one

    # -- approvals -----------------------------------------------------------------------------

    async def approval(self, approval_id: str) -> Approval:
        """Return one approval."""
        answer = await self._send("GET", f"/approvals/{quoted(approval_id)}")
        return Approval.model_validate_json(answer.content)

    async def approvals(
        self,
        *,
        q: str = "",
        state: State | Standing | None = None,
        waiting_for: str = "",
        queue: str = "",
        app: str = "",
        tool: str = "",
        person: str = "",
        requester: str = "",
        run: str = "",
        due: Due | None = None,
        sort: Sort = Sort.NEWEST,
    ) -> AsyncIterator[Approval]:
        """Yield approvals, the newest first where `sort` says nothing else, a page at a time.

        Args:
            q: Words that all have to be in it; see the reference of the API.
            state: Only those in this state.
            waiting_for: Only those that wait for this person.
            queue: Only those of this queue.
            app: Only those of this app.
            tool: Only calls of this tool.
            person: Only what has to do with this person.
            requester: Only requests of this ADK user.
            run: Only those of this run.
            due: Only those whose level is overdue or ends within this time.
            sort: The order of a list.
        """
        wanted = without_defaults(
            q=q,
            state=state,
            waiting_for=waiting_for,
            queue=queue,
            app=app,
            tool=tool,
            person=person,
            requester=requester,
            run=run,
            due=due,
            sort=sort,
            limit=100,
        )
        async for one in self._pages("/approvals", Approval, wanted):
            yield one

    async def timeline(self, approval_id: str) -> list[Entry]:
        """Return what happened to an approval, the oldest first."""
        answer = await self._send("GET", f"/approvals/{quoted(approval_id)}/timeline")
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
            approval: As it was shown to the person who decides.
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

    async def approve_together(
        self, approvals: Sequence[Approval], *, key: str = ""
    ) -> list[Outcome]:
        """Approve several calls whose policy calls them harmless, 50 at most; each by itself.

        Args:
            approvals: As they were shown to the person who decides.
            key: As for `submit`.
        """
        shown = [{"id": one.id, "digest": one.digest} for one in approvals]
        answer = await self._post("/approvals/together", {"approvals": shown}, key)
        return TypeAdapter(list[Outcome]).validate_json(answer.content)

    async def reject(self, approval_id: str, *, reason: str = "", key: str = "") -> Approval:
        """Reject, as the token's person; the agent reads the reason."""
        return await self._move(approval_id, "reject", {"reason": reason}, key)

    async def withdraw(self, approval_id: str, *, reason: str, key: str = "") -> Approval:
        """Take a question back, as the person who has asked it."""
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
        """Comment on the card. The requester's comment answers an open question."""
        return await self._move(approval_id, "comment", {"text": text}, key)

    async def extend(self, approval_id: str, by: str, *, reason: str, key: str = "") -> Approval:
        """Move the deadline, by ``4h`` or ``1d``."""
        return await self._move(approval_id, "extend", {"by": by, "reason": reason}, key)

    async def remind(self, approval_id: str, *, key: str = "") -> Approval:
        """Have those reminded whose answer is awaited."""
        return await self._move(approval_id, "remind", {}, key)

    # -- queues --------------------------------------------------------------------------------

    async def queues(self) -> list[Queue]:
        """Return what waits, summed up by queue and by person."""
        answer = await self._send("GET", "/queues")
        return TypeAdapter(list[Queue]).validate_json(answer.content)

    async def queue(self, name: str) -> AsyncIterator[Approval]:
        """Yield what waits in a queue, for a person or altogether (``all``), the newest first."""
        async for one in self._pages(f"/queues/{quoted(name)}", Approval, {"limit": 100}):
            yield one

    async def figures(self) -> Figures:
        """Return how long people took, and what came of the approvals that ended last."""
        return Figures.model_validate_json((await self._send("GET", "/figures")).content)

    # -- grants --------------------------------------------------------------------------------

    async def give(
        self,
        approval: Approval,
        length: str,
        *,
        uses: int | None = None,
        limit: str = "",
        reason: str = "",
        key: str = "",
    ) -> Grant:
        """Approve the call that this approval shows, and calls like it for a while.

        Args:
            approval: As it was shown to the person who decides; it may be decided already.
            length: For how long: ``4h``.
            uses: How many more calls; as many as the policy allows where it is None.
            limit: A CEL expression, to cover less than the policy allows.
            reason: In the person's own words.
            key: As for `submit`.
        """
        body = {
            "digest": approval.digest,
            "length": length,
            "uses": uses,
            "limit": limit,
            "reason": reason,
        }
        answer = await self._post(f"/approvals/{quoted(approval.id)}/grant", body, key)
        return Grant.model_validate_json(answer.content)

    async def grant(self, grant_id: str) -> Grant:
        """Return one grant, by its id or that of the approval it came from."""
        answer = await self._send("GET", f"/grants/{quoted(grant_id)}")
        return Grant.model_validate_json(answer.content)

    async def grants(self, *, everything: bool = False) -> AsyncIterator[Grant]:
        """Yield grants, the newest first.

        Args:
            everything: Include ended ones.
        """
        wanted = {"limit": 100, "all": everything}
        async for one in self._pages("/grants", Grant, wanted):
            yield one

    async def uses(self, grant_id: str) -> AsyncIterator[Approval]:
        """Yield the approvals that a grant has decided, the latest first."""
        async for one in self._pages(f"/grants/{quoted(grant_id)}/uses", Approval, {"limit": 100}):
            yield one

    async def revoke(self, grant_id: str, *, reason: str, key: str = "") -> Grant:
        """Take a grant back, at once."""
        answer = await self._post(f"/grants/{quoted(grant_id)}/revoke", {"reason": reason}, key)
        return Grant.model_validate_json(answer.content)

    # -- people --------------------------------------------------------------------------------

    async def people(self) -> list[Person]:
        """Return the people of whom the token may know when they are away."""
        answer = await self._send("GET", "/people")
        return TypeAdapter(list[Person]).validate_json(answer.content)

    async def person(self, person_id: str) -> Person:
        """Return one person, and when they are away."""
        answer = await self._send("GET", f"/people/{quoted(person_id)}")
        return Person.model_validate_json(answer.content)

    async def leave(
        self,
        person_id: str,
        *,
        end: date,
        start: date | None = None,
        delegate: str = "",
        key: str = "",
    ) -> Person:
        """Note that somebody is away.

        Args:
            person_id: Who: the token's person, or anybody for an administrator.
            end: The last day, where the person is.
            start: The first day; today where it is None.
            delegate: The id or an address of the person who decides instead.
            key: As for `submit`.
        """
        body = {
            "from": None if start is None else start.isoformat(),
            "to": end.isoformat(),
            "delegate": delegate,
        }
        answer = await self._post(f"/people/{quoted(person_id)}/away", body, key)
        return Person.model_validate_json(answer.content)

    async def come_back(self, person_id: str, *, key: str = "") -> Person:
        """Note that somebody is back."""
        answer = await self._post(f"/people/{quoted(person_id)}/back", {}, key)
        return Person.model_validate_json(answer.content)

    # -- the audit -----------------------------------------------------------------------------

    async def audit(
        self, *, after: str = "", approval: str = "", run: str = ""
    ) -> AsyncIterator[AuditLine]:
        """Yield the lines of the audit, the oldest first, to its present end.

        Args:
            after: The id of a line; only what comes behind it.
            approval: Only entries about this approval.
            run: Only entries about this run.
        """
        wanted = without_defaults(after=after, approval=approval, run=run)
        async for line in self._lines("/audit", wanted):
            yield AuditLine.model_validate_json(line)

    # -- inside --------------------------------------------------------------------------------

    async def _move(
        self, approval_id: str, verb: str, body: Mapping[str, Any], key: str
    ) -> Approval:
        answer = await self._post(f"/approvals/{quoted(approval_id)}/{verb}", body, key)
        return Approval.model_validate_json(answer.content)
