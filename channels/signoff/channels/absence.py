"""Records the absences that people report in their answers, and answers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog

from signoff.broker.decisions import Decisions
from signoff.broker.hand_over import HandedOver, waits_for
from signoff.channels.collaboration import person_named
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.words.messages import Words
from signoff.channels.words.phrases import About
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import AbsenceRefused, MoveRefused
from signoff.core.base.shown_text import one_line
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.replies.reply import Away, Back

_NAMED: Final = 5
"""The most requests that are named; the others are counted."""

_ONE: Final = "To hand one over, reply to its card with `forward` and their name."

log = structlog.get_logger(__name__)


class AbsenceReplies:
    """Records the absence that a person reports in an answer.

    Args:
        decisions: The ledger and the people.
        page: The page on which people reassign all their requests at once, "" if there is none.
    """

    def __init__(self, decisions: Decisions, page: str = "") -> None:
        self._decisions = decisions
        self._how = f"{_ONE} To hand over all of them: {page}" if page else _ONE

    async def take(self, answer: Answer, person: Person, reply: Away | Back) -> None:
        """Set or end the absence of the author of an answer.

        Args:
            answer: The answer. The request that it was sent to stays as it is.
            person: The author.
            reply: The answer as it was read.

        Raises:
            MoveRefused: The absence is invalid, or the author is not proven; nothing was done.
            LedgerError: It could not be committed; nothing was done.
        """
        if not answer.vouched:
            raise MoveRefused(
                "Your absence was not recorded, because nothing proves that this mail is yours. "
                "Ask your operator to record it: `signoff people away`."
            )
        back = isinstance(reply, Back)
        absence = None if isinstance(reply, Back) else await self._absence(reply, person)
        also = answer.also.copy()
        directory, waiting = self._decisions.directory, ""
        if absence is not None:
            found = await waits_for(self._decisions.ledger, person.id)
            waiting = waiting_words(found, absence, directory, how=self._how)
        end = 'answer with "back" on the first line'
        words = absence_words(absence, directory, end=end, waiting=waiting)
        answer_back(also, answer, Notice(person.id, About.DONE, words))
        more = {"channel": answer.holder.channel, **answer.more}
        people = self._decisions.people
        try:
            if absence is None:
                await people.come_back(person, by=person.id, more=more, also=also)
            else:
                await people.leave(person, absence, by=person.id, more=more, also=also)
        except AbsenceRefused as error:
            raise MoveRefused(str(error)) from error
        log.info("answer.absence", person=person.id, channel=answer.holder.channel, back=back)

    async def _absence(self, said: Away, person: Person) -> Absence:
        start = said.start or person.day(await self._decisions.ledger.now())
        end = said.end
        if end < start:
            raise MoveRefused(f"It would have ended on {end}, and today is {start}.")
        directory = self._decisions.directory
        delegate = person_named(directory, said.delegate).id if said.delegate else ""
        return Absence(start=start, end=end, delegate=delegate)


def absence_words(
    absence: Absence | None, directory: Directory, *, end: str, waiting: str = ""
) -> Words:
    """Return the confirmation of an absence that was recorded without a second factor.

    Args:
        absence: The absence; None for a person who is back.
        directory: The people.
        end: How the person ends it, in words.
        waiting: The text about requests that still wait; see `waiting_words`.
    """
    if absence is None:
        return Words("You are back", "From now on, requests come to you again.")
    delegate = directory.get(absence.delegate)
    instead = f"{delegate.shown} decides instead of you" if delegate else "nobody decides instead"
    return Words(
        f"You are away until {absence.end}",
        f"From {absence.start} to {absence.end}, {instead}. Requests that need a second factor "
        "still come to you: set the absence on the inbox page to include them."
        f"{waiting and chr(10) * 2}{waiting}\n\nTo end it, {end}.",
    )


def waiting_words(
    waiting: Sequence[Approval], absence: Absence, directory: Directory, *, how: str = ""
) -> str:
    """Return the text about requests that wait for a person who goes away; "" if none waits.

    Args:
        waiting: The requests.
        absence: The absence.
        directory: The people.
        how: How the person reassigns the requests, in words.
    """
    if not waiting:
        return ""
    calls = [f"{one_line(one.call.name)} ({one.id})" for one in waiting[:_NAMED]]
    more = len(waiting) - _NAMED
    named = ", ".join(calls) + (f" and {more:,} more" if more > 0 else "")
    many = f"{len(waiting):,} requests still wait" if len(waiting) > 1 else "1 request still waits"
    delegate = directory.find(absence.delegate)
    then = (
        f"From {absence.start} on, {delegate.shown} can answer them too, and the first answer "
        f"counts. {how}".rstrip()
        if delegate is not None
        else f"From {absence.start} on, a request goes to the next level if too few others can "
        "answer it."
    )
    return f"{many} for you: {named}. {then}"


def handover_words(handed: HandedOver, to: Person) -> str:
    """Return the text about requests that were reassigned or refused; "" without any."""
    said = [f"{to.shown} has {len(handed.done):,} of your requests now."] if handed.done else []
    said += [f"{one.id} stays with you: {why}" for one, why in handed.refused[:_NAMED]]
    return " ".join(said)
