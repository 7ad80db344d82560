"""Handles clicks and submitted modals, in Socket Mode and over HTTP.

A decision is committed before Slack gets its acknowledgement. So an acknowledged decision is in the
ledger, and one that is not acknowledged was not made. The reply to the person and the rewriting of
the cards follow from the outbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import structlog
from slack_sdk.models.blocks import SectionBlock
from slack_sdk.models.views import View

from signoff.broker.decisions import Decisions, Refused
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Current
from signoff.channels.answers import Answers
from signoff.channels.form_fields import fields
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.pipeline.reply_tokens import Holder
from signoff.channels.slack.inbound.absence import AbsenceModal
from signoff.channels.slack.inbound.acks import (
    Ack,
    mark_handled,
    refusal_modal,
    replace_modal,
    source_of,
    was_handled,
)
from signoff.channels.slack.inbound.collaboration import MODALS, CollaborationModals
from signoff.channels.slack.inbound.decision import DecisionModals, must_fit
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.inbound.payloads import (
    Click,
    Shortcut,
    SlackUser,
    ViewSubmission,
    read_payload,
)
from signoff.channels.slack.outbound import views
from signoff.channels.slack.outbound.channel import NAME
from signoff.channels.slack.outbound.rows import is_whole
from signoff.channels.slack.references import (
    ANSWER,
    APPROVE,
    ASK,
    AWAY,
    CLAIM,
    DETAILS,
    MENU,
    MORE,
    REJECT,
    RELEASE,
    REMIND,
    REQUESTS,
    REVOKE,
    Receipt,
    Reference,
    read_receipt,
    read_reference,
)
from signoff.channels.slack.text import escape, plain
from signoff.channels.slack.web import SlackWeb
from signoff.channels.words.messages import say
from signoff.channels.words.phrases import About
from signoff.core.approvals import deliveries, moves
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import (
    ApprovalNotFound,
    DecisionRefused,
    NotAnApprover,
    SlackDeferred,
    SlackError,
    SlackPayloadUnreadable,
    SlackRefused,
)
from signoff.core.cards.card import card
from signoff.core.directory.people import Person
from signoff.core.policies.levels import Verdict

log = structlog.get_logger(__name__)

_TRIGGER: Final = 2.5
"""Seconds; a trigger is valid for three."""

_WITHOUT_MODAL: Final = {CLAIM: moves.Claim(), RELEASE: moves.Release()}
_MENU: Final = frozenset({ANSWER, *MENU})
_OURS: Final = frozenset({APPROVE, REJECT, DETAILS, ASK, MORE, REVOKE, *_WITHOUT_MODAL, *_MENU})
_PREFIX: Final = "signoff."

_NOT_OURS: Final = "This request is not known here."
_NOT_OPENED: Final = "Slack did not open the form. Choose it again."
_USED: Final = "exchanged_trigger_id"
"""Slack's error for a trigger that has opened a modal already: it opens only one."""

_NOT_RETRIED: Final = frozenset(
    {_USED, "expired_trigger_id", "trigger_expired", "invalid_trigger_id"}
)
"""Errors after which the same trigger cannot be tried again."""

Show = Callable[[str, View], Awaitable[None]]
"""Opens a modal."""


class SlackHandler:
    """Handles clicks, shortcuts and submitted modals.

    Args:
        decisions: Makes the moves.
        web: Opens modals, and sends direct messages that belong to no approval.
        identities: Finds the person behind a user of Slack.
        patience: How long Slack's API may take before a trigger expires, in seconds.
    """

    def __init__(
        self,
        decisions: Decisions,
        web: SlackWeb,
        identities: Identities,
        *,
        patience: float = _TRIGGER,
    ) -> None:
        self._patience = patience
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._answers = Answers(decisions)
        self._web = web
        self._identities = identities
        self._absences = AbsenceModal(decisions, self._who)
        self._decision = DecisionModals(decisions, self._answers)
        self._collaboration = CollaborationModals(decisions, self._answers, self._who)

    async def handle(self, payload: Mapping[str, Any]) -> Ack:
        """Handle a payload, and return the acknowledgement.

        Raises:
            SlackPayloadUnreadable: It is not in the form that Slack documents; nothing was done.
            SlackDeferred: The user cannot be identified at the moment; nothing was done.
            LedgerError: It could not be committed; nothing was done.
        """
        wanted = read_payload(dict(payload))
        # Modals show who is away now, and what is frozen.
        await self._decisions.roster.refresh()
        match wanted:
            case Click() as click:
                await self._handle_click(click)
                return None
            case Shortcut() as shortcut:
                await self._handle_shortcut(shortcut)
                return None
            case ViewSubmission(callback=callback) as submission if callback == AWAY:
                return await self._absences.take(submission)
            case ViewSubmission() as submission:
                return await self._handle_submission(submission)
        return None

    async def _handle_shortcut(self, shortcut: Shortcut) -> None:
        if shortcut.callback == AWAY:
            view = await self._absences.view(shortcut.actor)
        elif shortcut.callback == REQUESTS:
            view = await self._collaboration.requests(shortcut.actor)
        else:
            log.info("slack.not_ours", shortcut=shortcut.callback[:80])
            return
        try:
            await self._open(shortcut, view)
        except SlackError as error:
            log.warning("slack.no_modal", problem=str(error))
            await self._say_directly(shortcut.actor, _NOT_OPENED)

    async def _handle_click(self, click: Click) -> None:
        if click.action not in _OURS:
            log.info("slack.not_ours", action=click.action[:80])
            return
        reference = read_reference(click.value)
        if reference is None or (click.about and click.about != reference.approval):
            raise SlackPayloadUnreadable(
                "The button's value is not one of ours, or of another message. Nothing was done."
            )
        try:
            seen = await self._ledger.current(reference.approval)
        except ApprovalNotFound:
            await self._say_unknown(click, _NOT_OURS)
            return
        approval = seen.approval
        person = await self._who(click.actor)
        answer = self._answer(click.actor, reference, person, click.message, click.at)
        if await was_handled(self._ledger, answer.source):
            return
        if click.message is not None:
            await self._reconcile(approval, reference, click.message)
        if not reference.is_of(approval.digest):
            raise SlackPayloadUnreadable(
                f"The card does not show the call of approval {approval.id}. Nothing was done."
            )
        try:
            await self._act(click, seen, reference, person, answer)
        except DecisionRefused as error:
            wanted = click.action.removeprefix(_PREFIX)
            await self._answers.refuse(answer, error, person, wanted=wanted, seen=seen)
        except SlackError as error:
            # The trigger was too old, or Slack is down: the person can press the button again.
            log.warning("slack.no_modal", approval=approval.id, problem=str(error))
            holder, directory = answer.holder.person, self._decisions.directory
            words = say("not_opened", approval, directory, holder)
            change = answer.also.copy()
            answer_back(change, answer, Notice(answer.holder.person, About.NOT_OPENED, words))
            await self._ledger.commit(change)

    async def _act(
        self,
        click: Click,
        seen: Current,
        reference: Reference,
        person: Person | None,
        answer: Answer,
    ) -> None:
        """Decide, or open the modal that the decision needs.

        Raises:
            DecisionRefused: The person may not decide.
        """
        approval, directory = seen.approval, self._decisions.directory
        if person is None:
            raise NotAnApprover(f"You are not among those who are asked about {approval.id}.")
        about = reference
        if click.message is not None:
            about = reference.model_copy(update={"copy_of": str(click.message)})
        if click.action == REVOKE:
            await self._answers.revoke(answer, person, seen=seen)
            return
        if click.action == REMIND:
            await self._answers.make(answer, person, moves.Remind(), seen=seen)
            return
        if click.action in _MENU:
            await self._open(click, self._collaboration.view(click.action, seen, person, about))
            return
        approval.may_decide(person, directory, now=seen.now)
        shown = card(approval, directory)
        wanted, offered = fields(approval), person.id in shown.offer.who
        if click.action == APPROVE:
            must_fit(approval, person, wanted)
        if click.action in _WITHOUT_MODAL:
            await self._answers.make(answer, person, _WITHOUT_MODAL[click.action], seen=seen)
        elif click.action == ASK:
            await self._open(click, views.ask_view(shown, about))
        elif click.action == DETAILS:
            await self._open(click, views.details_view(shown))
        elif click.action == REJECT:
            await self._open(click, views.reject_view(shown, about))
        elif not is_whole(shown) or wanted or offered or approval.needs_reason(Verdict.APPROVE):
            # Values that the card folds are shown before the approval.
            view = views.approve_view(shown, about, wanted, may_grant=offered)
            await self._open(click, view)
        else:
            await self._answers.make(answer, person, moves.Approve(), seen=seen)

    async def _handle_submission(self, submission: ViewSubmission) -> Ack:
        if submission.callback not in {APPROVE, REJECT, ASK, *MODALS}:
            return None
        reference = read_reference(submission.metadata)
        if reference is None:
            raise SlackPayloadUnreadable("The modal's metadata is not ours. Nothing was done.")
        try:
            seen = await self._ledger.current(reference.approval)
        except ApprovalNotFound:
            return replace_modal(views.notice_view(_NOT_OURS, ""))
        person = await self._who(submission.actor)
        where = read_receipt(reference.copy_of)
        answer = self._answer(submission.actor, reference, person, where, submission.view)
        if await was_handled(self._ledger, answer.source):
            return None
        try:
            known = _require_known(person, seen.approval, reference)
            if submission.callback in MODALS:
                return await self._collaboration.take(submission, seen, known, answer)
            return await self._decision.take(submission, seen, known, answer, reference)
        except DecisionRefused as error:
            wanted = submission.callback.removeprefix(_PREFIX)
            await self._answers.refuse(answer, error, person, wanted=wanted, seen=seen)
            return refusal_modal(Refused(seen.approval, error), person, self._decisions.directory)

    async def _who(self, actor: SlackUser) -> Person | None:
        """Return the person of a user.

        Raises:
            SlackDeferred: Slack has to be asked and did not answer in time.
        """
        try:
            async with asyncio.timeout(self._patience):
                return await self._identities.who(actor)
        except TimeoutError as error:
            raise SlackDeferred("Slack did not say in time who pressed it.") from error

    def _answer(
        self,
        actor: SlackUser,
        reference: Reference,
        person: Person | None,
        where: Receipt | None,
        nonce: str,
    ) -> Answer:
        """Return an answer: its person, its approval, and where the result is sent."""
        source = source_of(actor, nonce)
        return Answer(
            holder=Holder(reference.approval, person.id if person else "", NAME),
            token="",
            source=source,
            reply_to="",
            also=mark_handled(source),
            to=f"{where.channel}/{actor.user}" if where is not None else actor.user,
            more={"user": actor.user, "team": actor.team},
        )

    async def _reconcile(self, approval: Approval, reference: Reference, receipt: Receipt) -> None:
        """Record the delivery of a card that is in Slack but not in the ledger."""
        key = reference.to

        async def attempt() -> None:
            was = await self._ledger.approval(approval.id)
            found, events = deliveries.found_copy(
                was, key, NAME, str(receipt), now=await self._ledger.now()
            )
            if events:
                await self._ledger.commit(Change().put(found, was=was).note(events))

        if deliveries.found_copy(approval, key, NAME, str(receipt), now=approval.opened_at)[1]:
            await self._ledger.decide_again(attempt)

    async def _say_unknown(self, click: Click, text: str) -> None:
        """Tell a person that the ledger does not know the card they pressed."""
        view = views.notice_view(text, "It may be from another installation, or too old.")
        try:
            await self._open(click, view)
        except SlackError as error:
            log.warning("slack.no_modal", problem=str(error))
            await self._say_directly(click.actor, text)

    async def _say_directly(self, actor: SlackUser, text: str) -> None:
        """Send a direct message that belongs to no approval."""
        said = [SectionBlock(text=plain(text))]
        try:
            async with asyncio.timeout(self._patience):
                await self._web.post(await self._web.direct(actor.user), escape(text), said)
        except (SlackError, TimeoutError) as error:
            log.warning("slack.not_told", user=actor.user, problem=str(error))

    async def _open(self, click: Click | Shortcut, view: View) -> None:
        """Open a modal. Any failure is tried once more while the trigger is valid.

        Raises:
            SlackError: It did not open.
        """
        on_top = isinstance(click, Click) and click.in_modal
        show = self._web.push_view if on_top else self._web.open_view
        try:
            async with asyncio.timeout(self._patience):
                try:
                    await show(click.trigger, view)
                except SlackError as error:
                    if isinstance(error, SlackRefused) and error.code in _NOT_RETRIED:
                        raise
                    log.info("slack.modal_tried_again", problem=str(error))
                    await self._show_again(show, click.trigger, view)
        except TimeoutError as error:
            raise SlackDeferred("Slack did not open the modal in time.") from error

    @staticmethod
    async def _show_again(show: Show, trigger: str, view: View) -> None:
        try:
            await show(trigger, view)
        except SlackRefused as error:
            # The first call got an error, but opened the modal.
            if error.code != _USED:
                raise


def _require_known(person: Person | None, approval: Approval, reference: Reference) -> Person:
    """Return the person who has submitted a modal, if it is about this call.

    Raises:
        NotAnApprover: The person is unknown, or the modal is about another call.
    """
    if person is None or not reference.is_of(approval.digest):
        raise NotAnApprover(f"You are not among those who are asked about {approval.id}.")
    return person
