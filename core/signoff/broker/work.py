"""The work in the outboxes: one model for each kind, with its stage and its id.

The id of an item is derived from its cause, so that the same cause adds the same work only once. A
message that is delivered twice has the same id both times.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from signoff.broker import stages
from signoff.broker.old_work import for_last_release, known_now, of_last_release
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.milestones import Milestone
from signoff.core.base.errors import RecordUnreadable
from signoff.core.base.model import BY_NAME_OR_ALIAS, Value
from signoff.core.policies.levels import LevelKey


class _Work(Value):
    """Work of a stage.

    Attributes:
        stage_name: The stage, if all work of this kind has the same.
        id_pattern: The pattern of its id, with fields in braces. There is one item for each id.
    """

    model_config = BY_NAME_OR_ALIAS

    stage_name: ClassVar[str]
    id_pattern: ClassVar[str]

    @property
    def stage(self) -> str:
        """The stage that does it."""
        return self.stage_name

    @property
    def id(self) -> str:
        """The id, which is derived from the cause."""
        return self.id_pattern.format_map(self.__dict__)

    @property
    def body(self) -> dict[str, Any]:
        """The form in which an outbox stores it as JSON."""
        fields = self.model_dump(mode="json")
        return for_last_release(fields) | fields


# -- route -------------------------------------------------------------------------------------


class _Routing(_Work):
    """Work of the stage `route`."""

    stage_name: ClassVar[str] = stages.ROUTE
    approval: str


class RouteApproval(_Routing):
    """Choose the approvers of an approval that was opened."""

    work: Literal["route_approval"] = "route_approval"
    id_pattern: ClassVar[str] = "route:{approval}"


class ApproveEdit(_Routing):
    """Approve a call that its approver has proposed, or ask people if that is not possible."""

    work: Literal["approve_edit"] = "approve_edit"
    id_pattern: ClassVar[str] = "edit:{approval}"


class AskLevel(_Routing):
    """Deliver the cards that are missing at a level.

    Attributes:
        level_key: The level; see `Asked.level_key`.
        votes: The number of votes; in a sequence, each vote leads to the next person.
    """

    work: Literal["ask_level"] = "ask_level"
    id_pattern: ClassVar[str] = "level:{approval}:{level_key}:{votes}"
    level_key: LevelKey
    votes: int


class RemindLevel(_Routing):
    """Remind the approvers of a level who have not answered.

    Attributes:
        level_key: The level.
        nth: The number of the reminder at this level, from 1.
    """

    work: Literal["remind"] = "remind"
    id_pattern: ClassVar[str] = "remind:{approval}:{level_key}:{nth}"
    level_key: LevelKey
    nth: int


class AskOthers(_Routing):
    """Ask by another channel, at the next level, or the default: too few people can answer."""

    work: Literal["ask_others"] = "ask_others"
    level_key: LevelKey

    @property
    def id(self) -> str:
        """One for each level."""
        return _joined("route", self.approval, "again", self.level_key)


class AskElsewhere(_Routing):
    """Ask by another channel too: the first one has not taken a card for a while.

    Attributes:
        level_key: The level.
        person: The recipient of the card; see `Asked.key`.
    """

    work: Literal["ask_elsewhere"] = "ask_elsewhere"
    level_key: LevelKey
    person: str

    @property
    def id(self) -> str:
        """One for each card."""
        return _joined("elsewhere", self.approval, self.person, self.level_key)


class StaffPhase(_Routing):
    """Ask the default: the next phase of the policy has nobody to ask."""

    work: Literal["staff_stage"] = "staff_stage"
    id_pattern: ClassVar[str] = "unmanned:{approval}:{level_key}"
    level_key: LevelKey


class RescuePoisoned(_Routing):
    """Ask the default: the timers cannot move an approval on.

    Attributes:
        problem: Why they cannot.
        tries: How often they have tried.
    """

    work: Literal["rescue_poisoned"] = "rescue_poisoned"
    id_pattern: ClassVar[str] = "stuck:{approval}:{tries}"
    problem: str
    tries: int


class TellMove(_Routing):
    """Tell the people concerned about a move that decides nothing: a question, a reassignment, ...

    Attributes:
        move: The kind of the event.
        by: The id of the person who made the move.
        reason: The reason in the person's own words.
        more: Further details of the event.
        version: The version of the approval after the move.
    """

    work: Literal["tell_move"] = "tell_move"
    id_pattern: ClassVar[str] = "moved:{approval}:{move}:{version}"
    move: What
    by: str
    reason: str = ""
    more: dict[str, JsonValue] = Field(default_factory=dict)
    version: int

    @classmethod
    def of(cls, event: Event, *, version: int) -> Self:
        """Return the work for the event of a move."""
        return cls(
            approval=event.approval,
            move=event.what,
            by=event.by,
            reason=event.why,
            more=event.more,
            version=version,
        )


class AnnounceMilestone(_Routing):
    """Notify people who do not decide: the requester and the people to inform.

    Attributes:
        milestone: What has happened.
        level_key: The level at which it happened.
        remarks: The agent's last words.
        problem: Why the call could not be carried out.
    """

    work: Literal["announce_milestone"] = "announce_milestone"
    milestone: Milestone
    level_key: Annotated[str, Field(alias="of_turn")] = ""  # as the last release calls it
    remarks: str = ""
    problem: str = ""

    @property
    def id(self) -> str:
        """One for each milestone, and for each level if it has a level."""
        return _joined("milestone", self.approval, self.milestone, self.level_key)


# -- deliver.<channel> -------------------------------------------------------------------------


class Bundling(StrEnum):
    """Whether a card is listed in a bundle with others; see `SendBundle`."""

    UNDECIDED = ""
    WAITS = "waits"
    ALONE = "alone"


class _ByChannel(_Work):
    """Work of the stage that delivers through one channel.

    Attributes:
        channel: The channel.
        person: The recipient; see `Asked.key`.
        failed: How many attempts, counted from the first, have certainly delivered nothing.
    """

    channel: str
    person: str
    failed: int = 0

    @property
    def stage(self) -> str:
        """The stage that does it."""
        return stages.deliver(self.channel)


class AnyDelivery(_ByChannel):
    """Work on the card of one approval, or on another message about it."""

    approval: str


class SendCard(AnyDelivery):
    """Ask a person.

    Attributes:
        level_key: The level at which they are asked.
        token: The secret token that allows an answer, "" if the channel needs no token.
        held: Whether the audit has recorded that it waits for the person's working hours.
        bundling: Whether it waits to be listed with others, or is always sent alone.
        waits_since: When the channel did not take it for the first time (UTC).
        elsewhere: Whether the person is asked by another channel too, as this one takes so long.
    """

    work: Literal["send_card"] = "send_card"
    level_key: LevelKey = ""
    token: str = ""
    held: bool = False
    bundling: Bundling = Bundling.UNDECIDED
    waits_since: datetime | None = None
    elsewhere: bool = False

    @property
    def id(self) -> str:
        """One for each person and level."""
        return card_id(self.approval, self.person, self.level_key)


class UpdateCard(AnyDelivery):
    """Rewrite an open card with the current approval.

    Attributes:
        level_key: The level of the card.
        version: The version of the approval before the change that the card is to show.
        cause: What the card is to show besides, such as the id of a freeze; "" for nothing.
    """

    work: Literal["update_card"] = "update_card"
    level_key: LevelKey = ""
    version: int
    cause: str = ""

    @property
    def id(self) -> str:
        """One for each version of the approval, and for each further cause."""
        return _joined(f"update:{self.approval}:{self.person}:{self.version}", self.cause)


class CloseCard(AnyDelivery):
    """Rewrite a card: the approval has ended.

    Attributes:
        corrects: The id of an update that was delivered while the approval ended, "" for none.
    """

    work: Literal["close_card"] = "close_card"
    corrects: str = ""

    @property
    def id(self) -> str:
        """One for each person, and for each update that it corrects."""
        return f"outcome:{self.corrects or f'{self.approval}:{self.person}'}"


class CloseLevel(AnyDelivery):
    """Rewrite a card: other people are asked now.

    Attributes:
        level_key: The level of the card.
        corrects: The id of an update that was delivered while the level ended, "" for none.
    """

    work: Literal["close_level"] = "close_level"
    level_key: LevelKey = ""
    corrects: str = ""

    @property
    def id(self) -> str:
        """One for each person and level, and for each update that it corrects."""
        return f"moved:{self.corrects or f'{self.approval}:{self.person}:{self.level_key}'}"


class ReportFailure(AnyDelivery):
    """Tell the person who decided that the decision did not reach the agent."""

    work: Literal["report_failure"] = "report_failure"
    id_pattern: ClassVar[str] = "unheard:{approval}:{person}"
    problem: str


class ReportResult(AnyDelivery):
    """Tell the person who decided what the agent did afterwards."""

    work: Literal["report_result"] = "report_result"
    id_pattern: ClassVar[str] = "end:{approval}:{person}"
    remarks: str = ""


class SendStatus(AnyDelivery):
    """Notify a person who does not decide of the status of an approval.

    Attributes:
        milestone: What has happened.
        level_key: The level at which it happened.
        requests: Whether the recipient is the requester.
        address: The address; "" for the one in the directory.
        until_done: Whether the same person is also notified when the call is done.
        mailed: Whether the person is notified by mail as well.
        remarks: The agent's last words.
        problem: Why the call could not be carried out.
    """

    work: Literal["send_status"] = "send_status"
    milestone: Milestone
    level_key: Annotated[str, Field(alias="of_turn")] = ""  # as the last release calls it
    requests: bool = False
    address: str = ""
    until_done: bool = False
    mailed: bool = False
    remarks: str = ""
    problem: str = ""

    @property
    def id(self) -> str:
        """One for each person and milestone, and for each level if it has a level."""
        return _joined("status", self.approval, self.person, self.milestone, self.level_key)


class _Message(AnyDelivery):
    """A separate message, besides the card.

    Attributes:
        headline: A summary in one line.
        text: The text; paragraphs are separated by blank lines.
        example: An answer that would work, "" for none.
        offers: The word of an answer for which the channel can show a button, "" for none.
        token: The secret token that allows an answer, "" if no answer is expected.
        reply_to: The channel's id of the person's message that it answers, "" for none.
        address: The recipient, in the format of the channel; "" for the address of the card.
    """

    headline: str
    text: str = ""
    example: str = ""
    offers: str = ""
    token: str = ""
    reply_to: str = ""
    address: str = ""


class SendReminder(_Message):
    """Remind a person below their card.

    Attributes:
        level_key: The level.
        nth: The reminder of the level: ``2``, or ``now-7`` for a manual one.
        bundling: See `SendCard`.
    """

    work: Literal["send_reminder"] = "send_reminder"
    id_pattern: ClassVar[str] = "remind:{approval}:{person}:{level_key}:{nth}"
    level_key: LevelKey
    nth: str
    bundling: Bundling = Bundling.UNDECIDED


class _CausedMessage(_Message):
    """A message that is sent once for each cause."""

    id_pattern: ClassVar[str] = "notice:{cause}"
    cause: str


class SendNotice(_CausedMessage):
    """Tell a person something."""

    work: Literal["send_notice"] = "send_notice"


class AskRequester(_CausedMessage):
    """Ask the requester a question, or reply to the requester."""

    work: Literal["ask_requester"] = "ask_requester"


class Listed(Value):
    """One of several approvals in a bundle.

    Attributes:
        approval: The id of the approval.
        level_key: The level at which the person is asked.
    """

    model_config = BY_NAME_OR_ALIAS

    approval: str
    level_key: LevelKey = ""


class BundleKind(StrEnum):
    """What a bundle replaces."""

    CARDS = "cards"
    """A card for each approval."""
    REMINDERS = "reminders"
    """A reminder for each approval."""
    ANSWER = "answer"
    """Nothing: a person replied to a bundle, and it is not clear which approval they mean."""


class _List(_ByChannel):
    """Work on one message that lists several approvals."""

    bundle: str


class SendBundle(_List):
    """Ask a person about several approvals with one message.

    Attributes:
        purpose: What it replaces.
        listed: The approvals.
        address: The recipient, in the format of the channel.
        token: The secret token in an answer to it, which decides nothing; "" if the channel needs
            no token.
        reply_to: The channel's id of the person's message that it answers, "" for none.
        cause: What it answers, "" if it is not an answer.
        waits_since: See `SendCard`.
        elsewhere: See `SendCard`.
    """

    work: Literal["send_bundle"] = "send_bundle"
    purpose: BundleKind = BundleKind.CARDS
    listed: tuple[Listed, ...]
    address: str
    token: str = ""
    reply_to: str = ""
    cause: str = ""
    waits_since: datetime | None = None
    elsewhere: bool = False

    @property
    def id(self) -> str:
        """One for each bundle, and for each answer to it."""
        return _joined("bundle", self.bundle, self.cause)


class UpdateBundle(_List):
    """Rewrite a bundle: one of its approvals has ended or escalated.

    Attributes:
        cause: The id of the item that would have rewritten a separate card.
    """

    work: Literal["update_bundle"] = "update_bundle"
    id_pattern: ClassVar[str] = "list:{cause}"
    cause: str


def card_id(approval: str, person: str, level_key: str) -> str:
    """Return the id of the delivery of a card; each level has its own cards."""
    return _joined("card", approval, person, level_key)


# -- the other stages --------------------------------------------------------------------------


class ReadMail(_Work):
    """Read an incoming mail, and do what it says."""

    work: Literal["read_mail"] = "read_mail"
    stage_name: ClassVar[str] = stages.INTAKE
    id_pattern: ClassVar[str] = "{mail}"
    mail: str


class MailLink(_Work):
    """Mail a link to sign in, if a person has this address.

    Attributes:
        request: The id of the request, a random text.
        address: The address that was typed, normalised.
        to: The path of the page that opens after the sign-in.
        bound: The hash of the cookie of the browser that asked.
        browser: The name of that browser.
        asked: When the link was requested (UTC).
    """

    work: Literal["mail_link"] = "mail_link"
    stage_name: ClassVar[str] = stages.SIGN_IN
    id_pattern: ClassVar[str] = "link:{request}"
    request: str
    address: str
    to: str
    bound: str
    browser: str
    asked: datetime


class SendPush(_Work):
    """Notify a person's browsers that requests wait for them.

    Attributes:
        person: The id of the person.
        approvals: The ids of the approvals.
        cause: The id of the delivery to which it belongs.
        again: Whether it is a reminder.
        left: The ids of the subscriptions that have not received it; empty for all.
    """

    work: Literal["send_push"] = "send_push"
    stage_name: ClassVar[str] = stages.PUSH
    id_pattern: ClassVar[str] = "push:{cause}:{person}"
    person: str
    approvals: tuple[str, ...]
    cause: str
    again: bool = False
    left: tuple[str, ...] = ()


class PostWebhook(_Work):
    """Post an event to a webhook.

    Attributes:
        hook: The name of the webhook.
        entry: The id of the audit entry.
        message: The message to post.
    """

    work: Literal["post_webhook"] = "post_webhook"
    id_pattern: ClassVar[str] = "{entry}"
    hook: str
    entry: str
    message: dict[str, JsonValue]

    @property
    def stage(self) -> str:
        """The stage that does it."""
        return stages.webhook(self.hook)


class _OfProgram(_Work):
    """Work on the request of a program."""

    stage_name: ClassVar[str] = stages.AAP
    approval: str


class NotifyReceiver(_OfProgram):
    """Tell the receiver of a program's instance that its request has been decided."""

    work: Literal["notify_receiver"] = "notify_receiver"
    id_pattern: ClassVar[str] = "notify:{approval}"


class DoubtCall(_OfProgram):
    """Put the call of a program in doubt, if its result is not reported in time."""

    work: Literal["doubt_call"] = "doubt_call"
    id_pattern: ClassVar[str] = "doubt:{approval}"


class CancelRequests(_Work):
    """Withdraw the pending requests of a deleted instance of a program."""

    work: Literal["cancel_requests"] = "cancel_requests"
    stage_name: ClassVar[str] = stages.AAP
    id_pattern: ClassVar[str] = "cancel:{instance}"
    instance: str


class StartRun(_Work):
    """Start a run."""

    work: Literal["start_run"] = "start_run"
    id_pattern: ClassVar[str] = "{run}"
    app: str
    run: str  # the script `claim_runs` reads this

    @property
    def stage(self) -> str:
        """The stage that does it."""
        return stages.run(self.app)


class ResumeRun(_Work):
    """Resume a run whose pause was answered.

    Attributes:
        app: The app.
        run: The id of the run.
        pause: The number of the pause, from 1.
    """

    work: Literal["resume_run"] = "resume_run"
    id_pattern: ClassVar[str] = "{run}:{pause}"
    app: str
    run: str  # the script `claim_runs` reads this
    pause: int

    @property
    def stage(self) -> str:
        """The stage that does it."""
        return stages.resume(self.app)


Closing = CloseCard | CloseLevel | ReportFailure | ReportResult
"""Changes of a delivered card, or messages below it."""

Notice = SendReminder | SendNotice | AskRequester
"""Separate messages."""

DeliveryWork = SendCard | UpdateCard | Closing | SendStatus | Notice

BundleWork = SendBundle | UpdateBundle

RouteWork = (
    RouteApproval
    | ApproveEdit
    | AskLevel
    | RemindLevel
    | AskOthers
    | AskElsewhere
    | StaffPhase
    | RescuePoisoned
    | TellMove
    | AnnounceMilestone
)


class Purpose(StrEnum):
    """The purpose of a delivery."""

    ASK = "ask"
    """Ask or remind a person whose answer is awaited."""
    REPLY = "reply"
    """Tell a person the effect of their own message or click."""
    UPDATE = "update"
    """Rewrite an open card that was delivered."""
    INFORM = "inform"
    """Inform a person who does not have to act. It is never urgent."""


def purpose_of(work: DeliveryWork) -> Purpose:
    """Return the purpose of a delivery.

    A closed card informs, because a channel that cannot rewrite cards sends a message instead.
    """
    match work:
        case SendCard() | SendReminder() | AskRequester():
            return Purpose.ASK
        case SendNotice():
            return Purpose.REPLY
        case UpdateCard():
            return Purpose.UPDATE
    return Purpose.INFORM


ProgramWork = NotifyReceiver | DoubtCall | CancelRequests

Work = (
    RouteWork
    | DeliveryWork
    | BundleWork
    | ReadMail
    | MailLink
    | SendPush
    | PostWebhook
    | ProgramWork
    | StartRun
    | ResumeRun
)

_ANY: Final[TypeAdapter[Work]] = TypeAdapter(
    Annotated[Work, Field(discriminator="work")], config=ConfigDict(defer_build=True)
)


def read_work(stage: str, item_id: str, body: Mapping[str, Any]) -> Work:
    """Return the work of an item.

    Args:
        stage: The stage whose outbox has the item.
        item_id: The id of the item.
        body: The stored form.

    Raises:
        RecordUnreadable: This version cannot read it, or it belongs to another stage.
    """
    try:
        known = "work" in body
        fields = known_now(body) if known else of_last_release(stage, item_id, body)
        # Fields of a later version stay in the body, which is put back unchanged.
        work = _ANY.validate_python(fields, extra="ignore" if known else None)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise RecordUnreadable(f"items:{stage} {item_id}", f"{where}: {first['msg']}") from error
    if work.stage != stage:
        raise RecordUnreadable(f"items:{stage} {item_id}", f"it is work of the stage {work.stage}")
    return work


def _joined(*parts: str) -> str:
    return ":".join(filter(None, parts))
