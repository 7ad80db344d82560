"""What somebody answers about being away or back, done and answered."""

from __future__ import annotations

import structlog

from signoff.broker.decisions import Decisions
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.words.phrases import About, Words
from signoff.core.base.errors import AbsenceRefused, MoveRefused
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.replies.reply import Away, Back

log = structlog.get_logger(__name__)


class Leavings:
    """Takes in that somebody is away, of whom it is proven that they say so.

    Args:
        decisions: The ledger and the people.
    """

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def take(self, answer: Answer, person: Person, reply: Away | Back) -> None:
        """Do what an answer says about its author's being away.

        Args:
            answer: Whose answer it is, to what; nothing happens to that.
            person: Who.
            reply: Their own words, read.

        Raises:
            MoveRefused: It is not possible, or not proven to be this person's; nothing was done.
            LedgerError: It could not be committed; nothing was done.
        """
        if not answer.vouched:
            raise MoveRefused(
                "Who stands in for you decides what is asked of you, and nothing proves that this "
                "mail is yours. Ask your operator to note it: `signoff people away`."
            )
        back = isinstance(reply, Back)
        absence = None if isinstance(reply, Back) else await self._absence(reply, person)
        also = answer.also.copy()
        words = absence_words(
            absence, self._decisions.directory, end='answer with "back" on the first line'
        )
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
        delegate = person_called(self._decisions.directory, said.delegate)
        return Absence(start=start, end=end, delegate=delegate)


def person_called(directory: Directory, name: str) -> str:
    """Return the id of whom an id, an address or a full name names; "" for "".

    Raises:
        MoveRefused: It is nobody's, or of several people.
    """
    if not name or (found := directory.find(name)) is not None:
        return found.id if name and found is not None else ""
    named = [one for one in directory if one.name.casefold() == name.casefold()]
    if len(named) != 1:
        raise MoveRefused(
            f"There {'are several people' if named else 'is nobody'} called {name!r}. Write the "
            "address of the person who decides instead of you."
        )
    return named[0].id


def absence_words(absence: Absence | None, directory: Directory, *, end: str) -> Words:
    """Return what was noted of somebody who has proven no second factor.

    Args:
        absence: What was set, None for somebody who is back.
        directory: Has the delegate's name.
        end: How the person ends it, in words.
    """
    if absence is None:
        return Words("You are back", "What is asked of you comes to you again, from now on.")
    delegate = directory.get(absence.delegate)
    instead = f"{delegate.shown} decides instead of you" if delegate else "nobody decides instead"
    return Words(
        f"You are away until {absence.end}",
        f"From {absence.start} to {absence.end}, {instead}. What you have been asked already is "
        "still yours, and you are still asked for what takes a second factor: set the absence on "
        f"the inbox page to include that.\n\nTo end it, {end}.",
    )
