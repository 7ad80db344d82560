"""The card of an approval: its content, which each channel renders in its own form."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Self

from pydantic import JsonValue

from signoff.core.approvals import collaboration
from signoff.core.approvals.answers import form_of
from signoff.core.approvals.approval import Approval, Kind, State
from signoff.core.approvals.masking import masked
from signoff.core.approvals.parts import CommentKind
from signoff.core.base.counts import counted
from signoff.core.base.durations import format_duration, roughly
from signoff.core.base.freezes import Freeze
from signoff.core.base.hiding import HIDDEN, having_hidden, without_hidden
from signoff.core.base.lookalikes import scripts_in_use
from signoff.core.base.model import Value
from signoff.core.base.numbers import json_text
from signoff.core.base.shown_text import (
    one_line,
    shortened,
    shown,
    shown_name,
    shown_value,
    unbroken,
    warnings_about,
)
from signoff.core.directory.people import Directory
from signoff.core.grants.grant import givers
from signoff.core.payloads.digest import short_digest
from signoff.core.payloads.payload import LONE_FIELD, fields_of
from signoff.core.policies.amounts import Amounts
from signoff.core.policies.levels import Verdict, level_of
from signoff.core.policies.policy import Risk
from signoff.core.policies.titles import LONGEST_TITLE, shortened_line, title_of
from signoff.core.replies.examples import example_of_grant, spans_within

__all__ = [
    "Card",
    "Offer",
    "Remark",
    "Row",
    "awaited_by",
    "card",
    "changed_text",
    "comments_on",
    "escalated",
    "have_same_card",
    "named",
    "one_line",
    "policy_title",
    "progress",
    "rows_of",
    "shown",
    "topic",
    "unbroken",
    "values_text",
]

_LONGEST_QUESTION = 120
_MOST_COMMENTS = 10
_LONGEST_COMMENT = 600
_LONGEST_REMARK = 400
_MOST_AWAITED = 5
_LONGEST_NAME = 60
_LONGEST_IN_TITLE = 40
_LOOKED_AT = 400
_ON_CARD = tuple(
    name
    for name in Approval.model_fields
    if name not in {"handoff", "reported", "result", "starts", "version"}
)
"""The fields of an approval on which its card may depend if nothing is frozen."""

_VERBS = {
    Kind.CONFIRMATION: "asks to run",
    Kind.INPUT: "asks for",
    Kind.LONG_RUNNING: "waits for your decision on",
}


class Row(Value):
    """One argument of the call, or one field to fill.

    Attributes:
        name: The name.
        value: The value as people read it; for a field, its initial value.
        note: A note about a field: its choices, its description.
        filled: Whether a field may keep its initial value, even an empty one.
        hidden: Whether the policy hides the value, or something in it.
    """

    name: str
    value: str
    note: str = ""
    filled: bool = False
    hidden: bool = False


class Remark(Value):
    """A comment on the approval; see `signoff.core.approvals.parts.Comment`.

    Attributes:
        who: The name of the person.
        at: When (UTC).
        text: The text as people read it; cards shorten it.
        asks: Whether it is a question to the requester.
    """

    who: str
    at: datetime
    text: str
    asks: bool = False


class Offer(Value):
    """The grants that people may give for calls like this one.

    Attributes:
        who: The ids of the people who may give a grant.
        example: An answer that gives one.
        terms: The limits of a grant, in words.
        spans: Durations to choose from.
    """

    who: tuple[str, ...] = ()
    spans: tuple[str, ...] = ()
    example: str = ""
    terms: str = ""


class Card(Value):
    """Everything that a card shows; each channel renders the same one.

    Attributes:
        approval: The id of the approval.
        kind: What is asked for.
        title: One line: the policy's title for the request and the requester, or what the agent
            wants to do with the first arguments.
        call: One line: what the agent wants to do, without arguments.
        titled: Whether the policy has a title for it.
        app: The agent's folder.
        agent: The agent that called the tool.
        tool: The tool.
        rows: The arguments; for a request for input, its payload.
        hint: The tool's hint, "" if it is only the standard text of ADK. For a request for input,
            the question if the title does not contain it.
        said: The agent's words before the call, which nobody has checked.
        request: The requester's words to the agent, which nobody has checked either.
        requester: The name of the requester.
        policy: The name of the policy.
        deadline: The deadline (UTC), None if it stays open.
        digest: The digest of the approval.
        fields: The fields to fill in, empty without a payload template.
        optional: The names of further fields, which may be given as well.
        reasons: The decisions for which the policy requires a reason.
        yes_or_no: Whether a rejection gives the agent an answer to continue with.
        in_two_steps: Whether an approval by mail must be confirmed on the inbox page.
        risky: Whether the risk is high, so that a button asks for confirmation before it approves.
        comments: The latest ten comments, the oldest first.
        warnings: Sentences about misleading content: hidden characters, and letters that look like
            others. All texts above show such characters as escapes.
        asks_back: Whether the requester can be asked a question.
        extends: Whether the deadline can be extended.
        claims: Whether it waits in a queue, whose members claim what they decide.
        claimed: The name of the claimant, "" if nobody has claimed it.
        claimed_until: When the claim ends (UTC).
        level: The policy's name of the present level, "" if it has none.
        escalated: Who was asked before, for how long, and why it was escalated; "" if nobody was.
        progress: How many of the needed approvals there are, and by whom: "1 of 2 have approved:
            Mara Lind"; "" if one approval is enough.
        awaited: The approvers who have not answered: "Tom Weber and 3 more"; "" without progress.
        offer: The grants that people may give for calls like this one.
        hides: Whether its policy hides some of it. An approval covers the hidden parts too.
        similar: A sentence about the reader's earlier decisions on similar requests, "" for none.
            See `signoff.core.approvals.lists.similar`.
    """

    approval: str
    kind: Kind = Kind.CONFIRMATION
    title: str
    call: str = ""
    titled: bool = False
    app: str
    agent: str
    tool: str
    rows: tuple[Row, ...]
    hint: str
    said: str = ""
    request: str = ""
    requester: str
    policy: str
    deadline: datetime | None
    digest: str
    fields: tuple[Row, ...] = ()
    optional: tuple[str, ...] = ()
    reasons: tuple[Verdict, ...] = ()
    yes_or_no: bool = True
    in_two_steps: bool = False
    risky: bool = False
    comments: tuple[Remark, ...] = ()
    warnings: tuple[str, ...] = ()
    asks_back: bool = False
    extends: bool = False
    claims: bool = False
    claimed: str = ""
    claimed_until: datetime | None = None
    level: str = ""
    escalated: str = ""
    progress: str = ""
    awaited: str = ""
    offer: Offer = Offer()
    hides: bool = False
    similar: str = ""

    @property
    def line(self) -> str:
        """The title for a list that shows the arguments in another column."""
        return self.title if self.titled or self.kind is Kind.INPUT else self.call

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """The words of the requester and the agent before the call, shortened and unchecked."""
        said = ((self.requester, self.request), (self.agent or self.app, self.said))
        return tuple((who, shortened(text, _LONGEST_REMARK)) for who, text in said if text)

    @property
    def details(self) -> str:
        """Details that are not needed for an answer, in one line: policy, agent, id and digest."""
        agent = f"{self.agent} in {self.app}" if self.agent not in {"", self.app} else self.app
        digest = f"digest {short_digest(self.digest)}"
        return " · ".join(filter(None, (self.policy, agent, self.approval, digest)))

    @property
    def bare(self) -> Self:
        """The same card, which shows only the tool of the call."""
        update = {"rows": (), "hint": "", "said": "", "request": "", "warnings": ()}
        plain = {"title": self.call, "titled": False, "hides": False}
        return self.model_copy(update={**update, **plain})


def card(approval: Approval, directory: Directory) -> Card:
    """Return the card of an approval."""
    real, approval = approval, masked(approval)
    call, origin = approval.call, approval.origin
    requester = directory.record(origin.user)
    claim = approval.claimed if approval.state is State.PENDING else None
    agent = one_line(origin.agent or origin.app)
    hint = approval.own_hint
    texts = (call.name, hint, *_texts(call.args), *_texts(fields_of(approval.template)))
    in_use = scripts_in_use(texts)
    about = (origin.app, origin.agent, *(() if requester else (origin.user,)))
    who = one_line(requester.shown if requester else origin.user)
    does = f"{agent} {_VERBS[approval.kind]} {one_line(call.name, in_use)}"
    rows = rows_of(real, call.args, in_use)
    title = policy_title(approval, who, in_use)
    open_still, so_far = approval.state is State.PENDING, progress(approval, directory)
    basis = Card(
        approval=approval.id,
        kind=approval.kind,
        title=f"{title}, asked by {shortened_line(who, _LONGEST_NAME)}"
        if title
        else _with_arguments(does, rows),
        call=does,
        titled=bool(title),
        app=one_line(origin.app),
        agent=one_line(origin.agent),
        tool=one_line(call.name, in_use),
        rows=rows,
        hint=shown(hint, in_use),
        said=shown(approval.said),
        request=shown(approval.request),
        requester=who,
        policy=approval.terms.policy if approval.terms else "",
        deadline=approval.deadline,
        digest=approval.digest,
        fields=_starts(real, in_use),
        reasons=tuple(one for one in Verdict if approval.needs_reason(one)),
        in_two_steps=approval.in_two_steps,
        level=_level(approval),
        escalated=escalated(approval, directory),
        progress=so_far,
        awaited=awaited_by(approval, directory) if so_far else "",
        risky=approval.terms is not None and approval.terms.risk is Risk.HIGH,
        comments=tuple(
            one.model_copy(update={"text": shortened(one.text, _LONGEST_COMMENT)})
            for one in comments_on(real, directory)[-_MOST_COMMENTS:]
        ),
        warnings=(
            *_glass(real, directory),
            *(frozen_words(one) for one in real.frozen_by(directory.freezes)),
            *warnings_about((*texts, *about), in_use),
            *_pretences(rows),
        ),
        asks_back=open_still and collaboration.can_ask_back(approval, directory),
        extends=open_still
        and approval.deadline is not None
        and bool(collaboration.time_to_add(approval)),
        claims=bool(approval.queues),
        claimed=_name(claim.by, directory) if claim is not None else "",
        claimed_until=claim.until if claim is not None else None,
        offer=_offer(approval),
        hides=any(row.hidden for row in rows) or bool(approval.kind is Kind.INPUT and real.fixed),
    )
    return basis if approval.kind is not Kind.INPUT else _of_input(basis, agent, real, in_use)


def have_same_card(one: Approval, other: Approval, directory: Directory) -> bool:
    """Say whether two versions of an approval have the same card; it may say no if they have.

    Comparing two versions costs about a third of making a card.
    """
    if one is other:
        return True
    # While something is frozen, cards warn of it until the call has started.
    before, after = vars(one), vars(other)
    return not directory.freezes and all(before[name] == after[name] for name in _ON_CARD)


def comments_on(approval: Approval, directory: Directory) -> tuple[Remark, ...]:
    """Return all comments on an approval, in full."""
    return tuple(
        Remark(
            who=_name(comment.by, directory),
            at=comment.at,
            text=shown(comment.text),
            asks=comment.sort is CommentKind.QUESTION,
        )
        for comment in masked(approval).comments
    )


def frozen_words(freeze: Freeze) -> str:
    """Return a warning about a freeze: who has frozen what, and why."""
    # The name of a tool is not capitalised.
    what = freeze.stops if freeze.tool else freeze.stops[:1].upper() + freeze.stops[1:]
    return one_line(
        f"{what} is frozen by {freeze.by}: {freeze.why}. An approved call waits until it is thawed."
    )


def _glass(approval: Approval, directory: Directory) -> Iterator[str]:
    """Yield a warning about an emergency override, if there is one."""
    if (glass := approval.glass) is not None:
        yield one_line(f"{_name(glass.by, directory)} broke the glass: {glass.reason}")


def _pretences(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a warning for each value that only looks hidden, but is passed to the tool."""
    for row in rows:
        if not row.hidden and HIDDEN in unbroken(row.value).casefold():
            name = shortened_line(row.name, _LONGEST_NAME)
            yield f"“{name}” has the words “{HIDDEN}” in it: the policy hides nothing there."


def policy_title(approval: Approval, who: str, in_use: frozenset[str] = frozenset()) -> str:
    """Return the policy's title for a request, "" if it has none.

    Args:
        approval: The request.
        who: The name of the requester.
        in_use: The scripts of the request; see `scripts_in_use`.
    """
    terms, origin, call = approval.terms, approval.origin, masked(approval).call
    if terms is None or not terms.title:
        return ""
    names = {
        "requester": who,
        "agent": origin.agent or origin.app,
        "app": origin.app,
        "tool": call.name,
    }
    return title_of(terms.title, call.args, names, in_use)


def _with_arguments(does: str, rows: Sequence[Row]) -> str:
    """Return what the agent wants to do, with the first arguments that fit."""
    told = does
    for row in rows:
        value = shortened_line(unbroken(row.value[:_LOOKED_AT]), _LONGEST_IN_TITLE)
        more = f"{told}{', ' if told != does else ': '}{row.name} {value}"
        if row.hidden or not value:
            continue
        if len(more) > LONGEST_TITLE:
            break
        told = more
    return told


def _texts(values: dict[str, JsonValue]) -> Iterator[str]:
    """Yield the names and values in their original form."""
    for name, value in values.items():
        yield name
        if isinstance(value, str):
            yield value
        elif isinstance(value, list | dict):
            yield json_text(value)


def _name(identity: str, directory: Directory) -> str:
    return one_line(directory.shown(identity))


def _names(identities: Iterable[str], directory: Directory) -> str:
    return ", ".join(_name(one, directory) for one in identities)


def _level(approval: Approval) -> str:
    levels = approval.terms.levels if approval.terms is not None else ()
    return one_line(levels[approval.level].name) if approval.level < len(levels) else ""


def escalated(approval: Approval, directory: Directory) -> str:
    """Say who was asked before, for how long, and why it was escalated; "" if nobody was."""
    before = [one for one in approval.asked if one.level_key != approval.level_key]
    terms, since = approval.terms, approval.since
    if approval.state is not State.PENDING or terms is None or since is None or not before:
        return ""
    level, round_ = level_of(before[-1].level_key), approval.round
    if not terms.same_phase(level, approval.level):
        given = [_name(vote.by, directory) for vote in approval.given]
        return f"Approved before by {named(given)}. It takes your approval as well."
    here = [seat for seat in approval.seats if (seat.level, seat.round) == (level, round_)]
    ids = [seat.person for seat in here] or [one.person for one in before if one.person]
    people = dict.fromkeys(ids or approval.approvers)
    names = named([_name(one, directory) for one in people])
    if all(one.problem for one in before):
        return f"Escalated: {names} could not be reached."
    waited = roughly(since - approval.opened_at)
    return f"Escalated: {names} did not decide within {waited}."


def named(names: Sequence[str]) -> str:
    """Name people in a sentence: "Tom Weber", "Tom Weber and Mara Lind", "... and 3 more"."""
    if len(names) > _MOST_AWAITED:
        return f"{', '.join(names[:_MOST_AWAITED])} and {len(names) - _MOST_AWAITED} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or "others"


def progress(approval: Approval, directory: Directory) -> str:
    """Say how many of the needed approvals there are, "" if one is enough or it has ended."""
    if approval.state is not State.PENDING:
        return ""
    ballot, before = approval.ballot, [*dict.fromkeys(one.by for one in approval.given)]
    if ballot.need == 1 and not ballot.votes and not before:
        return ""
    said = ((": ", ballot.yes), ("; against it: ", ballot.no), ("; before that: ", before))
    told = [f"{how}{_names(people, directory)}" for how, people in said if people]
    return f"{len(ballot.yes)} of {ballot.need} have approved{''.join(told)}"


def awaited_by(approval: Approval, directory: Directory) -> str:
    """Name the approvers who have not answered: "Tom Weber and 3 more"."""
    people = approval.ballot.awaited
    names = _names(people[:_MOST_AWAITED], directory)
    left = len(people) - _MOST_AWAITED
    return f"{names} and {left} more" if left > 0 else names


def _offer(approval: Approval) -> Offer:
    """Return the grants that people may give; the offer is empty if nobody may give one."""
    rules = approval.terms.grants if approval.terms is not None else None
    if rules is None or approval.state is not State.PENDING or not (who := givers(approval)):
        return Offer()
    vary = [one_line(name) for name in rules.vary if name in approval.call.args]
    terms = f"{format_duration(rules.longest)} and {counted(rules.most, 'call')} at most"
    return Offer(
        who=who,
        spans=tuple(format_duration(one) for one in spans_within(rules.longest)),
        example=example_of_grant(rules.longest),
        terms=f"{terms}; {', '.join(vary)} may differ" if vary else terms,
    )


def topic(approval: Approval) -> str:
    """Return the subject of an approval, for use in a sentence."""
    if approval.kind is Kind.INPUT:
        return f"the question of {one_line(approval.origin.agent or approval.origin.app)}"
    return one_line(approval.call.name)


def _of_input(basis: Card, agent: str, approval: Approval, in_use: frozenset[str]) -> Card:
    """Return the card of a request for input: the question, its payload and the fields."""
    form, args = form_of(approval.call), masked(approval).call.args
    asked = args.get("message")
    question = asked.strip() if isinstance(asked, str) else ""
    short = bool(question) and len(question) <= _LONGEST_QUESTION and "\n" not in question
    payload, fixed = args.get("payload"), approval.fixed
    given = payload if isinstance(payload, dict) else {"payload": payload}
    title = f"{agent} asks: {one_line(question, in_use)}" if short else f"{agent} asks for input"
    if question and not short:
        title = shortened_line(f"{agent} asks: {one_line(question, in_use)}", LONGEST_TITLE)
    return basis.model_copy(
        update={
            "title": basis.title if basis.titled else title,
            "call": f"{agent} asks for input",
            "hint": "" if short and not basis.titled else shown(question, in_use),
            "rows": () if payload is None else rows_of(approval, given, in_use),
            "fields": tuple(
                Row(
                    name=one_line(name),
                    value=_start(form.fields[name]) if name in form.required else shown(start),
                    note=one_line(form.note(name)),
                    filled=name not in form.required,
                )
                for name, start in ((one, form.fields[one]) for one in form.shown)
                if name not in fixed
            ),
            "optional": tuple(
                _optional(name, form.defaults.get(name))
                for name in form.optional
                if name not in fixed
            ),
            "yes_or_no": form.refuse("no") is not None,
        }
    )


def _start(start: JsonValue) -> str:
    # A zero shows that the field takes a number. Other initial values show nothing useful.
    return shown(start) if isinstance(start, int | float) and start is not False else ""


def _optional(name: str, default: JsonValue) -> str:
    """Return the name of an optional field, with the value that it otherwise gets."""
    left_out = "" if default in (None, "") else f" (otherwise {one_line(shown(default))})"
    return f"{one_line(name)}{left_out}"


def rows_of(
    approval: Approval, values: Mapping[str, JsonValue], in_use: frozenset[str] = frozenset()
) -> tuple[Row, ...]:
    """Return values of an approval as rows, with currencies and without hidden values."""
    hide, amounts = approval.hides, _amounts(approval)
    seen, hidden = without_hidden(values, hide), having_hidden(values, hide)
    return tuple(
        Row(
            name=shown_name(name, in_use),
            value=shown_value(amounts.written(name, seen[name]), in_use),
            hidden=name in hidden,
        )
        for name in values
    )


def _amounts(approval: Approval) -> Amounts:
    money = approval.terms.money if approval.terms is not None else {}
    return Amounts(money, masked(approval).call.args if money else {})


def values_text(approval: Approval, value: JsonValue) -> str:
    """Return entered or proposed values as one line: ``days = 3, from = Monday``."""
    pairs = value if isinstance(value, dict) else {LONE_FIELD: value}
    return one_line(", ".join(f"{row.name} = {row.value}" for row in rows_of(approval, pairs)))


def changed_text(approval: Approval, proposal: Mapping[str, JsonValue]) -> str:
    """Return the proposed arguments that differ from those of the call as one line."""
    args = approval.call.args
    return values_text(
        approval, {name: value for name, value in proposal.items() if args.get(name) != value}
    )


def _starts(approval: Approval, in_use: frozenset[str]) -> tuple[Row, ...]:
    """Return the fields of a template.

    An initial value that is shown with escapes is only a note, so that nobody sends the escapes
    back.
    """
    values, fixed = fields_of(approval.template), approval.fixed
    if approval.kind is Kind.INPUT:
        return ()
    amounts = _amounts(approval)
    found = []
    for name, start in values.items():
        value, currency = shown(amounts.start(name, start), in_use), amounts.currency(name)
        row = Row(name=one_line(name, in_use), value=value, note=f"in {currency}" * bool(currency))
        if name in fixed:
            row = row.model_copy(update={"value": "", "note": HIDDEN, "filled": True})
        elif isinstance(start, str) and value != start:
            row = row.model_copy(update={"value": "", "note": f"it starts as {value}"})
        found.append(row)
    return tuple(found)
