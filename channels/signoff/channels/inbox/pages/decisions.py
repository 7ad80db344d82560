"""Takes the forms of an approval's page: decisions and all other moves.

The page offers only permitted moves. Permissions are checked again when a form arrives, against the
state of the approval at that time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.decisions import Decisions, Extras, Refused
from signoff.broker.ledger.change import Change
from signoff.channels.collaboration import find_person
from signoff.channels.form_fields import PayloadErrors, fields
from signoff.channels.inbox.auth.context import AuthContext, Pages, Route, Visit, go
from signoff.channels.inbox.forms import BadForm
from signoff.channels.inbox.pages.approval import ApprovalPages, RefusedForm, most_field
from signoff.channels.inbox.pages.fields import read_values
from signoff.channels.inbox.settings import CHANNEL, page_of
from signoff.core.approvals import collaboration, moves
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.moves import Actor, Move
from signoff.core.approvals.parts import Assurance
from signoff.core.base.durations import parse_duration
from signoff.core.base.errors import (
    ApprovalError,
    Conflict,
    DecisionRefused,
    GrantRefused,
    MoveRefused,
    PayloadError,
    ReasonContradicts,
    ReasonNeeded,
)
from signoff.core.base.text import LONGEST_REASON, clean_text, reason_mark
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.grants.bounds import bounded, limit_of
from signoff.core.grants.moves import GiveGrant

log = structlog.get_logger(__name__)

_ONCE: Final = re.compile(r"[A-Za-z0-9_-]{16}")
_REMEMBERED: Final = timedelta(days=1)
_AGAIN: Final = "The call has changed, so nothing was done. Reload the page."
_DIGITS: Final = 6
_NOT_IN_KEY: Final = frozenset({"csrf", "code"})
REASON: Final = "#reason"
SPAN: Final = "#span"
"""The names of inputs that are not fields of the payload, in the errors of a form."""

_STRICT: Final = frozenset({"approve", "glass", "reassign"})
"""The moves that need a second factor if an approval does: a session alone may not reassign what it
may not decide. A rejection needs none, as by mail."""


_OPERATED: Final = frozenset({"release", "reassign", "comment", "withdraw", "extend", "remind"})
"""The moves that operators make in their role; they make others as approvers."""


@dataclass(frozen=True, slots=True)
class SubmittedForm:
    """A submitted form.

    Attributes:
        visit: The visitor.
        approval: The approval, as it was when the form arrived.
        form: The fields.
    """

    visit: Visit
    approval: Approval
    form: Mapping[str, str]

    @property
    def person(self) -> Person:
        """The visitor."""
        return self.visit.person

    def text(self, name: str) -> str:
        """Return the text of a field, as it is stored."""
        return clean_text(self.form.get(name, "")).strip()[:LONGEST_REASON].strip()


class MovePages(Pages):
    """Takes the forms of the page.

    Args:
        decisions: Makes the moves.
        auth: Identifies visitors.
        pages: Shows the approval after a refusal.
    """

    def __init__(self, decisions: Decisions, auth: AuthContext, pages: ApprovalPages) -> None:
        super().__init__(decisions, auth)
        self._pages = pages

    def routes(self) -> Sequence[Route]:
        """Return the routes, one for each move."""
        wanted: dict[str, Callable[[SubmittedForm, Directory], Move]] = {
            "approve": lambda sent, _: _approval(sent),
            "reject": lambda sent, _: moves.Reject(reason=sent.text("reason")),
            "glass": lambda sent, _: moves.BreakGlass(reason=sent.text("reason")),
            "claim": lambda *_: moves.Claim(),
            "release": lambda sent, _: moves.Release(reason=sent.text("reason")),
            "reassign": _reassignment,
            "comment": lambda sent, _: moves.Comment(text=sent.text("text")),
            "ask": lambda sent, _: moves.AskBack(text=sent.text("text")),
            "answer": lambda sent, _: moves.AnswerBack(text=sent.text("text")),
            "withdraw": _withdrawal,
            "extend": lambda sent, _: _extension(sent),
            "remind": lambda *_: moves.Remind(),
        }
        return tuple(
            ("POST", f"/approvals/{{approval_id}}/{name}", partial(self._handle, name, read))
            for name, read in wanted.items()
        )

    async def _handle(
        self, name: str, read: Callable[[SubmittedForm, Directory], Move], request: Request
    ) -> Response:
        """Make the move of a form, once."""
        visit, form = await self._auth.sent(request)
        approval = await self._pages.of_path(visit)
        if form.get("digest") != approval.digest or not _ONCE.fullmatch(form.get("once", "")):
            actor = Actor(visit.person, CHANNEL)
            await self._decisions.refuse(approval.id, DecisionRefused(_AGAIN), actor, wanted=name)
            raise BadForm(_AGAIN)
        there = go(page_of(approval.id))
        guard = _guard(name, visit.person, approval, form)
        if await self._ledger.raw(guard) is not None:
            return there
        strict = name in _STRICT and approval.in_two_steps
        visit, status, alert = await self._auth.check_proof(visit, form, strict=strict)
        if alert:
            tried = RefusedForm(name, form, alert)
            return await self._pages.shown(visit, approval, status=status, tried=tried)
        sent = SubmittedForm(visit, approval, form)
        error = await self._try_move(name, read, sent, guard, strict=strict)
        # If the same form was submitted twice, the first one has made the move.
        if error is not None and await self._ledger.raw(guard) is None:
            return await self._show_refusal(sent, name, error)
        log.info("inbox.moved", approval=approval.id, person=visit.person.id, move=name)
        return there

    async def _try_move(
        self,
        name: str,
        read: Callable[[SubmittedForm, Directory], Move],
        sent: SubmittedForm,
        guard: str,
        *,
        strict: bool,
    ) -> Exception | None:
        """Make the move of a form; return why it was not made, None if it was."""
        directory, about = self._decisions.directory, sent.approval.id
        extras = Extras(also=Change().put_raw(guard, "1", ttl=_REMEMBERED))
        actor = await self._actor(name, sent, strict=strict)
        try:
            move = read(sent, directory)
        except PayloadErrors as error:
            await self._decisions.refuse(about, error.first, actor, extras, wanted=name)
            return error
        except ApprovalError as error:
            await self._decisions.refuse(about, error, actor, extras, wanted=name)
            return error
        try:
            outcome = await self._decisions.take(about, move, actor, extras)
        except (ApprovalError, Conflict) as error:
            return error
        return outcome.error if isinstance(outcome, Refused) else None

    async def _actor(self, name: str, sent: SubmittedForm, *, strict: bool) -> Actor:
        """Return the actor of a form: the person or their role, and the proof."""
        acting = collaboration.acting(sent.approval, sent.person, self._decisions.directory)
        proof = dict(await self._auth.evidence(sent.visit))
        operates = isinstance(acting, Operator) and name in _OPERATED
        if operates:
            proof["role"] = Role.OPERATOR.value
        whose = self._decisions.directory.find(sent.form.get("of", "") or sent.person.id)
        own = name == "reassign" and whose is not None and whose.id == sent.person.id
        # For a strict move, the second factor was checked before.
        assurance = Assurance.SECOND_FACTOR if strict else Assurance.ACCOUNT
        return Actor(acting if operates and not own else sent.person, CHANNEL, proof, assurance)

    async def _show_refusal(self, sent: SubmittedForm, name: str, error: Exception) -> Response:
        """Show the form again with its errors, or the new state of the approval.

        Raises:
            Conflict: There were conflicts with other changes; nothing was done.
        """
        if isinstance(error, Conflict):
            raise error
        wrong = isinstance(error, PayloadErrors | PayloadError | GrantRefused)
        doubted = isinstance(error, ReasonContradicts)
        confirms = reason_mark(sent.text("reason")) if doubted else ""
        tried = RefusedForm(name, sent.form, *_error_texts(error), confirms=confirms)
        status = 422 if wrong else 409
        return await self._pages.shown(sent.visit, sent.approval, status=status, tried=tried)


def _approval(sent: SubmittedForm) -> Move:
    """Return the approval of a form: of the call, of a first step by mail, or with a grant."""
    reason = sent.text("reason")
    # Only the reason that was shown as doubtful is confirmed, and none that is written later.
    confirmed = sent.form.get("as_it_is", "")
    as_it_is = bool(confirmed) and reason_mark(reason) == confirmed
    if mark := sent.form.get("mark", ""):
        return moves.Confirm(mark=mark, reason=reason, as_it_is=as_it_is)
    if text := sent.form.get("span", ""):
        return _grant(sent, _duration(text, GrantRefused), reason, as_it_is=as_it_is)
    values = read_values(fields(sent.approval), sent.form) or None
    return moves.Approve(values=values, reason=reason, as_it_is=as_it_is)


def _grant(sent: SubmittedForm, span: timedelta, reason: str, *, as_it_is: bool) -> Move:
    """Return the approval with a grant for similar calls, within the bounds of the form."""
    rules = sent.approval.terms.grants if sent.approval.terms is not None else None
    names = bounded(sent.approval, rules) if rules is not None else ()
    most = {name: sent.form.get(most_field(at), "") for at, name in enumerate(names)}
    uses = sent.form.get("uses", "").strip()
    if uses and not (uses.isascii() and uses.isdigit() and len(uses) <= _DIGITS):
        raise GrantRefused(f"{uses[:40]!r} is not a number of calls. Write one, such as 10.")
    count = int(uses) if uses else None
    return GiveGrant(span=span, uses=count, limit=limit_of(most), reason=reason, as_it_is=as_it_is)


def _reassignment(sent: SubmittedForm, directory: Directory) -> Move:
    whose = sent.form.get("of", "")
    return moves.Reassign(
        of=find_person(directory, whose) if whose else sent.person,
        to=find_person(directory, sent.form.get("to", "").strip()),
        reason=sent.text("reason"),
    )


def _withdrawal(sent: SubmittedForm, directory: Directory) -> Move:
    """Return the withdrawal; operators need a reason."""
    reason = sent.text("reason")
    if not reason and isinstance(
        collaboration.acting(sent.approval, sent.person, directory), Operator
    ):
        raise ReasonNeeded(
            "A reason is needed to withdraw somebody else's request.", key="", read="", example=""
        )
    return moves.Withdraw(reason=reason)


def _extension(sent: SubmittedForm) -> Move:
    by = _duration(sent.form.get("by", ""), MoveRefused)
    return moves.Extend(by=by, reason=sent.text("reason"))


def _error_texts(error: Exception) -> tuple[str, dict[str, str]]:
    """Return the error of a refused form, and the errors of its fields."""
    match error:
        case PayloadErrors(problems=problems):
            return "Please correct the marked fields.", {
                name: str(one) for name, one in problems.items()
            }
        case ReasonNeeded() | ReasonContradicts():
            return str(error), {REASON: str(error)}
        case PayloadError(key=key, example=example):
            hint = f" For instance: {example}" if example else ""
            return f"{error}{hint}", {key: str(error)}
        case GrantRefused():
            return str(error), {SPAN: str(error)}
    return str(error), {}


def _guard(move: str, person: Person, approval: Approval, form: Mapping[str, str]) -> str:
    """Return the key that marks a form as handled.

    The same page submitted with other values is another form.
    """
    values = sorted((name, text) for name, text in form.items() if name not in _NOT_IN_KEY)
    parts = (move, person.id, approval.id, *(part for pair in values for part in pair))
    return f"form:{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"


def _duration(text: str, refused: Callable[[str], GrantRefused | MoveRefused]) -> timedelta:
    try:
        length = parse_duration(text.strip())
    except ValueError as error:
        raise refused(str(error)) from error
    if not isinstance(length, timedelta):
        raise refused(f"{text!r} is not a duration in clock time, such as 4h.")
    return length
