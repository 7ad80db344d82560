"""The stage `route`: whom to ask, until when, and a delivery for each of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import structlog
from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.change import Change, Item
from signoff.broker.desk import Desk
from signoff.broker.grants import Grants
from signoff.broker.ledger import Ledger
from signoff.channels.moved import tell_move
from signoff.channels.outbox import commit_each, dead_letter, drain
from signoff.channels.tokens import Holder, issue
from signoff.channels.ways import EMAIL, TOKENS, other_ways, ways
from signoff.core.approval import Approval, Asked, State
from signoff.core.digest import digest
from signoff.core.errors import ApprovalError, Conflict, LeaseLost, RecordUnreadable
from signoff.core.events import What
from signoff.core.people import Directory
from signoff.core.policy import Choice, Edits, Fallback, Policy, Terms, choose

log = structlog.get_logger(__name__)


class Router:
    """Routes what was opened, and routes anew what could not be delivered to anybody.

    Args:
        ledger: The ledger.
        policies: In order; the first that matches rules.
        fallback: Who is asked when no policy matches, or nobody of it can be asked or reached.
        directory: The people.
        channels: The names of the channels that are set up.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        policies: Sequence[Policy],
        fallback: Fallback,
        directory: Directory,
        channels: Collection[str] = (EMAIL,),
    ) -> None:
        self._channels = frozenset(channels)
        self._ledger = ledger
        self._desk = Desk(ledger, directory)
        self._grants = Grants(self._desk)
        self._may_be_granted = any(rules.grants for rules in (*policies, fallback))
        self._policies = tuple(policies)
        self._fallback = fallback
        self._directory = directory

    async def drain(self) -> int:
        """Work until nothing waits, and return how many items there were.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        return await drain(self._ledger, stages.ROUTE, self.work)

    async def work(self, items: Sequence[Item]) -> None:
        """Route leased items; see `commit_each` for what happens to one that fails."""
        rest = [
            item
            for item in items
            if not (await self._taken_by_edit(item) or await self._taken_by_grant(item))
        ]
        await commit_each(self._ledger, rest, self._route, self._give_up)

    async def _taken_by_edit(self, item: Item) -> bool:
        """Approve a call that its approver has written himself, where the policy lets that do.

        Returns:
            Whether that was done. If not, whatever the reason, the people are asked.
        """
        if not item.body.get("edit"):
            return False
        try:
            approval = await self._ledger.approval(str(item.body["approval"]))
            if approval.in_two_steps:
                # What was proposed by mail is not worth more than an answer by mail.
                return False
            before = await self._ledger.approval(approval.supersedes)
            decision = before.decision
            if decision is None or decision.proposal is None:
                return False
            person = self._directory.get(decision.by)
            same = digest(before.call.name, decision.proposal) == approval.digest
            if person is None or not same:
                return False
            await self._desk.approve(
                approval.id,
                person,
                channel=decision.channel,
                reason=f"it is what the rejection of {before.id} proposed",
                also=Change().ack(item),
            )
        except (ApprovalError, LeaseLost) as error:
            log.info("approval.edit_not_taken", item=item.id, why=str(error))
            return isinstance(error, LeaseLost)
        return True

    async def _taken_by_grant(self, item: Item) -> bool:
        """Approve a call that somebody has approved beforehand; if not, the people are asked."""
        if not self._may_be_granted or item.body.get("fallback") or item.body.get("edit"):
            return False
        try:
            done = await self._grants.decide(
                str(item.body["approval"]), self._rules_of, also=Change().ack(item)
            )
        except (ApprovalError, Conflict, LeaseLost, RecordUnreadable) as error:
            log.info("approval.grant_not_taken", item=item.id, why=str(error))
            return isinstance(error, LeaseLost)
        return done is not None

    def _rules_of(self, approval: Approval, now: datetime) -> tuple[Terms, Collection[str]]:
        """Return how a call would be asked about now, and the ids of those asked first."""
        del now
        choice = choose(self._policies, self._fallback, self._directory, approval.facts)
        return choice.terms, [person.id for person in choice.people]

    def _route(self, item: Item, approval: Approval, now: datetime) -> Change:
        if item.body.get("moved"):
            return tell_move(item, approval, self._directory, now=now)
        again = bool(item.body.get("fallback"))
        if approval.state is not State.PENDING:
            return Change().ack(item)
        if again:
            # Somebody who was asked meanwhile, by an earlier doing of this item, is reachable.
            return (
                Change().ack(item)
                if approval.reachable
                else self._ask_fallback(item, approval, now)
            )
        if item.body.get("edit"):
            return self._send_cards(Change().ack(item), approval)
        if approval.terms is not None:
            return Change().ack(item)
        choice = choose(self._policies, self._fallback, self._directory, approval.facts)
        return self._ask(item, approval, choice, choice.notes, now)

    def _ask_fallback(self, item: Item, approval: Approval, now: datetime) -> Change:
        if (mails := self._not_mailed(approval)) and approval.terms is not None:
            why = "nobody can be reached as the policy wants; they are asked by mail"
            return self._put(item, approval, approval.terms, mails, notes=(why,), now=now)
        choice = choose((), self._fallback, self._directory, approval.facts)
        before = approval.approvers
        fresh = tuple(person for person in choice.people if person.id not in before)
        if not fresh:
            why = "nobody who can be asked can be reached; the deadline will end it"
            log.error("approval.unreachable", approval=approval.id, asked=sorted(before))
            event = approval.note(What.UNROUTABLE, now=now, by="router", why=why)
            return Change().note([event]).ack(item)
        # Without policies the first note only says that none of them matches.
        notes = ("nobody who was asked can be reached; the default is asked", *choice.notes[1:])
        return self._ask(item, approval, choice.model_copy(update={"people": fresh}), notes, now)

    def _ask(
        self,
        item: Item,
        approval: Approval,
        choice: Choice,
        notes: tuple[str, ...],
        now: datetime,
    ) -> Change:
        fresh = ways(choice.people, choice.terms, self._channels)
        return self._put(item, approval, choice.terms, fresh, notes=notes, now=now)

    def _not_mailed(self, approval: Approval) -> tuple[Asked, ...]:
        """Return the mails that can still be sent to those whom no other channel has reached."""
        if all(one.channel == EMAIL for one in approval.asked):
            return ()
        # In the order of the policy; the requester is never among them.
        people = (self._directory.get(one) for one in sorted(approval.approvers))
        requester = approval.origin.user
        able = [one for one in people if one is not None and not one.owns(requester)]
        return other_ways(approval.asked, able)

    def _put(
        self,
        item: Item,
        approval: Approval,
        terms: Terms,
        fresh: tuple[Asked, ...],
        *,
        notes: tuple[str, ...],
        now: datetime,
    ) -> Change:
        # Those who could not be reached stay on the record, and may still answer elsewhere.
        after, events = approval.ask(terms, (*approval.asked, *fresh), now=now, notes=notes)
        change = Change().put(after, was=approval).note(events).ack(item)
        edited = approval.supersedes and not approval.origin.again and not approval.asked
        if edited and terms.edits is Edits.APPROVE:
            # Whoever proposed this very call has approved it; nobody gets a card unless that fails.
            change.send(
                stages.ROUTE, f"edit:{approval.id}", {"approval": approval.id, "edit": True}
            )
        else:
            self._send_cards(change, after, only=fresh)
        if fresh:
            log.info(
                "approval.asked",
                approval=approval.id,
                run=approval.origin.run,
                policy=terms.policy,
                people=[one.key for one in fresh],
            )
        else:
            log.error(
                "approval.unroutable",
                approval=approval.id,
                run=approval.origin.run,
                why="; ".join(notes),
            )
        return change

    @staticmethod
    def _send_cards(
        change: Change, approval: Approval, *, only: Sequence[Asked] | None = None
    ) -> Change:
        within = approval.terms.within.length if approval.terms else timedelta(days=1)
        for asked in approval.asked if only is None else only:
            holder = Holder(approval.id, asked.person, asked.channel)
            token = issue(change, holder, within=within) if asked.channel in TOKENS else ""
            body: dict[str, JsonValue] = {"kind": "card", "approval": approval.id}
            body |= {"person": asked.key, "token": token}
            stage = stages.deliver(asked.channel)
            change.send(stage, f"card:{approval.id}:{asked.key}", body)
        return change

    @staticmethod
    def _give_up(item: Item, approval: Approval | None, problem: str, now: datetime) -> Change:
        change = dead_letter(Change(), item, problem)
        if approval is not None:
            why = f"it could not be routed in {item.attempts} attempts: {problem}"
            change.note([approval.note(What.UNROUTABLE, now=now, by="router", why=why)])
        return change


def route_again(change: Change, approval: str) -> Change:
    """Add to a change that an approval which reaches nobody is put to the default."""
    return change.send(
        stages.ROUTE, f"route:{approval}:again", {"approval": approval, "fallback": True}
    )
