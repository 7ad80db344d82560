"""The parts of an approval: the call, its origin, the approvers, and people's moves."""

import base64
import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Self

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
    """The approval or rejection of a tool call that has not run yet."""
    INPUT = "input"
    """Values for a workflow or a model; its `ToolCall` is the request: message, payload, schema."""
    LONG_RUNNING = "long_running"
    """The result of a tool call that has started and waits for a person's decision."""


class Shown(StrEnum):
    """How much of a call a channel has shown to a person."""

    UNKNOWN = ""
    """The channel does not say, or the card is not known to be delivered."""
    COMPLETE = "complete"
    """The person could read all of it there before approving."""
    CUT = "cut"
    """Some of it was cut, folded or left out: an approval is only possible elsewhere."""


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
        again: How many times people were asked about this call before because it was in doubt.
        nth: How many requests with this id came before it in the session: the nodes of a
            workflow ask under the same id each time they run.
        expired: How many earlier approvals of this call expired or became void.
        made: The digest of the call in the session, if the approval is about another call: code
            is suspended at a call inside of it, or a callback has changed its arguments before
            the tool got them. "" if it is about the call in the session itself.
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
        person: The id of the person; "" for a common card, such as in a Slack channel.
        channel: ``email``, ``slack``, or the name of a custom channel.
        address: The recipient, in the format of the channel.
        receipt: The receipt from the channel, "" until the card is delivered.
        problem: Why the card could not be delivered, "" if there is no problem.
        away: The text of an out-of-office reply to the card, "" if none came.
        copy_state: The state of the card after its delivery, if the channel reports one:
            ``reconciled``, ``updated``, ``lost``.
        copies: Receipts of further copies: from a delivery whose confirmation was lost, or from an
            earlier level at which the same person was asked.
        level_key: The level of the card; see `Approval.level_key`.
        shown: How much of the call the card shows.
        bundle: The id of the bundle that lists the approval instead of a card, "" for none.
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
        """The key that identifies the recipient within the channel."""
        return self.person or f"#{self.address}"

    def is_for(self, people: Collection[str], level_key: str) -> bool:
        """Say whether the card is for one of these people, or is the common card of this level."""
        return self.person in people if self.person else self.level_key == level_key


class Report(Value):
    """A program's report of the result of a call.

    Attributes:
        succeeded: Whether the call succeeded.
        note: The note of the program, "" for none.
        at: When it was reported (UTC).
    """

    succeeded: bool
    note: str = ""
    at: datetime


class Program(Value):
    """The request of a program that runs the call itself; see the Agent Approval Protocol.

    Attributes:
        instance: The id of the instance that asks (a UUID), "" if it is not notified.
        request: The id of the request in the protocol (a UUID).
        tool: The name of the tool in the program.
        server: The MCP server of the tool, "" if none was named.
        arguments: The arguments as they were sent: JSON text with the original digits of numbers.
        context: The context that the program sent (JSON text), "" for none.
        reasoning: The reasoning of the agent, None if none was sent.
        timeout: The requested time for a decision: ``30m``.
        until: The time after which it cannot be decided any more (UTC).
        valid_for: How long an approval is valid if the policy does not say.
        consumed_by: The SHA-256 of the key with which the call was started, "" before the start.
        consumed_at: When the call was started (UTC).
        report: The reported result, None before the report.
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

    def not_started(self, until: datetime) -> Self:
        """Return the request without the start of its call, with another end of its window."""
        update = {"consumed_by": "", "consumed_at": None, "report": None, "until": until}
        return self.model_copy(update=update)


class Decision(Value):
    """The decision that ended an approval.

    Attributes:
        by: The id of the person, or "" if the deadline or the requester ended it.
        at: When it was made (UTC).
        channel: The channel of the decision: ``email``, ``cli``, ...
        reason: The reason in the person's own words.
        payload: The values for the tool, by the payload template; None if there is no template. For
            a request for input: the answer, by its schema.
        proposal: For a rejection with a proposal: the arguments of the proposed call.
        first_step: The channel of the first step if there were two; else "".
        grant: The id of the grant that decided it, "" if no grant did.
        covers: Whether the person's limits cover the values that they entered for arguments.
    """

    by: str = ""
    at: datetime
    channel: str = ""
    reason: str = ""
    payload: JsonValue = None
    proposal: dict[str, JsonValue] | None = None
    first_step: str = ""
    grant: str = ""
    covers: bool = True


class Glass(Value):
    """An emergency override by a person whom the policy names; see `Approval.break_glass`.

    Attributes:
        by: The id of the person.
        at: When (UTC).
        channel: The channel of the override.
        reason: The reason in the person's own words.
        despite: The ids of the freezes that do not stop this call.
    """

    by: str
    at: datetime
    channel: str
    reason: str
    despite: tuple[str, ...] = ()


class Assurance(StrEnum):
    """How well the identity of the person who makes a move is proven."""

    ACCOUNT = "account"
    """Only by an account: a mailbox, a Slack user, an API token, a session of the page."""
    SECOND_FACTOR = "second_factor"
    """By a second factor for this move."""
    TERMINAL = "terminal"
    """By access to the terminal of the installation, where anybody can be enrolled."""

    @property
    def gives_away(self) -> bool:
        """Whether it suffices to hand over a decision that needs a second factor."""
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


class CommentKind(StrEnum):
    """The kind of a comment."""

    COMMENT = "comment"
    QUESTION = "question"
    """A question to the requester."""
    ANSWER = "answer"
    """The requester's answer to a question."""


class Comment(Value):
    """A comment, which everybody who sees the card can read.

    Attributes:
        by: The id of the person.
        at: When (UTC).
        text: At most `LONGEST_TEXT` characters.
        sort: A comment, a question to the requester, or the requester's answer.
    """

    by: str
    at: datetime
    text: str
    sort: CommentKind = CommentKind.COMMENT


class Extension(Value):
    """Time that was added to a deadline.

    Attributes:
        by: The id of the person or operator who added it.
        at: When (UTC).
        more: The time that was added.
        reason: The reason.
        level: The index of the level.
        round: The number of earlier rounds through the levels.
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
        reason: The reason.
    """

    of: str
    to: str
    by: str
    at: datetime
    reason: str


def mark_of(step: Decision) -> str:
    """Return the mark of a first step for a form: 32 letters and digits.

    It ensures that people confirm what they were shown, because a newer answer has another mark.
    """
    return hashlib.sha256(step.model_dump_json().encode()).hexdigest()[:32]


def with_cards(asked: Sequence[Asked], fresh: Sequence[Asked], level_key: str) -> tuple[Asked, ...]:
    """Return all cards of an approval, with those of a new level.

    People who were asked before in the same channel get a new card; the receipt of the old one is
    kept among the copies.

    Args:
        asked: The earlier cards.
        fresh: The cards of the new level.
        level_key: The new level; see `Approval.level_key`.
    """
    cards = {(one.key, one.channel): one for one in asked}
    for one in fresh:
        was = cards.get((one.key, one.channel))
        # A bundle also lists other approvals, so it is not a copy of this approval's card.
        card = was.receipt if was is not None and not was.bundle else ""
        copies = (*was.copies, *filter(None, [card])) if was is not None else ()
        cards[one.key, one.channel] = one.model_copy(
            update={"copies": copies, "level_key": level_key}
        )
    return tuple(cards.values())


def words_of(said: str, longest: int = LONGEST_TEXT) -> str:
    """Return a text as it is stored, cut to a length."""
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
