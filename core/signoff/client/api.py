"""The operations of the REST API, and its two clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from pydantic import JsonValue

from signoff.client.models import (
    Approval,
    AuditLine,
    Entry,
    Figures,
    Freeze,
    Grant,
    Left,
    Me,
    OnCall,
    Outcome,
    Person,
    Queue,
    Run,
)
from signoff.client.requests import Lines, Pages, Request, get, given, post, quoted
from signoff.client.transports import AsyncTransport, Listing, Method, Transport
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.lists.search_terms import Due, Sort, Status
from signoff.core.approvals.run import RunState


class Operations:
    """The operations of the API, in the order of its reference.

    A `key` identifies an attempt: the gateway carries out requests with the same key once, even if
    another process sends them. Without one, every call is new.
    """

    @Method
    def me(self) -> Request[Me]:
        """Return the token's owner and scopes."""
        return get("/me", Me)

    # -- runs ----------------------------------------------------------------------------------

    @Method
    def submit(
        self, app: str, message: str, *, user: str = "", session: str = "", key: str = ""
    ) -> Request[Run]:
        """Submit a run.

        Args:
            app: The agent.
            message: The user's message.
            user: The ADK user, for a system's token.
            session: An ADK session to continue. The default is a new one.
            key: The idempotency key.
        """
        body = {"app": app, "message": message, "user": user, "session": session}
        return post("/runs", Run, body, key)

    @Method
    def run(self, run_id: str) -> Request[Run]:
        """Return one run."""
        return get(f"/runs/{quoted(run_id)}", Run)

    @Listing
    def runs(self, *, state: RunState | None = None, app: str = "", user: str = "") -> Pages[Run]:
        """Yield runs, the newest first."""
        return Pages("/runs", Run, given(state=state, app=app, user=user))

    # -- approvals -----------------------------------------------------------------------------

    @Method
    def approval(self, approval_id: str) -> Request[Approval]:
        """Return one approval."""
        return get(f"/approvals/{quoted(approval_id)}", Approval)

    @Listing
    def approvals(
        self,
        *,
        q: str = "",
        state: State | Status | None = None,
        waiting_for: str = "",
        queue: str = "",
        app: str = "",
        tool: str = "",
        person: str = "",
        requester: str = "",
        run: str = "",
        due: Due | None = None,
        sort: Sort = Sort.NEWEST,
    ) -> Pages[Approval]:
        """Yield the approvals that match every filter.

        Args:
            q: Words that must all occur; see the reference of the API.
            state: The state.
            waiting_for: The id of a person whose answer is awaited.
            queue: The queue.
            app: The agent's app.
            tool: The tool.
            person: The id of a person who is involved.
            requester: The requester's ADK user id.
            run: The id of the run.
            due: When the current level ends.
            sort: The order.
        """
        wanted = given(
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
        )
        return Pages("/approvals", Approval, wanted)

    @Method
    def timeline(self, approval_id: str) -> Request[list[Entry]]:
        """Return what happened to an approval, the oldest first."""
        return get(f"/approvals/{quoted(approval_id)}/timeline", list[Entry])

    @Method
    def approve(
        self,
        approval: Approval,
        *,
        values: Mapping[str, JsonValue] | None = None,
        reason: str = "",
        as_it_is: bool = False,
        key: str = "",
    ) -> Request[Approval]:
        """Approve the call that this approval shows, as the token's person.

        Args:
            approval: The approval as the person who decides has seen it.
            values: The values for its template.
            reason: In the person's own words.
            as_it_is: Whether the person approves the call as it is, even if the reason reads like
                a no, a question, a condition or a limit. Without it, the gateway refuses such a
                reason.
            key: The idempotency key.
        """
        filled = None if values is None else dict(values)
        body: dict[str, Any] = {
            "digest": approval.digest,
            "values": filled,
            "reason": reason,
        }
        # A gateway of an earlier release does not know the field.
        if as_it_is:
            body["as_it_is"] = True
        return _move(approval.id, "approve", body, key)

    @Method
    def approve_together(
        self, approvals: Sequence[Approval], *, key: str = ""
    ) -> Request[list[Outcome]]:
        """Approve up to 50 calls whose policies have `batch`. Each is decided separately.

        Args:
            approvals: The approvals as the person who decides has seen them.
            key: The idempotency key.
        """
        shown = [{"id": one.id, "digest": one.digest} for one in approvals]
        return post("/approvals/together", list[Outcome], {"approvals": shown}, key)

    @Method
    def reject(self, approval_id: str, *, reason: str = "", key: str = "") -> Request[Approval]:
        """Reject as the token's person. The agent reads the reason."""
        return _move(approval_id, "reject", {"reason": reason}, key)

    @Method
    def withdraw(self, approval_id: str, *, reason: str, key: str = "") -> Request[Approval]:
        """Withdraw a request, as its requester."""
        return _move(approval_id, "withdraw", {"reason": reason}, key)

    @Method
    def claim(self, approval_id: str, *, length: str = "", key: str = "") -> Request[Approval]:
        """Claim an approval as the token's person: for ``30m``, or for the queue's default."""
        return _move(approval_id, "claim", {"length": length}, key)

    @Method
    def release(self, approval_id: str, *, reason: str = "", key: str = "") -> Request[Approval]:
        """Release a claim."""
        return _move(approval_id, "release", {"reason": reason}, key)

    @Method
    def reassign(
        self, approval_id: str, to: str, *, reason: str, of: str = "", key: str = ""
    ) -> Request[Approval]:
        """Reassign a seat to the person `to`: the seat of `of`, or that of the token's person."""
        return _move(approval_id, "reassign", {"to": to, "of": of, "reason": reason}, key)

    @Method
    def ask(self, approval_id: str, text: str, *, key: str = "") -> Request[Approval]:
        """Ask the requester a question."""
        return _move(approval_id, "ask", {"text": text}, key)

    @Method
    def comment(self, approval_id: str, text: str, *, key: str = "") -> Request[Approval]:
        """Comment on an approval. The requester's comment answers an open question."""
        return _move(approval_id, "comment", {"text": text}, key)

    @Method
    def extend(self, approval_id: str, by: str, *, reason: str, key: str = "") -> Request[Approval]:
        """Extend the deadline by ``4h`` or ``1d``."""
        return _move(approval_id, "extend", {"by": by, "reason": reason}, key)

    @Method
    def remind(self, approval_id: str, *, key: str = "") -> Request[Approval]:
        """Remind the approvers who have not answered."""
        return _move(approval_id, "remind", {}, key)

    # -- queues --------------------------------------------------------------------------------

    @Method
    def queues(self) -> Request[list[Queue]]:
        """Return the number of pending approvals, by queue and by person."""
        return get("/queues", list[Queue])

    @Listing
    def queue(self, name: str) -> Pages[Approval]:
        """Yield the pending approvals of a queue, a person or ``all``, the newest first."""
        return Pages(f"/queues/{quoted(name)}", Approval)

    @Method
    def on_call(self, at: datetime | None = None) -> Request[list[OnCall]]:
        """Return who would be asked by schedules and queues at a moment, now by default, and next.

        Args:
            at: The moment, with an offset.
        """
        params = {} if at is None else {"at": at.isoformat()}
        return Request("GET", "/on-call", list[OnCall], params)

    @Method
    def figures(self) -> Request[Figures]:
        """Return decision times and outcomes of the approvals that ended last."""
        return get("/figures", Figures)

    # -- grants --------------------------------------------------------------------------------

    @Method
    def give(
        self,
        approval: Approval,
        length: str,
        *,
        uses: int | None = None,
        limit: str = "",
        reason: str = "",
        as_it_is: bool = False,
        key: str = "",
    ) -> Request[Grant]:
        """Approve the call that this approval shows, and similar calls for a while.

        Args:
            approval: The approval as the person who decides has seen it. It may be decided already.
            length: How long the grant is valid: ``4h``.
            uses: How many further calls it covers. The default is the policy's maximum.
            limit: A CEL expression, to cover less than the policy allows.
            reason: In the person's own words.
            as_it_is: As of `approve`.
            key: The idempotency key.
        """
        body: dict[str, Any] = {
            "digest": approval.digest,
            "length": length,
            "uses": uses,
            "limit": limit,
            "reason": reason,
        }
        if as_it_is:
            body["as_it_is"] = True
        return post(f"/approvals/{quoted(approval.id)}/grant", Grant, body, key)

    @Method
    def grant(self, grant_id: str) -> Request[Grant]:
        """Return one grant, by its id or by the id of the approval that it came from."""
        return get(f"/grants/{quoted(grant_id)}", Grant)

    @Listing
    def grants(self, *, everything: bool = False) -> Pages[Grant]:
        """Yield grants, the newest first.

        Args:
            everything: Include ended ones.
        """
        return Pages("/grants", Grant, {"all": everything})

    @Listing
    def uses(self, grant_id: str) -> Pages[Approval]:
        """Yield the approvals that a grant has decided, the latest first."""
        return Pages(f"/grants/{quoted(grant_id)}/uses", Approval)

    @Method
    def revoke(self, grant_id: str, *, reason: str, key: str = "") -> Request[Grant]:
        """Revoke a grant immediately."""
        return post(f"/grants/{quoted(grant_id)}/revoke", Grant, {"reason": reason}, key)

    # -- people --------------------------------------------------------------------------------

    @Method
    def people(self) -> Request[list[Person]]:
        """Return the people whose absences the token may see."""
        return get("/people", list[Person])

    @Method
    def person(self, person_id: str) -> Request[Person]:
        """Return one person and their absences."""
        return get(f"/people/{quoted(person_id)}", Person)

    @Method
    def leave(
        self,
        person_id: str,
        *,
        end: date,
        start: date | None = None,
        delegate: str = "",
        hand_over: bool = False,
        key: str = "",
    ) -> Request[Left]:
        """Set an absence.

        Args:
            person_id: The token's person; an administrator may name anybody.
            end: The last day, in the person's time zone.
            start: The first day. The default is today.
            delegate: The id or address of the delegate.
            hand_over: Whether the pending approvals of the person are reassigned to the delegate.
            key: The idempotency key.
        """
        first = None if start is None else start.isoformat()
        body: dict[str, JsonValue] = {
            "from": first,
            "to": end.isoformat(),
            "delegate": delegate,
            "hand_over": hand_over,
        }
        return post(f"/people/{quoted(person_id)}/away", Left, body, key)

    @Method
    def come_back(self, person_id: str, *, key: str = "") -> Request[Person]:
        """End a person's absence."""
        return post(f"/people/{quoted(person_id)}/back", Person, {}, key)

    # -- freezes -------------------------------------------------------------------------------

    @Method
    def freezes(self) -> Request[list[Freeze]]:
        """Return the freezes, the oldest first."""
        return get("/freezes", list[Freeze])

    @Method
    def freeze(
        self,
        *,
        why: str,
        app: str = "",
        tool: str = "",
        everything: bool = False,
        key: str = "",
    ) -> Request[Freeze]:
        """Stop tools immediately, including approved calls. It needs an administrator's token.

        Args:
            why: The reason, which all approvers read.
            app: The app whose tools are stopped; "" for those of all apps.
            tool: The tool; "" for all tools.
            everything: Whether all tools of all apps are stopped, instead of an app or a tool.
            key: The idempotency key.
        """
        body: dict[str, JsonValue] = {
            "app": app,
            "tool": tool,
            "everything": everything,
            "why": why,
        }
        return post("/freezes", Freeze, body, key)

    @Method
    def thaw(self, freeze_id: str, *, why: str = "", key: str = "") -> Request[list[Freeze]]:
        """End a freeze, and return the remaining freezes. It needs an administrator's token.

        Args:
            freeze_id: The id of the freeze.
            why: The reason, for the audit log.
            key: The idempotency key.
        """
        return post(f"/freezes/{quoted(freeze_id)}/thaw", list[Freeze], {"why": why}, key)

    # -- the audit -----------------------------------------------------------------------------

    @Listing
    def audit(self, *, after: str = "", approval: str = "", run: str = "") -> Lines[AuditLine]:
        """Yield the lines of the audit, from the oldest to the present end.

        Args:
            after: The id of a line, to continue after it.
            approval: Only entries about this approval.
            run: Only entries about this run.
        """
        return Lines("/audit", AuditLine, given(after=after, approval=approval, run=run))


class Client(Operations, Transport):
    """A synchronous client of the REST API.

    If a response is lost, the client sends the request again with the same key, so that the gateway
    carries it out once. Every method raises `ApiError` if the gateway refuses the request, and
    `ApiUnreachable` if the gateway cannot be reached. Use the client in a ``with`` statement, or
    close it.

    Args:
        url: The URL of the gateway: ``https://approvals.example.com``.
        token: A token from `signoff tokens create`.
        timeout: How long a try may wait for the gateway, in seconds.
        tries: The largest number of tries for a request.
        transport: An httpx transport, for tests.
    """


class AsyncClient(Operations, AsyncTransport):
    """A client of the REST API whose methods are coroutines and asynchronous iterators.

    Its arguments and errors are those of `Client`. Use the client in an ``async with`` statement,
    or close it.
    """


def _move(approval_id: str, verb: str, body: Mapping[str, Any], key: str) -> Request[Approval]:
    return post(f"/approvals/{quoted(approval_id)}/{verb}", Approval, body, key)
