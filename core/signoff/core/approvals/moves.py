"""The moves that a person, an operator or the router can make on an approval, as values.

A channel says which move a person wants, and `signoff.broker.decisions.Decisions` makes it. Each
move is checked against the current approval. If it is not allowed, it raises an error of
`signoff.core.base.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from pydantic import JsonValue

from signoff.core.approvals import collaboration
from signoff.core.approvals.answers import meaning_of_yes
from signoff.core.approvals.approval import Approval, Moved
from signoff.core.approvals.collaboration import Operator, Who
from signoff.core.approvals.parts import Assurance, Kind
from signoff.core.base.errors import DecisionRefused, NotAnApprover, ReasonContradicts
from signoff.core.base.text import brief
from signoff.core.directory.people import Directory, Person


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes a move, and how the channel has proven their identity.

    Attributes:
        who: A person, an operator, or None if the identity is not proven.
        channel: The channel of the move: ``email``, ``slack``, ``inbox``, ``api``, ``cli``; "" for
            Signoff itself.
        proof: Further details for the audit, such as the API token or the second factor.
        assurance: How well the identity is proven.
        known_as: The name in the audit if `who` is None.
    """

    who: Who | None
    channel: str = ""
    proof: Mapping[str, JsonValue] = field(default_factory=dict)
    assurance: Assurance = Assurance.ACCOUNT
    known_as: str = ""

    @property
    def details(self) -> dict[str, JsonValue]:
        """The details about the actor that the audit records with every event."""
        channel = {"channel": self.channel} if self.channel else {}
        return {**channel, **self.proof}

    @property
    def by(self) -> str:
        """The id in the audit, "" if it is not known."""
        return self.who.id if self.who is not None else self.known_as

    @property
    def mover(self) -> Who:
        """The person or operator who acts.

        Raises:
            NotAnApprover: The identity is not proven.
        """
        if self.who is None:
            raise NotAnApprover("Nothing proves whose answer this is.")
        return self.who

    @property
    def person(self) -> Person:
        """The person who acts.

        Raises:
            NotAnApprover: The identity is not proven, or it is an operator, who decides nothing.
        """
        who = self.mover
        if isinstance(who, Operator):
            raise NotAnApprover(f"{who.shown} runs Signoff, and decides nothing.")
        return who


@dataclass(frozen=True, slots=True)
class Move:
    """The base class of all moves.

    An instance holds only what the person wants.

    Attributes:
        name: The name of the move in the audit.
        in_time: Whether it must come before the deadline.
        announced: Whether the stage `route` tells other people about it, besides their cards.
        automatic: Whether Signoff makes it without a person. The audit does not record a refusal
            of such a move.
        breaks_glass: Whether it is `BreakGlass`.
        gives_grant: Whether it is `signoff.core.grants.moves.GiveGrant`.
    """

    name: ClassVar[str]
    in_time: ClassVar[bool] = True
    announced: ClassVar[bool] = False
    automatic: ClassVar[bool] = False
    breaks_glass: ClassVar[bool] = False
    gives_grant: ClassVar[bool] = False

    @property
    def details(self) -> Mapping[str, JsonValue]:
        """The details that the audit records about the move, even if it is refused."""
        return {}

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Return the approval after this move, and the events.

        Raises:
            ApprovalError: The move is refused; see the function that it calls.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Approve(Move):
    """Approve; see `Approval.approve`.

    Attributes:
        values: The values for the payload template.
        reason: The reason in the person's own words.
        together: Whether it is approved together with others, which its policy must allow.
        as_it_is: Whether the person has confirmed that the reason is no condition; see
            `must_not_contradict`.
    """

    name: ClassVar[str] = "approve"
    values: Mapping[str, JsonValue] | None = None
    reason: str = ""
    together: bool = False
    as_it_is: bool = False

    @property
    def details(self) -> Mapping[str, JsonValue]:
        """The details that the audit records about the move, even if it is refused."""
        batch = {"batch": True} if self.together else {}
        return {**batch, **as_it_is_details(as_it_is=self.as_it_is)}

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Approve."""
        if self.together:
            # An error about the person comes before an error about the batch.
            approval.may_decide(actor.person, directory, now=now)
            if not approval.batchable:
                raise DecisionRefused(
                    f"Approval {approval.id} cannot be approved together with others: open it, and "
                    "answer it alone."
                )
        moved = approval.approve(
            actor.person,
            directory,
            channel=actor.channel,
            now=now,
            reason=self.reason,
            values=self.values,
        )
        if self.reason and not (self.as_it_is or self._proposes(approval)):
            must_not_contradict(approval, self.reason)
        return moved

    def _proposes(self, approval: Approval) -> bool:
        """Return whether the values make it a rejection with a proposal."""
        call, template = approval.call, approval.template
        said = meaning_of_yes(approval.kind, call, template, self.values, self.reason)
        return said.proposal is not None


@dataclass(frozen=True, slots=True)
class Reject(Move):
    """Reject; see `Approval.reject`.

    Attributes:
        reason: The reason in the person's own words, for the model.
        values: The answer that says no, for a request for input.
    """

    name: ClassVar[str] = "reject"
    reason: str = ""
    values: Mapping[str, JsonValue] | None = None

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Reject."""
        return approval.reject(
            actor.person,
            directory,
            channel=actor.channel,
            now=now,
            reason=self.reason,
            values=self.values,
        )


@dataclass(frozen=True, slots=True)
class BreakGlass(Move):
    """Run a frozen or unanswered call alone; see `Approval.break_glass`."""

    name: ClassVar[str] = "break_glass"
    breaks_glass: ClassVar[bool] = True
    announced: ClassVar[bool] = True
    reason: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Run it."""
        return approval.break_glass(
            actor.person,
            directory,
            channel=actor.channel,
            now=now,
            reason=self.reason,
            assurance=actor.assurance,
        )


@dataclass(frozen=True, slots=True)
class Confirm(Move):
    """Take the second step of an approval; see `Approval.confirm`.

    Attributes:
        mark: `parts.mark_of` the first step that the person was shown.
        reason: What the person has written beside the confirmation. It is not stored.
        as_it_is: As of `Approve`.
    """

    name: ClassVar[str] = "confirm"
    mark: str
    reason: str = ""
    as_it_is: bool = False

    @property
    def details(self) -> Mapping[str, JsonValue]:
        """The details that the audit records about the move, even if it is refused."""
        return as_it_is_details(as_it_is=self.as_it_is)

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Confirm."""
        moved = approval.confirm(
            actor.person, directory, channel=actor.channel, now=now, mark=self.mark
        )
        if not self.as_it_is:
            must_not_contradict(approval, self.reason)
        return moved


@dataclass(frozen=True, slots=True)
class Withdraw(Move):
    """Withdraw the request: as its requester, as an operator, or because the run has ended."""

    name: ClassVar[str] = "withdraw"
    in_time: ClassVar[bool] = False
    reason: str = ""

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Withdraw it."""
        reason = self.reason
        if isinstance(actor.who, Person):
            approval.may_withdraw(actor.who, directory)
            reason = reason or "the requester has withdrawn it"
        return approval.withdraw(by=actor.mover.id, reason=reason, now=now)


@dataclass(frozen=True, slots=True)
class WithdrawObsolete(Withdraw):
    """Withdraw a request that needs no answer any more: its session was deleted or went on."""

    automatic: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Claim(Move):
    """Reserve the decision; see `collaboration.claim`.

    Attributes:
        length: How long the claim lasts; None for the default of the person's queue.
    """

    name: ClassVar[str] = "claim"
    announced: ClassVar[bool] = True
    length: timedelta | None = None

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Claim it."""
        return collaboration.claim(approval, actor.person, directory, now=now, length=self.length)


@dataclass(frozen=True, slots=True)
class Release(Move):
    """Release a claim; see `collaboration.release`."""

    name: ClassVar[str] = "release"
    announced: ClassVar[bool] = True
    reason: str = ""

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Release it."""
        return collaboration.release(approval, actor.mover, directory, now=now, reason=self.reason)


@dataclass(frozen=True, slots=True)
class Reassign(Move):
    """Hand over a seat to another person; see `collaboration.reassign`.

    Attributes:
        of: The person who has the seat.
        to: The person who gets it.
        reason: The reason.
    """

    name: ClassVar[str] = "reassign"
    announced: ClassVar[bool] = True
    of: Person
    to: Person
    reason: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Reassign it."""
        return collaboration.reassign(
            approval,
            actor.mover,
            directory,
            of=self.of,
            to=self.to,
            reason=self.reason,
            now=now,
            assurance=actor.assurance,
        )


@dataclass(frozen=True, slots=True)
class AskBack(Move):
    """Ask the requester a question; see `collaboration.ask_back`."""

    name: ClassVar[str] = "ask"
    announced: ClassVar[bool] = True
    text: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Ask it."""
        return collaboration.ask_back(approval, actor.person, directory, text=self.text, now=now)


@dataclass(frozen=True, slots=True)
class AnswerBack(Move):
    """Answer a question as the requester; see `collaboration.answer_back`."""

    name: ClassVar[str] = "answer"
    announced: ClassVar[bool] = True
    text: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Answer it."""
        return collaboration.answer_back(approval, actor.person, directory, text=self.text, now=now)


@dataclass(frozen=True, slots=True)
class Comment(Move):
    """Add a comment, which everybody who sees the card can read; see `collaboration.comment`."""

    name: ClassVar[str] = "comment"
    announced: ClassVar[bool] = True
    text: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Comment."""
        return collaboration.comment(approval, actor.mover, directory, text=self.text, now=now)


@dataclass(frozen=True, slots=True)
class Extend(Move):
    """Move the deadline; see `collaboration.extend`."""

    name: ClassVar[str] = "extend"
    announced: ClassVar[bool] = True
    by: timedelta
    reason: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Extend it."""
        return collaboration.extend(
            approval, actor.mover, directory, more=self.by, reason=self.reason, now=now
        )


@dataclass(frozen=True, slots=True)
class Remind(Move):
    """Remind the approvers who have not answered; see `collaboration.remind_now`."""

    name: ClassVar[str] = "remind"
    announced: ClassVar[bool] = True

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Remind them."""
        return collaboration.remind_now(approval, actor.mover, directory, now=now)


@dataclass(frozen=True, slots=True)
class TakeEdit(Move):
    """Approve a call with the values that the person has proposed; see `Approval.take_edit`."""

    name: ClassVar[str] = "take_edit"
    automatic: ClassVar[bool] = True
    reason: str

    def make(self, approval: Approval, actor: Actor, directory: Directory, now: datetime) -> Moved:
        """Approve it."""
        return approval.take_edit(
            actor.person, directory, channel=actor.channel, reason=self.reason, now=now
        )


def must_not_contradict(approval: Approval, reason: str) -> None:
    """Refuse an approval whose reason reads like a no, a question, a condition or a limit.

    The reason of an answer to a request for input is not judged, because its values are the answer.

    Raises:
        ReasonContradicts: It reads so.
    """
    if approval.kind is Kind.INPUT or not reason.strip():
        return
    # Most approvals have no reason, and do not need the lexicon.
    from signoff.core.replies.remark import contradiction  # noqa: PLC0415

    if found := contradiction(reason):
        read = brief(found)
        raise ReasonContradicts(
            f"Your reason reads like a no, a question, a condition or a limit: “{read}”. "
            "Signoff cannot approve a part of a call, so nothing was decided. Approve the call as "
            "it is, or reject it with this reason.",
            key="",
            read=read,
            example="",
        )


def as_it_is_details(*, as_it_is: bool) -> dict[str, JsonValue]:
    """Return what the audit records of a person who has confirmed a reason."""
    return {"as_it_is": True} if as_it_is else {}
