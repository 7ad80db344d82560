"""Absences in Slack: a global shortcut opens a modal, and the modal sets the absence.

https://docs.slack.dev/interactivity/implementing-shortcuts
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

import structlog
from slack_sdk.models.views import View

from signoff.broker.decisions import Decisions
from signoff.broker.hand_over import hand_over, waits_for
from signoff.channels.absence import absence_words, handed_words, waiting_words
from signoff.channels.slack.inbound.acks import (
    ASK_OPERATOR,
    LATER,
    STRANGER,
    Ack,
    mark_handled,
    replace_modal,
    source_of,
    was_handled,
)
from signoff.channels.slack.inbound.identity import Who
from signoff.channels.slack.inbound.payloads import SlackUser, ViewSubmission
from signoff.channels.slack.inbound.submitted import InvalidInput, errors_at, given
from signoff.channels.slack.outbound import views
from signoff.channels.slack.outbound.channel import NAME
from signoff.core.approvals.moves import Actor
from signoff.core.base.errors import AbsenceRefused, LedgerError
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Person

log = structlog.get_logger(__name__)

_HAND_OVER: Final = "To hand over all of it for good, set the absence again and tick that."
_END: Final = 'choose "Say that you are away" again once it has begun, and tick "I am back"'


class AbsenceModal:
    """Sets and ends absences; `who` finds the person behind a user of Slack, None if unknown."""

    def __init__(self, decisions: Decisions, who: Who) -> None:
        self._decisions = decisions
        self._who = who

    async def view(self, actor: SlackUser) -> View:
        """Return the modal for the person who chose the shortcut.

        Raises:
            SlackDeferred: The user cannot be identified at the moment.
            LedgerError: The absences of the person could not be read.
        """
        person = await self._who(actor)
        if person is None:
            return views.notice_view(STRANGER, ASK_OPERATOR)
        now = await self._decisions.ledger.now()
        directory = await self._decisions.people.directory()
        absence = (directory.get(person.id) or person).absence(now)
        known = absence_words(absence, directory, end=_END).headline if absence else ""
        waiting = len(await waits_for(self._decisions.ledger, person.id))
        return views.away_view(person.day(now), f"{known}." if known else "", waiting=waiting)

    async def take(self, submission: ViewSubmission) -> Ack:
        """Set the absence of a modal; the response shows the result, or the errors at their blocks.

        Raises:
            SlackDeferred: The user or the delegate cannot be identified at the moment; nothing was
                done.
            LedgerError: The ledger could not say whether this was handled before; nothing was done.
        """
        person = await self._who(submission.actor)
        if person is None:
            return replace_modal(views.notice_view(STRANGER, ASK_OPERATOR))
        source = source_of(submission.actor, submission.view)
        if await was_handled(self._decisions.ledger, source):
            return None
        try:
            absence = await self._set_absence(submission, person, source)
        except InvalidInput as problem:
            return errors_at({problem.block: problem})
        except LedgerError as error:
            if await was_handled(self._decisions.ledger, source):
                # The same submission came twice concurrently, and the other one was first.
                return None
            log.warning("slack.not_recorded", person=person.id, problem=str(error))
            return errors_at({views.LAST_DAY: LATER})
        log.info("answer.absence", person=person.id, channel=NAME, back=absence is None)
        directory = self._decisions.directory
        waiting = ""
        if absence is not None:
            try:
                waiting = await self._waiting(submission, person, absence)
            except LedgerError as error:
                # The absence is set; opening the modal again shows the rest.
                log.warning("slack.not_handed_over", person=person.id, problem=str(error))
                waiting = LATER
        words = absence_words(absence, directory, end=_END, waiting=waiting)
        return replace_modal(views.notice_view(words.headline, words.text, title="Noted"))

    async def _waiting(self, submission: ViewSubmission, person: Person, absence: Absence) -> str:
        """Hand over the pending requests of a person who ticked that; return what was done.

        Raises:
            LedgerError: The requests could not be read, or the change not committed.
        """
        decisions, directory = self._decisions, self._decisions.directory
        waiting = await waits_for(decisions.ledger, person.id)
        delegate = directory.get(absence.delegate)
        if not given(submission, views.HAND_OVER, "selected_options") or delegate is None:
            return waiting_words(waiting, absence, directory, how=_HAND_OVER)
        actor = submission.actor
        who = Actor(person, NAME, {"user": actor.user, "team": actor.team})
        handed = await hand_over(decisions, waiting, who, of=person, to=delegate)
        return handed_words(handed, delegate)

    async def _set_absence(
        self, submission: ViewSubmission, person: Person, source: str
    ) -> Absence | None:
        """Return the absence that was set, None for a person who is back.

        Raises:
            InvalidInput: The absence cannot be set; nothing was done.
        """
        actor, people = submission.actor, self._decisions.people
        more = {"channel": NAME, "user": actor.user, "team": actor.team}
        also = mark_handled(source)
        if given(submission, views.BACK, "selected_options"):
            try:
                await people.come_back(person, by=person.id, more=more, also=also)
            except AbsenceRefused as error:
                raise InvalidInput(views.BACK, str(error)) from error
            return None
        today = person.day(await self._decisions.ledger.now())
        start = _day(submission, views.FIRST_DAY)
        end = _day(submission, views.LAST_DAY)
        if end < start:
            text = f"It would end on {end}, before it begins on {start}."
            raise InvalidInput(views.LAST_DAY, text)
        delegate = await self._delegate(given(submission, views.STANDS_IN, "selected_user"))
        if not delegate and given(submission, views.HAND_OVER, "selected_options"):
            raise InvalidInput(views.STANDS_IN, "Choose the person who gets your requests.")
        absence = Absence(start=start, end=end, delegate=delegate)
        try:
            return await people.leave(person, absence, by=person.id, more=more, also=also)
        except AbsenceRefused as error:
            # If the days are valid, the problem is the delegate.
            at = views.LAST_DAY if end < today or not delegate else views.STANDS_IN
            raise InvalidInput(at, str(error)) from error

    async def _delegate(self, user: object) -> str:
        if not isinstance(user, str) or not user:
            return ""
        # Slack returns the team; the modal has only the id.
        found = await self._who(SlackUser(user, ""))
        if found is None:
            raise InvalidInput(
                views.STANDS_IN,
                "Signoff does not know this person. Choose somebody who is asked, too, or ask your "
                "operator to add them to the directory.",
            )
        return found.id


def _day(submission: ViewSubmission, block: str) -> date:
    text = given(submission, block, "selected_date")
    if not isinstance(text, str) or not text:
        raise InvalidInput(block, "Choose a day.")
    try:
        return datetime.strptime(text, "%Y-%m-%d").date()  # noqa: DTZ007 -- a day does not have a time zone
    except ValueError as error:
        raise InvalidInput(block, "This is not a day: choose one like 2026-12-24.") from error
