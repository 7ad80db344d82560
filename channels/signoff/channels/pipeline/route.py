"""The stage `route`: chooses the approvers and the deadline, and sends the cards."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import MappingProxyType

import structlog

from signoff.broker import stages
from signoff.broker.announcements import statuses
from signoff.broker.decisions import Decisions, Extras
from signoff.broker.effects import add_effects
from signoff.broker.grants import Grants
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.limits.allowances import Allowances
from signoff.broker.monitoring import tracing
from signoff.broker.work import (
    AnnounceMilestone,
    ApproveEdit,
    AskElsewhere,
    AskLevel,
    AskOthers,
    RemindLevel,
    RescuePoisoned,
    RouteApproval,
    StaffPhase,
    TellMove,
)
from signoff.channels.pipeline.cards import remind, send_cards
from signoff.channels.pipeline.informing import Notifications
from signoff.channels.pipeline.notices import tell_move, tell_use
from signoff.channels.pipeline.outbox import (
    LocalWork,
    Worker,
    commit_each,
    dead_letter,
    drain,
    work_of,
)
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.milestones import Milestone, milestone_of
from signoff.core.approvals.moves import Actor, TakeEdit
from signoff.core.approvals.parts import with_cards
from signoff.core.base.errors import ApprovalError, Conflict, LeaseLost, RecordUnreadable
from signoff.core.base.hiding import Hidden
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Order, Start
from signoff.core.policies.policy import Edits, Effect, Fallback, Policy, Terms
from signoff.core.routing.departures import stand_in, too_few
from signoff.core.routing.escalation import go_past, is_due
from signoff.core.routing.selection import (
    UNMANNED,
    Choice,
    all_hidden,
    choose,
    choose_default,
    owners_of,
    restart,
)
from signoff.core.routing.targets import EMAIL, SLACK, Reach, other_targets, targets_of

log = structlog.get_logger(__name__)


class Router:
    """Routes new approvals, and routes approvals again that could not be delivered.

    Args:
        ledger: The ledger.
        policies: In order; the first that matches applies.
        fallback: Who is asked if no policy matches, or nobody in it can be asked or reached.
        directory: The people.
        channels: The names of the channels that are set up.
        owners: The owners of agents, by the name of the agent or its folder. An owner never
            decides requests of the agent.
        notifications: How people who do not decide are told.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        policies: Sequence[Policy],
        fallback: Fallback,
        directory: Directory,
        channels: Collection[str] = (EMAIL,),
        owners: Mapping[str, str] | None = None,
        notifications: Notifications | None = None,
    ) -> None:
        self._channels = frozenset(channels)
        domains = notifications.requester_domains if notifications is not None else ()
        self._reach = Reach(self._channels, domains)
        self._ledger = ledger
        self._decisions = Decisions(ledger, directory)
        self._grants = Grants(ledger)
        self._allowances = Allowances(ledger)
        self._owned = dict(owners or {})
        self._local = LocalWork(ledger, {})
        self.use(policies, fallback)

    def work_locally(self, workers: Mapping[str, Worker]) -> None:
        """Let these workers deliver what is routed, at once and in this process."""
        self._local = LocalWork(self._ledger, workers)

    def use(self, policies: Sequence[Policy], fallback: Fallback) -> None:
        """Route by these policies and this default from now on."""
        self._may_decide = any(one.effect is not Effect.ASK for one in policies)
        self._may_be_granted = any(rules.grants for rules in (*policies, fallback))
        self._hides = all_hidden(policies, fallback)
        self._policies = tuple(policies)
        self._fallback = fallback

    def hides(self) -> Hidden:
        """Return the arguments that any of the policies hides."""
        return self._hides

    async def drain(self) -> int:
        """Work until nothing waits, and return how many items there were.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        async with self._local.finishing():
            return await drain(self._ledger, stages.ROUTE, self._work)

    async def work(self, items: Sequence[Item]) -> None:
        """Route leased items; see `commit_each` for what happens to one that fails."""
        async with self._local.finishing():
            await self._work(items)

    async def _work(self, items: Sequence[Item]) -> None:
        await self._decisions.roster.refresh()
        rest = [item for item in items if not await self._is_decided(item)]
        await commit_each(self._ledger, rest, self._traced_route, self._give_up, local=self._local)

    async def _is_decided(self, item: Item) -> bool:
        """Decide an approval if nobody has to be asked; return whether that was done.

        A decided item is acknowledged. If it is not decided for any reason, people are asked.
        """
        try:
            match work_of(item):
                case RouteApproval(approval=approval_id):
                    return await self._decided_unasked(approval_id, Change().ack(item))
                case ApproveEdit(approval=approval_id):
                    return await self._approved_by_edit(item, approval_id)
        except RecordUnreadable as error:
            log.warning("route.unreadable", item=item.id, error=str(error))
        return False

    async def decide_unasked(self, approval_id: str) -> bool:
        """Decide at once if nobody has to be asked; return whether that was done.

        If not, the stage routes the approval. The stage may also be faster, which does no harm.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        await self._decisions.roster.refresh()
        return await self._decided_unasked(approval_id, Change())

    async def _decided_unasked(self, approval_id: str, also: Change) -> bool:
        """Decide by a policy or a grant, in one commit with a change; return whether it is done."""
        return await self._decided_by_policy(approval_id, also) or await self._approved_by_grant(
            approval_id, also
        )

    async def _decided_by_policy(self, approval_id: str, also: Change) -> bool:
        """Allow or reject a call if a policy does so without asking; return whether it was done."""
        if self._decisions.directory.strangers and not self._may_decide:
            return False
        try:
            done = await self._allowances.decide(approval_id, self._choose, also=also)
        except (ApprovalError, Conflict, LeaseLost, RecordUnreadable) as error:
            log.info("approval.not_decided_by_policy", approval=approval_id, why=str(error))
            return False
        return done is not None

    async def _approved_by_edit(self, item: Item, approval_id: str) -> bool:
        """Approve a call that its approver has proposed, if the policy allows that."""
        try:
            approval = await self._ledger.approval(approval_id)
            several = approval.terms is not None and len(approval.terms.phases) > 1
            if approval.in_two_steps or approval.ballot.need > 1 or several:
                # A proposal by mail does not count more than an answer by mail. If several people
                # have to approve, the others are still asked.
                return False
            before = await self._ledger.approval(approval.supersedes)
            decision = before.decision
            if decision is None or decision.proposal is None:
                return False
            person = self._decisions.directory.get(decision.by)
            proposed = approval.digest_of(
                before.call.name,
                decision.proposal,
                origin=before.origin,
                declared=before.declared,
            )
            if person is None or proposed != approval.digest:
                return False
            move = TakeEdit(reason=f"it is what the rejection of {before.id} proposed")
            actor = Actor(person, decision.channel)
            extras = Extras(also=Change().ack(item))
            (await self._decisions.take(approval.id, move, actor, extras)).approval_or_raise()
        except (ApprovalError, LeaseLost) as error:
            log.info("approval.edit_not_taken", item=item.id, why=str(error))
            return False
        return True

    async def _approved_by_grant(self, approval_id: str, also: Change) -> bool:
        """Approve a call that a grant covers."""
        if not self._may_be_granted:
            return False
        try:
            done = await self._grants.decide(
                approval_id,
                self.rules_of,
                self._decisions.directory,
                also=also,
                tell=partial(tell_use, directory=self._decisions.directory),
            )
        except (ApprovalError, Conflict, LeaseLost, RecordUnreadable) as error:
            log.info("approval.grant_not_taken", approval=approval_id, why=str(error))
            return False
        return done is not None

    def rules_of(self, approval: Approval, now: datetime) -> tuple[Terms, Collection[str]]:
        """Return the terms that would apply to a call now, and the ids of those asked first."""
        choice = self._asks(approval, now)
        seats = choice.start.seats if choice.start is not None else ()
        if choice.start and choice.terms.asking(choice.start.level).order is Order.SEQUENCE:
            seats = seats[:1]
        # A grant counts only for its giver, not for the people they stand in for.
        return choice.terms, [seat.person for seat in seats if not seat.instead_of]

    def _traced_route(self, item: Item, approval: Approval, now: datetime) -> Change:
        with tracing.span("route", approval, work=item.work.work):
            change = self._route(item, approval, now)
        if isinstance(item.work, AskLevel | AskOthers | AskElsewhere | StaffPhase):
            # Several causes add the same item, so a later cause may rely on this item.
            change.unless_changed(approval)
        return change

    def _route(  # noqa: PLR0911, PLR0912 -- one for each kind
        self, item: Item, approval: Approval, now: datetime
    ) -> Change:
        change = Change().ack(item)
        match item.work:
            case TellMove() as work:
                return tell_move(change, work, approval, self._decisions.directory, now=now)
            case AnnounceMilestone() as work:
                return self._announce(change, work, approval)
            case _ if approval.state is not State.PENDING:
                return change
            case RouteApproval():
                return self._first(change, approval, now)
            case ApproveEdit():
                return send_cards(change, approval, now=now)
            case AskLevel() | RemindLevel() | AskOthers() | AskElsewhere() as work if (
                work.level_key != approval.level_key or approval.terms is None
            ):
                return change
            case AskLevel():
                if self._with_delegates(approval, now)[0] is not approval:
                    # The person who is next in the sequence has left before their turn.
                    return self._replace_unreachable(change, approval, now)
                after, events = self._cards(change, approval, now)
                return change.put(after, was=approval).note(events) if events else change
            case RemindLevel(nth=nth):
                return remind(change, approval, self._decisions.directory, nth=str(nth), now=now)
            case AskOthers():
                return self._replace_unreachable(change, approval, now)
            case AskElsewhere(person=key):
                return self._ask_elsewhere(change, approval, key, now)
            case RescuePoisoned(problem=problem) if is_due(approval, now):
                why = f"what was due could not be done: {problem}"
                return self._ask_default(change, approval, why, now)
            case StaffPhase() if approval.passed:
                return self._ask_default(change, approval, UNMANNED, now)
        return change

    def _announce(self, change: Change, work: AnnounceMilestone, approval: Approval) -> Change:
        for one in statuses(work, approval, self._decisions.directory, self._reach):
            change.send(one)
        return change

    def _announce_level(
        self, change: Change, milestone: Milestone | None, approval: Approval
    ) -> None:
        if milestone is not None:
            work = AnnounceMilestone(
                approval=approval.id, milestone=milestone, level_key=approval.level_key
            )
            self._announce(change, work, approval)

    def _owners(self, approval: Approval) -> tuple[str, ...]:
        return owners_of(self._owned, approval.facts)

    def _first(self, change: Change, approval: Approval, now: datetime) -> Change:
        """Ask about a new approval, once."""
        if approval.terms is not None:
            return change
        choice = self._asks(approval, now)
        return self._ask(change, approval, choice, now, barred=self._owners(approval))

    def _asks(self, approval: Approval, now: datetime) -> Choice:
        """Choose whom to ask about a call that could not be allowed at once."""
        choice = self._choose(approval, now)
        if choice.allowed is None:
            return choice
        over = f"it has allowed as many calls as it may, {choice.allowed}"
        why = {choice.terms.policy: approval.why_not_allowed or over}
        return self._choose(approval, now, not_allowed=why)

    def _choose(
        self,
        approval: Approval,
        now: datetime,
        *,
        not_allowed: Mapping[str, str] = MappingProxyType({}),
    ) -> Choice:
        """Choose whom to ask."""
        return choose(
            self._policies,
            self._fallback,
            self._decisions.directory,
            approval.facts,
            now=now,
            barred=(*approval.barred, *self._owners(approval)),
            rotations=self._decisions.roster.rotations.known,
            second_step=approval.in_two_steps,
            not_allowed=not_allowed,
        )

    def cards(
        self, change: Change, approval: Approval, milestone: Milestone | None
    ) -> tuple[Approval, tuple[Event, ...]]:
        """Add to a change the cards of a level that begins in the same change.

        Args:
            change: Added to.
            approval: The approval after the change, without the cards.
            milestone: What people who do not decide are told, None for nothing.

        Returns:
            The approval with those who are asked now, and the events.
        """
        after, events = self._cards(change, approval, approval.since or approval.opened_at)
        self._announce_level(change, milestone, after)
        return after, events

    def _cards(
        self, change: Change, approval: Approval, now: datetime
    ) -> tuple[Approval, tuple[Event, ...]]:
        fresh = self._cards_due(approval)
        if not fresh:
            return approval, ()
        asked = _ask_too(change, approval, fresh, now)
        log.info("approval.asked", approval=approval.id, people=[one.key for one in fresh])
        return asked

    def _cards_due(self, approval: Approval) -> tuple[Asked, ...]:
        """Return the missing cards of the people whose answer is awaited at this level."""
        if approval.terms is None:
            return ()
        here = _asked_here(approval)
        if any(not one.person for one in here):
            return ()
        ballot, has = approval.ballot, {one.person for one in here}
        people = [
            person
            for one in ballot.awaited
            if one in ballot.own and one not in has and one not in approval.absent
            if (person := self._decisions.directory.get(one)) is not None
        ]
        return targets_of(people, ballot.rules, self._channels)

    def _replace_unreachable(self, change: Change, was: Approval, now: datetime) -> Change:
        """Replace approvers who have left or whose channel has refused the card.

        A delegate is asked, or the approver is asked by mail. If too few can still answer, the
        next level is asked, or the default.
        """
        approval, noted = self._with_delegates(was, now)
        change.note(noted)
        left = deliveries.is_reachable(approval)
        mails = self._not_mailed(approval, deliveries.unreached(approval) if left else None)
        if not left and not mails:
            return self._ask_next(change, was, approval, now)
        if not left and approval.terms is not None:
            start = restart(approval, self._decisions.directory, now=now)
            why = "nobody can be reached as the policy wants; they are asked by mail"
            choice = Choice(terms=approval.terms, start=start, people=(), notes=(why,))
            return self._ask(change, approval, choice, now, was=was, fresh=mails)
        if not mails and not deliveries.can_be_met(approval):
            # An earlier attempt of this item may have asked somebody who is reachable.
            return self._ask_next(change, was, approval, now)
        after = approval
        if mails:
            after, events = _ask_too(change, approval, mails, now)
            change.note(events)
        after, events = self._cards(change, after, now)
        if after is not was:
            change.put(after, was=was).note(events)
            add_effects(change, was, after, rotations=self._decisions.roster.rotations)
        return change

    def _ask_elsewhere(self, change: Change, approval: Approval, key: str, now: datetime) -> Change:
        """Ask the people of a card that its channel has not taken yet by another channel too.

        The card is still tried, and the level and its deadline stay. If the policy names channels,
        the only other one is mail.
        """
        here = _asked_here(approval)
        cards = [one for one in here if one.key == key]
        if not cards or any(one.receipt for one in cards):
            return change
        ballot = approval.ballot
        meant = {cards[0].person} if cards[0].person else {*ballot.own}
        people = self._able(approval, [one for one in ballot.awaited if one in meant])
        slack = SLACK in self._channels and not ballot.rules.channels
        fresh = other_targets(here, people, (EMAIL, SLACK) if slack else (EMAIL,))
        if not fresh:
            return change
        log.warning(
            "approval.asked_elsewhere", approval=approval.id, people=[one.key for one in fresh]
        )
        why = f"the card by {cards[0].channel} could not be delivered yet"
        after, events = _ask_too(change, approval, fresh, now, why=why)
        return change.put(after, was=approval).note(events)

    def _with_delegates(
        self, approval: Approval, now: datetime
    ) -> tuple[Approval, tuple[Event, ...]]:
        """Return an approval with delegates for the people who have left, and the events."""
        roster = self._decisions.roster
        return stand_in(approval, roster.directory, now=now, rotations=roster.rotations.known)

    def _ask_next(self, change: Change, was: Approval, approval: Approval, now: datetime) -> Change:
        """Ask the next level, or the default, because too few people can be reached."""
        reached, rotations = deliveries.is_reachable(approval), self._decisions.roster.rotations
        why = too_few(approval, self._decisions.directory, now)
        escalation = go_past(
            approval,
            self._fallback,
            self._decisions.directory,
            now=now,
            why=why,
            barred=self._owners(approval),
            rotations=rotations.known,
        )
        if isinstance(escalation, Choice):
            escalation = escalation.model_copy(update={"stranded": reached})
            return self._ask(change, approval, escalation, now, was=was)
        if escalation is not None:
            after, events = escalation
            if reached:
                log.error("approval.too_few", approval=approval.id, why=why)
                alarm = approval.note(What.UNROUTABLE, now=now, by="router", why=why)
                events = (alarm, *events)
            change.put(after, was=was).note(events)
            return add_effects(change, was, after, rotations=rotations)
        why = f"{why}; the deadline will end it"
        log.error("approval.unreachable", approval=approval.id, asked=sorted(approval.approvers))
        change.note([approval.note(What.UNROUTABLE, now=now, by="router", why=why)])
        if approval is not was:
            add_effects(change.put(approval, was=was), was, approval, rotations=rotations)
        return change

    def _ask_default(self, change: Change, approval: Approval, why: str, now: datetime) -> Change:
        """Ask the default, with its full time.

        It needs as many approvals as the remaining phases would have needed.
        """
        if approval.terms is None:
            return change
        choice = choose_default(
            approval,
            self._fallback,
            self._decisions.directory,
            now=now,
            why=why,
            barred=self._owners(approval),
            rotations=self._decisions.roster.rotations.known,
        )
        if choice.start is None:
            log.error("approval.unroutable", approval=approval.id, why=why)
            event = approval.note(What.UNROUTABLE, now=now, by="router", why=why)
            return change.note([event])
        return self._ask(change, approval, choice, now)

    def _not_mailed(
        self, approval: Approval, only: Collection[str] | None = None
    ) -> tuple[Asked, ...]:
        """Return the mails for the people whom no other channel has reached."""
        here = _asked_here(approval)
        if here and all(one.channel == EMAIL for one in here):
            return ()
        return other_targets(
            here, self._able(approval, approval.ballot.awaited if only is None else only)
        )

    def _able(self, approval: Approval, ids: Iterable[str]) -> list[Person]:
        """Return those of these people who are present and may decide, in the same order."""
        directory, requester = self._decisions.directory, approval.origin.user
        people = (directory.get(one) for one in ids if one not in approval.absent)
        return [one for one in people if one is not None and not directory.may_be(one, requester)]

    def _ask(
        self,
        change: Change,
        approval: Approval,
        choice: Choice,
        now: datetime,
        *,
        was: Approval | None = None,
        fresh: tuple[Asked, ...] | None = None,
        barred: tuple[str, ...] = (),
    ) -> Change:
        """Add to a change that the people of a choice are asked.

        Args:
            change: Added to.
            approval: The approval.
            choice: The terms, the level that starts, and its people.
            now: The present (UTC).
            was: The approval as it was read; None if it has not changed since.
            fresh: The cards to send; None sends those of the people of the choice.
            barred: Identities of people who never decide, besides the requester.
        """
        terms, notes = choice.terms, choice.notes
        start = choice.start or Start(0, 0, (), now + terms.within.by_the_clock)
        if fresh is None:
            rules = terms.asking(start.level)
            people = choice.people[:1] if rules.order is Order.SEQUENCE else choice.people
            fresh = targets_of(people, rules, self._channels)
        # People who could not be reached stay in the record, and may still answer elsewhere.
        asked = with_cards(approval.asked, fresh, start.level_key)
        stranded = choice.stranded
        after, events = approval.ask(
            terms, asked, now=now, notes=notes, start=start, barred=barred, stranded=stranded
        )
        change.put(after, was=was or approval)
        self._decisions.roster.rotations.take(change, start.seats, now=now)
        if stranded:
            log.error("approval.stranded", approval=approval.id, why="; ".join(notes))
        change.note(events)
        self._announce_level(change, milestone_of(approval, after), after)
        asked_again = approval.origin.again or approval.origin.expired
        edited = approval.supersedes and not asked_again and not approval.asked
        if edited and terms.edits is Edits.APPROVE:
            # The person who proposed this call has approved it; cards are sent only if that fails.
            change.send(ApproveEdit(approval=approval.id))
        else:
            send_cards(change, after, only=fresh, now=now)
        about = {"approval": approval.id, "run": approval.origin.run}
        if fresh:
            keys = [one.key for one in fresh]
            log.info("approval.asked", **about, policy=terms.policy, people=keys)
        else:
            log.error("approval.unroutable", **about, why="; ".join(notes))
        return change

    @staticmethod
    def _give_up(item: Item, approval: Approval | None, problem: str, now: datetime) -> Change:
        change = dead_letter(Change(), item, problem)
        if approval is not None:
            why = f"it could not be routed in {item.attempts} attempts: {problem}"
            change.note([approval.note(What.UNROUTABLE, now=now, by="router", why=why)])
            work = work_of(item)
            here = isinstance(work, AskLevel | RemindLevel) and work.level_key == approval.level_key
            if here and approval.state is State.PENDING and not deliveries.is_reachable(approval):
                # This level gets no cards: the next one is asked, or the default.
                route_again(change, approval)
        return change


def _asked_here(approval: Approval) -> list[Asked]:
    """Return the cards of the present level."""
    return [one for one in approval.asked if one.level_key == approval.level_key]


def _ask_too(
    change: Change, approval: Approval, fresh: Sequence[Asked], now: datetime, *, why: str = ""
) -> tuple[Approval, tuple[Event, ...]]:
    """Add more cards of the present level to a change; return the approval and the events."""
    after, events = approval.asked_too(fresh, now=now, why=why)
    send_cards(change, after, only=fresh, now=now)
    return after, events


def route_again(change: Change, approval: Approval) -> Change:
    """Add to a change that other people are asked about an approval that reaches nobody."""
    return change.send(AskOthers(approval=approval.id, level_key=approval.level_key))


def ask_elsewhere(change: Change, approval: Approval, key: str) -> Change:
    """Add to a change that the people of a card are asked by another channel too."""
    return change.send(AskElsewhere(approval=approval.id, level_key=approval.level_key, person=key))
