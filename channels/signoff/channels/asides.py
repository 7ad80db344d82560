"""What somebody says about a question without deciding it, done and answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from signoff.broker.change import Change
from signoff.broker.desk import Desk
from signoff.broker.handling import Along, Handling
from signoff.channels import aside_phrases
from signoff.channels.answer import Answer, Notice, answer_back
from signoff.channels.phrases import About, Words
from signoff.core.approval import Approval
from signoff.core.asides import Aside, Does, read_aside
from signoff.core.errors import MoveRefused
from signoff.core.people import Directory, Person
from signoff.core.text import brief

log = structlog.get_logger(__name__)

_OF_REQUESTER: Final = frozenset({Does.WITHDRAW})

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

    async def take(self, answer: Answer, person: Person, text: str) -> bool:
        """Do what one of those who are asked says, if it is an aside.

        Args:
            answer: Whose answer it is, to what.
            person: Who.
            text: Their own words, in which there is neither a yes nor a no.

        Returns:
            Whether it was one. If not, nothing was done.

        Raises:
            DecisionRefused: It is not possible; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        aside = read_aside(text)
        if aside is None or aside.does in _OF_REQUESTER:
            return False
        if aside.problem:
            raise MoveRefused(aside.problem)
        await self.do(answer, person, aside)
        return True

    async def do(self, answer: Answer, person: Person, aside: Aside) -> None:
        """Do what somebody wants, as far as it is theirs to want.

        Raises:
            DecisionRefused: It is not possible; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        await self._make(answer, person, aside)
        log.info(
            "answer.aside",
            approval=answer.holder.approval,
            person=person.id,
            channel=answer.holder.channel,
            does=aside.does.value,
        )

    async def of_requester(self, answer: Answer, person: Person, text: str) -> None:
        """Do what the requester says, who never decides: withdraw, remind, answer a question.

        Raises:
            DecisionRefused: It is not possible; nothing was done, and nobody was told.
            LedgerError: It could not be committed; nothing was done.
        """
        aside = read_aside(text)
        if aside is not None and aside.does in {Does.WITHDRAW, Does.REMIND}:
            await self.do(answer, person, aside)
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
            along=self._along(answer, aside_phrases.passed_on),
        )

    async def _make(self, answer: Answer, person: Person, aside: Aside) -> None:
        about, directory = answer.holder.approval, self._directory
        match aside.does:
            case Does.CLAIM:
                await self._handling.claim(
                    about,
                    person,
                    length=aside.length,
                    along=self._along(answer, aside_phrases.claimed),
                )
            case Does.RELEASE:
                await self._handling.release(
                    about,
                    person,
                    reason=aside.text,
                    along=self._along(answer, aside_phrases.released),
                )
            case Does.REASSIGN:
                await self._handling.reassign(
                    about,
                    person,
                    of=person,
                    to=named(directory, aside.to),
                    reason=aside.text,
                    along=self._along(answer, lambda one: aside_phrases.given_away(one, directory)),
                )
            case Does.ASK:
                await self._handling.ask_back(
                    about,
                    person,
                    text=aside.text,
                    along=self._along(answer, lambda one: aside_phrases.asked_back(one, directory)),
                )
            case Does.COMMENT:
                await self._handling.comment(
                    about,
                    person,
                    text=aside.text,
                    along=self._along(answer, aside_phrases.commented),
                )
            case Does.REMIND:
                await self._handling.remind(
                    about,
                    person,
                    along=self._along(answer, lambda one: aside_phrases.reminded(one, directory)),
                )
            case Does.WITHDRAW:
                await self._handling.withdraw(
                    about,
                    person,
                    reason=aside.text,
                    along=self._along(answer, aside_phrases.withdrawn),
                )
            case Does.EXTEND if aside.length is not None:
                await self._handling.extend(
                    about,
                    person,
                    by=aside.length,
                    reason=aside.text,
                    along=self._along(answer, aside_phrases.extended),
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
