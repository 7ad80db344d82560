"""The parts of an approval: the call, its origin, who is asked, what people said and did."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from pydantic import Field, JsonValue

from signoff.core.base.model import BY_NAME_OR_ALIAS, Value
from signoff.core.policies.levels import LevelKey

INPUT: Final = "adk_request_input"
"""The name of a request for input: in ADK's session, in policies and in digests."""

LONGEST_TEXT: Final = 2_000
"""Characters of a comment, a reason or the agent's words that are kept."""

LONGEST_REQUEST: Final = 500
"""Characters of the requester's message that are kept with an approval."""

FIRST: Final = frozenset({"email", "slack"})
"""The channels that can take the first step of an approval in two steps."""

SECOND: Final = frozenset({"inbox"})
"""The channels that can confirm it: each of them asks for a second factor."""


class Kind(StrEnum):
    """What is asked for."""

    CONFIRMATION = "confirmation"
    """A yes or a no to a tool call that has not run yet."""
    INPUT = "input"
    """Values for a workflow or a model; its `ToolCall` is the request: message, payload, schema."""
    LONG_RUNNING = "long_running"
    """The result of a tool call that has begun, and waits for a person's decision."""


class Shown(StrEnum):
    """How much of a call a channel has shown to somebody."""

    UNKNOWN = ""
    """The channel does not say, or the card is not known to be delivered."""
    COMPLETE = "complete"
    """All of it could be read there before a yes."""
    CUT = "cut"
    """Some of it was cut, folded or left out: a yes is possible elsewhere only."""


class ToolCall(Value):
    """The call that waits.

    Attributes:
        id: The id of the FunctionCall in the session (not of its confirmation request).
        name: The tool.
        args: Its arguments, as the tool gets them.
    """

    id: str
    name: str
    args: dict[str, JsonValue] = Field(default_factory=dict)


class Origin(Value):
    """Where the call comes from, in the terms of ADK.

    Attributes:
        run: The id of Signoff's run.
        app: The name of the agent's folder.
        agent: The author of the event, the agent that called the tool.
        user: The user id of the session: the requester.
        session: The session id.
        invocation: The invocation id, which the answer must carry.
        confirmation: The id of the FunctionCall to answer: of the request for a confirmation or
            for input, or of the long-running call itself.
        again: How many times this call was asked about before, because it was in doubt.
        nth: How many requests with this id came before it in the session: the nodes of a
            workflow ask under the same id each time they run.
        expired: How many times this call was asked about before, and the yes expired.
        made: The digest of the call in the session, where the approval is about another one: code
            is suspended at a call inside of it, or a callback has changed its arguments before
            the tool got them. "" where it is about the call in the session itself.
    """

    run: str
    app: str
    agent: str = ""
    user: str
    session: str
    invocation: str
    confirmation: str
    again: int = 0
    nth: int = 0
    expired: int = 0
    made: str = ""


class Asked(Value):
    """One person who is asked through one channel, and how the delivery went.

    Attributes:
        person: The id of the person; "" for a place where all who are asked see the card, such as
            a Slack channel.
        channel: ``email``, ``slack``, or the name of a channel of one's own.
        address: Where to, in the channel's terms.
        receipt: What the channel returned, "" until it is delivered.
        problem: Why it could not be delivered, "" while it may still be.
        away: What an out-of-office reply to the card said, "" where none came.
        copy_state: What became of the card since, where the channel can say: ``reconciled``,
            ``updated``, ``lost``.
        copies: Receipts of further copies, which a delivery whose answer was lost has left, or an
            earlier level at which the same person was asked.
        level_key: The level at which this was asked; see `Approval.level_key`.
        shown: How much of the call the card shows.
        bundle: The id of the bundle that lists it in the place of a card of its own, "" for none.
    """

    model_config = BY_NAME_OR_ALIAS

    person: str
    channel: str
    address: str
    receipt: str = ""
    problem: str = ""
    away: str = ""
    copy_state: str = ""
    copies: tuple[str, ...] = ()
    level_key: LevelKey = ""
    shown: Shown = Shown.UNKNOWN
    bundle: str = ""

    @property
    def key(self) -> str:
        """Who this is, among those who are asked through one channel."""
        return self.person or f"#{self.address}"

    def is_for(self, people: Collection[str], level_key: str) -> bool:
        """Say whether it asks one of these people, or all who are asked at this level."""
        return self.person in people if self.person else self.level_key == level_key


class Report(Value):
    """What a program said came of a call.

    Attributes:
        succeeded: Whether the call did what it was to do.
        note: In the program's words, "" where it said none.
        at: When it was reported (UTC).
    """

    succeeded: bool
    note: str = ""
    at: datetime


class Program(Value):
    """The request of a program, which runs the call itself: see the Agent Approval Protocol.

    Attributes:
        instance: The id of the instance that asks (a UUID), "" where it is not notified.
        request: The id of the request in the protocol (a UUID).
        tool: The tool, as the program calls it.
        server: The MCP server that has the tool, "" where none was named.
        arguments: The arguments as they were sent: JSON text with the very digits of its numbers.
        context: What the program said of its circumstances (JSON text), "" where nothing.
        reasoning: What the agent said, None where nothing was sent.
        timeout: The time for a decision, as it was asked for: ``30m``.
        until: From when on it cannot be decided any more (UTC).
        valid_for: How long a yes is good for whose policy does not say.
        consumed_by: The SHA-256 of the key with which the call was started, "" until it is.
        consumed_at: When it was started (UTC).
        report: Its result; None until it is reported.
    """

    instance: str
    request: str
    tool: str
    server: str = ""
    arguments: str
    context: str = ""
    reasoning: str | None = None
    timeout: str
    until: datetime
    valid_for: timedelta
    consumed_by: str = ""
    consumed_at: datetime | None = None
    report: Report | None = None

    def not_started(self, until: datetime) -> Program:
        """Return the request as if its call had not been started; it can be decided until then."""
        update = {"consumed_by": "", "consumed_at": None, "report": None, "until": until}
        return self.model_copy(update=update)


class Decision(Value):
    """The decision that ended an approval.

    Attributes:
        by: The id of the person, or "" when the deadline or the requester ended it.
        at: When (UTC).
        channel: How it came: ``email``, ``cli``, ...
        reason: In the person's own words.
        payload: The values for the tool, following the payload template; None where there is none.
            For a request for input: the answer, as its schema wants it.
        proposal: For a rejection with a proposal: the arguments of the proposed call.
        first_step: The channel of the first step, where it took two; "" where it took one.
        grant: The id of the grant that it follows from; "" where the person was asked.
    """

    by: str = ""
    at: datetime
    channel: str = ""
    reason: str = ""
    payload: JsonValue = None
    proposal: dict[str, JsonValue] | None = None
    first_step: str = ""
    grant: str = ""


class Glass(Value):
    """That somebody whom the policy names has broken the glass; see `Approval.break_glass`.

    Attributes:
        by: The id of the person.
        at: When (UTC).
        channel: How it came.
        reason: In their words.
        despite: The ids of the freezes that do not stop this call.
    """

    by: str
    at: datetime
    channel: str
    reason: str
    despite: tuple[str, ...] = ()


class Assurance(StrEnum):
    """How well it is known who makes a move, when they make it."""

    ACCOUNT = "account"
    """By an account alone: a mailbox, a Slack user, an API token, a session of the page."""
    SECOND_FACTOR = "second_factor"
    """A second factor was given for this very move."""
    TERMINAL = "terminal"
    """Somebody at the terminal of the installation, who can enrol anybody."""

    @property
    def gives_away(self) -> bool:
        """Whether it is enough to give away a decision that takes a second factor."""
        return self is not Assurance.ACCOUNT


class Claim(Value):
    """A decision that one person has reserved for a while.

    Attributes:
        by: The id of the person.
        at: When the claim began (UTC).
        until: When it ends, unless it is released before (UTC).
        since: When it was claimed first (UTC), if it was renewed since.
    """

    by: str
    at: datetime
    until: datetime
    since: datetime | None = None

    @property
    def first(self) -> datetime:
        """When it was claimed first (UTC)."""
        return self.since or self.at


class Sort(StrEnum):
    """What a comment is."""

    COMMENT = "comment"
    QUESTION = "question"
    """To the requester."""
    ANSWER = "answer"
    """Of the requester."""


class Comment(Value):
    """A remark that everybody sees who sees the card.

    Attributes:
        by: The id of the person.
        at: When (UTC).
        text: At most `LONGEST_TEXT` characters.
        sort: A comment, a question to the requester, or the requester's answer.
    """

    by: str
    at: datetime
    text: str
    sort: Sort = Sort.COMMENT


class Extension(Value):
    """Time that was added to a deadline.

    Attributes:
        by: Who added it.
        at: When (UTC).
        more: How much.
        reason: Why.
        level: The index of the level that it was added to.
        round: How often the levels had been gone through then.
    """

    by: str
    at: datetime
    more: timedelta
    reason: str
    level: int = 0
    round: int = 0


class Handover(Value):
    """A seat that went from one person to another.

    Attributes:
        of: The id of the person who had it.
        to: The id of the person who has it now.
        by: The id of the person who handed it over: `of`, or an operator.
        at: When (UTC).
        reason: Why.
    """

    of: str
    to: str
    by: str
    at: datetime
    reason: str


def mark_of(step: Decision) -> str:
    """Return what stands for a first step in a form: 32 letters and digits.

    People confirm what they were shown: another answer that came meanwhile has another mark.
    """
    return hashlib.sha256(step.model_dump_json().encode()).hexdigest()[:32]


def with_cards(asked: Sequence[Asked], fresh: Sequence[Asked], level_key: str) -> tuple[Asked, ...]:
    """Return who is asked once the cards of a level are delivered too.

    People who were asked before by the same channel get another card; the receipt of the first one
    is kept among the copies.

    Args:
        asked: Who was asked before.
        fresh: Who is asked now.
        level_key: The level of the fresh ones; see `Approval.level_key`.
    """
    cards = {(one.key, one.channel): one for one in asked}
    for one in fresh:
        was = cards.get((one.key, one.channel))
        # A bundle is no card of this approval: the others stay listed when it ends.
        card = was.receipt if was is not None and not was.bundle else ""
        copies = (*was.copies, *filter(None, [card])) if was is not None else ()
        cards[one.key, one.channel] = one.model_copy(
            update={"copies": copies, "level_key": level_key}
        )
    return tuple(cards.values())


def words_of(said: str, longest: int = LONGEST_TEXT) -> str:
    """Return what somebody has said as it is kept: the rest is left out."""
    text = said.encode("utf-8", "replace").decode().strip()
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def approval_id(origin: Origin) -> str:
    """Return the id of the approval for one confirmation request: ``ap_`` and 16 letters."""
    text = f"{origin.app}\0{origin.user}\0{origin.session}\0{origin.confirmation}"
    if origin.again:
        text += f"\0{origin.again}"
    if origin.nth:
        text += f"\0#{origin.nth}"
    if origin.expired:
        text += f"\0~{origin.expired}"
    short = base64.b32encode(hashlib.sha256(text.encode()).digest()[:10])
    return "ap_" + short.decode().lower()
