"""What somebody says about a question without deciding it, done and answered."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from signoff.broker.collaboration import Along, Handling
from signoff.broker.decisions import Desk
from signoff.broker.ledger.change import Change
from signoff.channels.incoming import Answer, Notice, answer_back
from signoff.channels.words import collaboration
from signoff.channels.words.phrases import About, Words
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import MoveRefused
from signoff.core.base.text import brief
from signoff.core.directory.people import Directory, Person
from signoff.core.replies.reply import (
    Ask,
    Claim,
    Comment,
    Extend,
    Reassign,
    Release,
    Remind,
    Reply,
    Withdraw,
)

log = structlog.get_logger(__name__)

Say = Callable[[Approval], Words]
"""Returns what whoever made a move is told of it."""


class Asides:
    """Does what an answer says that decides nothing.

    Args:
        desk: The ledger and the people.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._handling = Handling(desk)

    async def do(self, answer: Answer, person: Person, reply: Reply) -> None:
        """Do what somebody wants, as far as it is theirs to want.

        Raises:
            DecisionRefused: It is not possible; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        await self._make(answer, person, reply)
        log.info(
            "answer.aside",
            approval=answer.holder.approval,
            person=person.id,
            channel=answer.holder.channel,
            does=type(reply).__name__.lower(),
        )

    async def of_requester(self, answer: Answer, person: Person, text: str, reply: Reply) -> None:
        """Do what the requester says, who never decides: withdraw, remind, answer a question.

        Raises:
            DecisionRefused: It is not possible; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        if isinstance(reply, Withdraw | Remind):
            await self.do(answer, person, reply)
            return
        await self.answer_back(answer, person, text)

    async def answer_back(self, answer: Answer, person: Person, text: str) -> None:
        """Put on the card what the requester answers.

        Raises:
            DecisionRefused: It is not possible; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        await self._handling.answer_back(
            answer.holder.approval,
            person,
            text=text,
            along=self._along(answer, collaboration.passed_on),
        )

    async def _make(self, answer: Answer, person: Person, reply: Reply) -> None:
        about, directory = answer.holder.approval, self._directory
        match reply:
            case Claim():
                await self._handling.claim(
                    about,
                    person,
                    length=reply.length,
                    along=self._along(answer, collaboration.claimed),
                )
            case Release():
                await self._handling.release(
                    about,
                    person,
                    reason=reply.reason,
                    along=self._along(answer, collaboration.released),
                )
            case Reassign():
                await self._handling.reassign(
                    about,
                    person,
                    of=person,
                    to=named(directory, reply.to),
                    reason=reply.reason,
                    along=self._along(answer, lambda one: collaboration.given_away(one, directory)),
                )
            case Ask():
                await self._handling.ask_back(
                    about,
                    person,
                    text=reply.text,
                    along=self._along(answer, lambda one: collaboration.asked_back(one, directory)),
                )
            case Comment():
                await self._handling.comment(
                    about,
                    person,
                    text=reply.text,
                    along=self._along(answer, collaboration.commented),
                )
            case Remind():
                await self._handling.remind(
                    about,
                    person,
                    along=self._along(answer, lambda one: collaboration.reminded(one, directory)),
                )
            case Withdraw():
                await self._handling.withdraw(
                    about,
                    person,
                    reason=reply.reason,
                    along=self._along(answer, collaboration.withdrawn),
                )
            case Extend():
                await self._handling.extend(
                    about,
                    person,
                    by=reply.length,
                    reason=reply.reason,
                    along=self._along(answer, collaboration.extended),
                )

    @property
    def _directory(self) -> Directory:
        return self._desk.directory

    def _along(self, answer: Answer, say: Say) -> Along:
        return Along(also=answer.also, noted=self._told(answer, say), more=answer.more)

    @staticmethod
    def _told(answer: Answer, say: Say) -> Callable[[Change, Approval], None]:
        def noted(change: Change, after: Approval) -> None:
            notice = Notice(answer.holder.person, About.DONE, say(after))
            answer_back(change, answer, notice)

        return noted


def named(directory: Directory, name: str) -> Person:
    """Return the person whom somebody means: by id, address, whole name or first name.

    Raises:
        MoveRefused: It is nobody, or several could be meant.
    """
    found = directory.find(name)
    if found is not None:
        return found
    wanted = " ".join(name.casefold().split())
    for meant in (
        [one for one in directory if one.name.casefold() == wanted],
        [one for one in directory if one.name.casefold().split()[:1] == [wanted]],
    ):
        if len(meant) == 1:
            return meant[0]
        if meant:
            several = ", ".join(one.id for one in meant)
            raise MoveRefused(f"{brief(name)} could be one of {several}; write which.")
    raise MoveRefused(f"There is nobody called {brief(name)}; write their address.")
