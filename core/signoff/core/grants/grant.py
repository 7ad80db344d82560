"""Grants: "approve this and calls like it for 4 hours".

A grant replaces the approval of the person who gave it, and only if that approval alone would
decide. It never replaces a second step or an answer to a request for input, and never covers more
than the policy allows at the time of each call. People are asked about all other calls as usual.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, Self

from pydantic import Field, JsonValue

from signoff.core.approvals.approval import Approval, Kind, State
from signoff.core.approvals.events import Event, What
from signoff.core.base.durations import format_duration
from signoff.core.base.errors import ConditionError, GrantRefused, NotCanonical
from signoff.core.base.hiding import Hidden, without_hidden
from signoff.core.base.model import Needs, Value
from signoff.core.directory.people import Directory
from signoff.core.payloads.digest import require_canonical
from signoff.core.policies import conditions
from signoff.core.policies.levels import Verdict
from signoff.core.policies.policy import GrantRules, Terms

_JSON_TYPES: Final[Mapping[type, str]] = {
    bool: "boolean",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


class GrantScope(Value):
    """The calls that a grant covers: calls like the one for which it was given.

    Texts are equal if they have the same characters, and numbers if they have the same value. A
    number, a text with its digits and a boolean are never equal; see
    `signoff.core.payloads.digest`.

    Attributes:
        app: The agent's folder.
        agent: The agent that calls the tool.
        tool: The tool.
        user: The user id of the session: the requester.
        kind: The kind of request.
        policy: The name of the policy that applies to the calls.
        args: The arguments that must be equal.
        vary: The JSON types of the arguments whose values may differ, by name. They must be present
            with this type, because nobody has seen the default of a missing argument.
        limits: CEL expressions that must be true for each call.
        hide: The names of arguments whose values people do not see.
    """

    app: str
    agent: str
    tool: str
    user: str
    kind: Kind
    policy: str
    args: dict[str, JsonValue]
    vary: dict[str, str] = Field(default_factory=dict)
    limits: tuple[str, ...] = ()
    hide: Hidden = ()

    @classmethod
    def of(cls, approval: Approval, rules: GrantRules, *, limit: str = "") -> Self:
        """Return the scope for calls like this one, which may differ as the policy allows."""
        origin, args = approval.origin, approval.call.args
        return cls(
            app=origin.app,
            agent=origin.agent,
            tool=approval.call.name,
            user=origin.user,
            kind=approval.kind,
            policy=approval.terms.policy if approval.terms else "",
            args={name: value for name, value in args.items() if name not in rules.vary},
            vary={name: json_type(args[name]) for name in sorted(args) if name in rules.vary},
            limits=tuple(dict.fromkeys(one for one in (rules.limit, limit) if one.strip())),
            hide=approval.hides,
        )

    def why_not(self, approval: Approval) -> str:
        """Return why a call is outside the scope, "" if it is inside. Never raises."""
        for name, ours, theirs in (
            ("app", self.app, approval.origin.app),
            ("agent", self.agent, approval.origin.agent),
            ("tool", self.tool, approval.call.name),
            ("requester", self.user, approval.origin.user),
            ("kind", self.kind, approval.kind),
        ):
            if ours != theirs:
                return f"it is for another {name}"
        args = approval.call.args
        if {name: json_type(args[name]) for name in self.vary if name in args} != self.vary:
            return "an argument that may vary is missing, or is of another type"
        fixed = {name: value for name, value in args.items() if name not in self.vary}
        try:
            if require_canonical(fixed, "they") != require_canonical(self.args, "they"):
                return "the arguments differ"
            facts = approval.facts
            outside = next((one for one in self.limits if not conditions.holds(one, facts)), "")
        except (ConditionError, NotCanonical) as error:
            return str(error)
        return f"it is outside of {outside}" if outside else ""


def json_type(value: JsonValue) -> str:
    """Return the JSON type of a value; any other type has a name that equals no JSON type."""
    return _JSON_TYPES.get(type(value), type(value).__name__)


class Grant(Value):
    """A person's advance approval of calls like one that they have approved.

    Attributes:
        id: Derived from the approval, which can give one grant.
        scope: The calls that it covers.
        by: The id of the person who gave it.
        channel: The channel by which it was given.
        at: When it was given (UTC).
        expires_at: When it expires (UTC).
        uses: How many calls it covers.
        used: How many calls it has decided.
        approval: The approval for which it was given.
        run: The run of that approval.
        reason: The reason in the person's own words.
        revoked_at: When it was revoked (UTC), None if it was not.
        revoked_by: Who revoked it.
        revoked_why: The reason for the revocation.
        needs: See `signoff.core.base.model.Needs`.
        version: Counts the commits; see `Approval`.
    """

    id: str
    scope: GrantScope
    by: str
    channel: str
    at: datetime
    expires_at: datetime
    uses: int
    used: int = 0
    approval: str
    run: str
    reason: str = ""
    revoked_at: datetime | None = None
    revoked_by: str = ""
    revoked_why: str = ""
    needs: Needs = 0
    version: int = 0

    @classmethod
    def give(
        cls,
        approval: Approval,
        *,
        by: str,
        channel: str,
        now: datetime,
        span: timedelta,
        uses: int | None = None,
        limit: str = "",
        reason: str = "",
    ) -> tuple[Self, tuple[Event, ...]]:
        """Give a grant for calls like one that the same person has approved.

        Args:
            approval: The decided approval.
            by: The id of the person who gives it.
            channel: The channel of the person's answer.
            now: The present.
            span: How long it is valid.
            uses: How many calls it covers; None for as many as the policy allows.
            limit: A CEL expression that restricts it further than the policy.
            reason: The reason.

        Raises:
            GrantRefused: The person may not give this grant.
            NotShownInFull: The channel has not shown the person the whole call.
        """
        rules = may_grant(approval, by)
        _check_decision(approval, by)
        approval.may_approve_by(by, channel)
        if not timedelta(0) < span <= rules.longest:
            most = format_duration(rules.longest)
            raise GrantRefused(f"A grant is for {most} at most here; give it for less.")
        count = rules.most if uses is None else uses
        if not 1 <= count <= rules.most:
            most = "1 call" if rules.most == 1 else f"1 to {rules.most} calls"
            raise GrantRefused(f"A grant is for {most} here, not for {count}.")
        scope = GrantScope.of(approval, rules, limit=limit)
        _check_limit(scope, limit, approval)
        grant = cls(
            id=grant_id(approval.id),
            scope=scope,
            by=by,
            channel=channel,
            at=now,
            # In milliseconds, as in the commits of the ledger.
            expires_at=(now + span).replace(microsecond=now.microsecond // 1000 * 1000),
            uses=count,
            approval=approval.id,
            run=approval.origin.run,
            reason=reason,
        )
        more: dict[str, JsonValue] = {
            "grant": grant.id,
            "channel": channel,
            "until": grant.expires_at.isoformat(),
            "uses": count,
        }
        if scope.vary:
            more["vary"] = list(scope.vary)
        if scope.limits:
            more["limits"] = list(scope.limits)
        return grant, (approval.note(What.GRANTED, now=now, by=by, why=reason, more=more),)

    def use(
        self,
        approval: Approval,
        terms: Terms,
        asked: Collection[str],
        directory: Directory,
        *,
        now: datetime,
    ) -> tuple[Self, Approval, tuple[Event, ...]]:
        """Decide a call about which nobody has been asked.

        Args:
            approval: The approval of the call.
            terms: The terms under which people would be asked now.
            asked: The ids of the people who would be asked first.
            directory: The people.
            now: The present.

        Returns:
            The grant with one use less, the approved approval, and the events.

        Raises:
            GrantRefused: It does not cover this call, or no longer. People are then asked.
        """
        if why := self.why_not(approval, terms, asked, directory, now=now):
            raise GrantRefused(f"Grant {self.id} does not decide approval {approval.id}: {why}.")
        reason = self.reason or f"calls like {self.approval} were approved in advance"
        approved, events = approval.take_grant(
            terms, by=self.by, grant=self.id, reason=reason, now=now
        )
        grant = self.model_copy(update={"used": self.used + 1})
        more: dict[str, JsonValue] = {"grant": self.id, "left": grant.left}
        event = approval.note(What.GRANT_USED, now=now, by=self.by, more=more)
        return grant, approved, (*events, event)

    def revoke(self, *, by: str, why: str, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Revoke the grant: it covers nothing from now on. Its decisions stay.

        Raises:
            GrantRefused: It has ended already.
        """
        if (state := self.state(now)) != "open":
            raise GrantRefused(f"Grant {self.id} is {state} already; there is nothing to revoke.")
        grant = self.model_copy(update={"revoked_at": now, "revoked_by": by, "revoked_why": why})
        event = Event(
            what=What.GRANT_REVOKED,
            at=now,
            approval=self.approval,
            run=self.run,
            by=by,
            why=why,
            more={"grant": self.id, "left": self.left},
        )
        return grant, (event,)

    @property
    def masked(self) -> Self:
        """The grant as people see it, without hidden values."""
        args = without_hidden(self.scope.args, self.scope.hide)
        return self.model_copy(update={"scope": self.scope.model_copy(update={"args": args})})

    @property
    def left(self) -> int:
        """How many further calls it may cover."""
        return max(self.uses - self.used, 0)

    def state(self, now: datetime) -> str:
        """Return ``open``, ``revoked``, ``used up`` or ``expired``."""
        if self.revoked_at is not None:
            return "revoked"
        if not self.left:
            return "used up"
        return "expired" if now >= self.expires_at else "open"

    def why_not(
        self,
        approval: Approval,
        terms: Terms,
        asked: Collection[str],
        directory: Directory,
        *,
        now: datetime,
    ) -> str:
        """Return why it does not decide a call, "" if it does. Arguments as for `use`."""
        if (state := self.state(now)) != "open":
            return f"it is {state}"
        if terms.policy != self.scope.policy:
            return f"it falls under {terms.policy}"
        if why := self._giver_cannot(approval, terms, asked, directory):
            return why
        try:
            rules = _rules(approval, terms, self.by)
        except GrantRefused as error:
            return str(error).rstrip(".")
        # The current policy applies too, because it may be narrower than when the grant was given.
        if not set(self.scope.vary) <= set(rules.vary):
            return "the policy lets fewer arguments vary by now"
        return self.scope.why_not(approval) or GrantScope.of(approval, rules).why_not(approval)

    def _giver_cannot(
        self, approval: Approval, terms: Terms, asked: Collection[str], directory: Directory
    ) -> str:
        person, user = directory.get(self.by), approval.origin.user
        if person is None or self.by not in asked:
            return f"{self.by} would not be asked"
        if directory.may_be(person, user):
            return f"{self.by} asks for it"
        unsaid = not self.reason and Verdict.APPROVE in terms.asking(0).reasons
        return "a yes needs a reason, and it was given without one" if unsaid else ""


def grant_id(approval_id: str) -> str:
    """Return the id of the grant that an approval can give: ``gr_`` and 16 letters."""
    return "gr_" + approval_id.removeprefix("ap_")


def may_grant(approval: Approval, person: str) -> GrantRules:
    """Return the rules under which a person may approve calls like this one in advance.

    Raises:
        GrantRefused: Nobody may give a grant, or this person may not.
    """
    if approval.terms is None:
        raise GrantRefused(f"Approval {approval.id} is not routed yet; try again in a moment.")
    rules = _rules(approval, approval.terms, person)
    seats = [seat for seat in approval.seats if seat.level >= 0]
    begun = min((seat.level for seat in seats), default=0)
    own = {seat.person for seat in seats if seat.level == begun and not seat.instead_of}
    if seats and person not in own:
        raise GrantRefused(
            "Only people who are asked first, and for themselves, can approve calls in advance: a "
            f"grant that {person} gave would decide nothing."
        )
    return rules


def givers(approval: Approval) -> tuple[str, ...]:
    """Return the ids of the people who may approve calls like this one in advance."""
    named = approval.terms.grants.who if approval.terms and approval.terms.grants else ()
    able = []
    for person in named:
        with suppress(GrantRefused):
            may_grant(approval, person)
            able.append(person)
    return tuple(able)


def _rules(approval: Approval, terms: Terms, person: str) -> GrantRules:
    rules = terms.grants
    if rules is None:
        raise GrantRefused(f"The policy {terms.policy} lets nobody approve calls in advance.")
    if person not in rules.who:
        raise GrantRefused(f"The policy {terms.policy} does not let {person} give grants.")
    several = any(level.quorum != 1 or level.all_of or level.until for level in terms.ladder)
    if len(terms.phases) > 1 or terms.at_least > 1 or several:
        raise GrantRefused("Calls that need more than one approval are approved one by one.")
    if terms.second_step:
        raise GrantRefused("Calls that need a second step are approved one by one.")
    if approval.kind is Kind.INPUT or approval.template is not None:
        raise GrantRefused("Requests with fields to fill in are answered one by one.")
    if approval.origin.again:
        raise GrantRefused("A call that is in doubt is decided by somebody who has looked.")
    return rules


def _check_decision(approval: Approval, by: str) -> None:
    decision = approval.decision
    if approval.state is State.PENDING:
        raise GrantRefused(
            f"Your yes alone does not decide approval {approval.id}, so it can give no grant."
        )
    if approval.state is not State.APPROVED or decision is None or decision.by != by:
        raise GrantRefused(
            f"Approval {approval.id} is {approval.outcome()}. Only its approver can give a grant."
        )
    if decision.grant:
        raise GrantRefused(
            f"Approval {approval.id} was decided by the grant {decision.grant}, and gives none."
        )


def _check_limit(scope: GrantScope, limit: str, approval: Approval) -> None:
    try:
        if limit.strip():
            conditions.check(limit)
    except ConditionError as error:
        raise GrantRefused(f"The limit cannot be used: {error}") from error
    if why := scope.why_not(approval):
        raise GrantRefused(f"No grant can be given for calls like this: {why}.")
