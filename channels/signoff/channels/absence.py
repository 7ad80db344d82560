"""Handles replies that set or end an absence, and describes absences in words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

import structlog

from signoff.broker.decisions import Decisions
from signoff.broker.hand_over import HandedOver, waits_for
from signoff.channels.collaboration import find_person
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.words.messages import RenderedMessage
from signoff.channels.words.phrases import About
from signoff.core.approvals.approval import Approval
from signoff.core.base.counts import counted
from signoff.core.base.errors import AbsenceRefused, MoveRefused
from signoff.core.base.shown_text import one_line
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.replies.reply import Away, Back

_MOST_NAMED: Final = 5
"""The most requests to name; further ones are counted."""

_HAND_OVER_ONE: Final = (
    "To hand one over for good, reply to its card with `forward` and their name."
)

log = structlog.get_logger(__name__)


class AbsenceReplies:
    """Sets and ends absences.

    On `page`, people can hand over all their requests; "" if there is none.
    """

    def __init__(self, decisions: Decisions, page: str) -> None:
        self._decisions = decisions
        all_ = f" To hand over all of them: {page}" if page else ""
        self._how = f"{_HAND_OVER_ONE}{all_}"

    async def take(self, answer: Answer, person: Person, reply: Away | Back) -> None:
        """Set or end the absence of the author of an answer. The answered request stays as it is.

        Raises:
            MoveRefused: The absence is impossible, or the author is not proven; nothing was done.
            LedgerError: It could not be committed; nothing was done.
        """
        if not answer.vouched:
            raise MoveRefused(
                "A delegate decides in your place, and nothing proves that this mail is yours. Ask "
                "your operator to set the absence: `signoff people away`."
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

    async def _absence(self, reply: Away, person: Person) -> Absence:
        today, directory = person.day(await self._decisions.ledger.now()), self._decisions.directory
        return absence_between(reply.start or today, reply.end, reply.delegate, directory)


def absence_between(start: date, end: date, delegate: str, directory: Directory) -> Absence:
    """Return an absence.

    Args:
        start: The first day.
        end: The last day.
        delegate: See `find_person`; "" for nobody.
        directory: The people.

    Raises:
        MoveRefused: It ends before it begins, or `delegate` is not the name of one person.
    """
    if end < start:
        raise MoveRefused(f"It would end on {end}, before it begins on {start}.")
    to = find_person(directory, delegate).id if delegate else ""
    return Absence(start=start, end=end, delegate=to)


def absence_words(
    absence: Absence | None, directory: Directory, *, end: str, waiting: str = ""
) -> RenderedMessage:
    """Return the confirmation of an absence that was set without a second factor.

    Args:
        absence: The absence, None for a person who is back.
        directory: The people.
        end: How the person ends it, in words.
        waiting: The requests that still wait for them; see `waiting_words`.
    """
    if absence is None:
        return RenderedMessage("You are back", "New requests come to you again.")
    delegate = directory.get(absence.delegate)
    who = f"{delegate.shown if delegate is not None else 'nobody'} decides instead of you"
    text = (
        f"From {absence.start} to {absence.end}, {who}. Requests that need a second factor still "
        "come to you: set the absence on the inbox page to include them."
    )
    paragraphs = filter(None, (text, waiting, f"To end it, {end}."))
    return RenderedMessage(f"You are away until {absence.end}", "\n\n".join(paragraphs))


def waiting_words(
    waiting: Sequence[Approval], absence: Absence, directory: Directory, *, how: str
) -> str:
    """Name the requests that wait for an absent person, and say what happens to them.

    Args:
        waiting: The requests; without any, the text is "".
        absence: The absence.
        directory: The people.
        how: How the person hands them over, in words.
    """
    if not waiting:
        return ""
    calls = [f"{one_line(one.call.name)} ({one.id})" for one in waiting[:_MOST_NAMED]]
    more = len(waiting) - _MOST_NAMED
    named = ", ".join(calls) + (f" and {more:,} more" if more > 0 else "")
    many = counted(len(waiting), "request still waits", "requests still wait")
    delegate = directory.find(absence.delegate)
    then = (
        f"From {absence.start} on, {delegate.shown} can answer them too, and the first answer "
        f"counts. {how}".rstrip()
        if delegate is not None
        else f"From {absence.start} on, the next level is asked if too few approvers are left."
    )
    return f"{many} for you: {named}. {then}"


def handed_words(handed: HandedOver, to: Person) -> str:
    """Say which requests were handed over, and which were refused; "" if there are none."""
    words = [f"{to.shown} has {len(handed.done):,} of your requests now."] if handed.done else []
    words += [f"{one.id} stays with you: {why}" for one, why in handed.refused[:_MOST_NAMED]]
    return " ".join(words)
