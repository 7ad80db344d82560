"""Converts the models of the domain to those of the API."""

from __future__ import annotations

from datetime import datetime

from signoff.channels.web.problems import Problem
from signoff.client import models
from signoff.core.access.api_tokens import Access
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event
from signoff.core.approvals.lists.metrics import Figures, PendingMetrics
from signoff.core.approvals.masking import masked
from signoff.core.approvals.run import Run
from signoff.core.approvals.voting import Vote
from signoff.core.base.freezes import Freeze
from signoff.core.base.hiding import having_hidden, without_hidden
from signoff.core.base.shown_text import one_line
from signoff.core.cards.card import policy_title
from signoff.core.directory.people import Person
from signoff.core.grants.grant import Grant
from signoff.core.routing.on_call import OnCall


def run(one: Run) -> models.Run:
    """Return a run."""
    return models.Run.model_validate(one.model_dump())


def approval(one: Approval) -> models.Approval:
    """Return an approval, without hidden values and approvers' addresses."""
    hidden = having_hidden(one.call.args, one.hides)
    one = masked(one)
    decided, claim = one.decision, one.claimed
    pending = one.state is State.PENDING
    return models.Approval(
        id=one.id,
        state=one.state,
        handoff=one.handoff,
        kind=one.kind,
        title=policy_title(one, one_line(one.origin.user)),
        call=models.Call(tool=one.call.name, args=one.call.args, hidden=tuple(sorted(hidden))),
        digest=one.digest,
        hint=one.hint,
        said=one.said,
        request=one.request,
        template=one.template,
        requester=one.origin.user,
        app=one.origin.app,
        agent=one.origin.agent,
        run=one.origin.run,
        session=one.origin.session,
        policy=one.terms.policy if one.terms else "",
        policy_version=one.terms.version if one.terms else "",
        level=one.level,
        approvers=tuple(sorted(one.approvers)),
        awaited=tuple(sorted(one.ballot.awaited)) if pending else (),
        informed=one.informed,
        claimed=None
        if claim is None or not pending
        else models.Claimed(id=one.id, by=claim.by, until=claim.until),
        votes=tuple(_vote(vote) for vote in one.votes),
        comments=tuple(models.Comment.model_validate(said.model_dump()) for said in one.comments),
        two_steps=one.in_two_steps,
        opened_at=one.opened_at,
        deadline=one.deadline,
        decision=None if decided is None else models.Decision.model_validate(decided.model_dump()),
        supersedes=one.supersedes,
        version=one.version,
    )


def _vote(one: Vote) -> models.Vote:
    said = one.decision
    return models.Vote(
        by=said.by,
        # People who vote for themselves do not represent anybody.
        stands_for="" if one.stands_for == one.by else one.stands_for,
        verdict=one.verdict,
        at=said.at,
        channel=said.channel,
        reason=said.reason,
    )


def entry(one: Event, *, details: bool) -> models.Entry:
    """Return an entry of the history.

    Not everybody gets its details, which may contain addresses.
    """
    more = one.more if details else {}
    return models.Entry(what=one.what.value, at=one.at, by=one.by, why=one.why, more=more)


def queue(one: PendingMetrics) -> models.Queue:
    """Return the summary of a queue."""
    return models.Queue.model_validate(one.model_dump())


def on_call(one: OnCall) -> models.OnCall:
    """Return who is on call."""
    return models.OnCall.model_validate(one.model_dump(exclude={"depends_on"}))


def figures(one: Figures) -> models.Figures:
    """Return the metrics of ended approvals."""
    took = tuple(
        models.Took(
            name=each.name,
            count=each.count,
            p50=each.p50.total_seconds(),
            p90=each.p90.total_seconds(),
        )
        for each in one.took
    )
    came = tuple(models.Came.model_validate(each.model_dump()) for each in one.came)
    return models.Figures(count=one.count, since=one.since, took=took, came=came)


def grant(one: Grant, now: datetime) -> models.Grant:
    """Return a grant, with its state at this time."""
    scope = one.scope
    return models.Grant(
        **one.model_dump(exclude={"scope", "run", "version"}),
        state=one.state(now),
        app=scope.app,
        agent=scope.agent,
        tool=scope.tool,
        requester=scope.user,
        policy=scope.policy,
        args=without_hidden(scope.args, scope.hide),
        vary=scope.vary,
        limits=scope.limits,
    )


def person(one: Person, now: datetime) -> models.Person:
    """Return a person and their absences, without addresses."""
    today = one.day(now)
    return models.Person(
        id=one.id,
        name=one.name,
        away_now=one.absence(now) is not None,
        away=tuple(
            models.Away.model_validate(absence.model_dump(by_alias=True))
            for absence in one.away
            if absence.end >= today
        ),
    )


def freeze(one: Freeze) -> models.Freeze:
    """Return a freeze."""
    return models.Freeze(**one.model_dump(), stops=one.stops)


def problem(one: Problem) -> models.Problem:
    """Return a problem as the model of its document."""
    return models.Problem.model_validate_json(bytes(one.response().body))


def me(one: Access) -> models.Me:
    """Return a token, without its secret and its hash."""
    return models.Me(
        id=one.id,
        name=one.name,
        person=one.person,
        users=one.users,
        apps=one.apps,
        scopes=tuple(sorted(one.scopes)),
        expires_at=one.expires_at,
    )
