"""Every error that a user of Signoff can meet.

SignoffError
├── ConfigError                 a setting is missing, wrong, or contradicts another
│   └── ConditionError          the `when` of a policy is not a CEL expression over the known names
├── AbsenceRefused              an absence cannot be noted as it was given
├── ApprovalError
│   ├── ApprovalNotFound
│   ├── IllegalMove             the transition table does not have this move
│   ├── DecisionRefused         the answer of a person does not count
│   │   ├── NotAnApprover       not asked at this level
│   │   ├── OwnRequest          the requester never decides, nor the owner of the agent
│   │   ├── NotYourTurn         others are asked first
│   │   ├── Escalated           the level of the person is over, and another one is asked
│   │   ├── AlreadyDecided
│   │   ├── TooLate             after the deadline, also if no timer has run
│   │   ├── Claimed             somebody else has reserved the decision for a while
│   │   ├── MoveRefused         a claim, a question, … that is not possible, or not theirs
│   │   │   └── SecondFactorNeeded  it gives away a decision that takes a second factor
│   │   ├── NotShownInFull      a yes by a channel that has not shown all of the call
│   │   ├── ProgramRefused      a program cannot do this with its own request
│   │   │   ├── NotStartable    start the call: not approved, consumed, expired
│   │   │   └── ReportRefused   report its result
│   │   ├── SecondStepNeeded    a yes that takes two steps, and one of them is missing
│   │   └── StepChanged         the first step is not the one that is being confirmed
│   ├── GrantNotFound
│   ├── GrantRefused            a grant cannot be given, or has ended already
│   ├── PayloadError            the values do not fit the payload template, or what others said
│   │   └── ReasonNeeded        the policy wants a reason for this answer
│   └── NotCanonical            the arguments have no canonical form, so no digest
├── RunError
│   ├── InvalidRun              what was submitted cannot be a run
│   ├── RunNotFound
│   ├── AppNotFound             no such agent folder, or it does not load
│   ├── SessionGone             the session was deleted, or went on without us
│   ├── DigestMismatch          what was approved is not what would run
│   │   └── CallChanged         it has changed since it was asked about, and is asked about again
│   ├── ApprovalExpired         the yes is older than it is good for
│   ├── ReceiptRefused          nothing proves that the yes was given
│   ├── PauseNotRoutable        the agent waits for something that no approver can give
│   ├── InputRefused            a request for input was rejected, and has no way to be told so
│   ├── ToolInDoubt             started, and not seen to finish
│   ├── TurnLost                a worker died in a turn that cannot be taken up
│   ├── AnswerNotTaken          the agent was given an answer, and has not gone on from it
│   └── RemoteError             an ADK API server refuses, or says what cannot be read
│       └── RemoteUnavailable   it is away, busy or too slow: tried again
├── LedgerError
│   ├── LedgerUnavailable       Redis cannot be reached, or refuses
│   ├── Conflict                somebody else changed the record first
│   ├── LeaseLost               the work was handed to somebody else meanwhile
│   ├── Frozen                  `signoff freeze` has stopped the tool
│   ├── FreezeRefused           it is frozen already, or is not
│   ├── CannotSign              a process without the private key is to decide
│   ├── KeyUnknown              a receipt is signed with a key that is not here
│   ├── RecordUnreadable        a record does not hold what this version can read
│   ├── AuditBroken             an entry of the audit chain was changed, added or removed
│   ├── ArchiveBroken           a file of the archive is missing, changed or not the ledger's
│   ├── NotArchived             nothing in the archive has this id
│   ├── ErasureRefused          somebody's data is still needed
│   ├── BackupRefused           a backup cannot be made, read, or restored there
│   └── SessionsNotMoved        ADK's sessions cannot be moved into Redis now
├── AccessError
│   ├── InvalidToken            nobody may have such an API token
│   └── TokenNotFound           no API token has this id
├── MailError
│   ├── UnreadableMail
│   │   ├── MailTooLarge
│   │   └── MailTooCostly       reading it took too long, or too much memory
│   ├── NotInQuarantine         no mail in quarantine has this id
│   ├── MailDeferred            try again later
│   │   └── MailThrottled       there was nothing wrong with it, but too much of it
│   ├── MailRefused             no use in trying again
│   └── MailboxError            the mailbox that answers come to cannot be read
│       ├── MailboxUnavailable  its server is away, or hung up: tried again
│       └── MailboxRefused      login, token or folder: somebody has to see to it
└── SlackError
    ├── SlackPayloadUnreadable  what came is not what Slack documents
    ├── SlackDeferred           a limit, an outage: try again later
    └── SlackRefused            no use in trying again

Each message says what happened, to which approval or setting, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pydantic import JsonValue

    from signoff.core.base.freezes import Freeze


class SignoffError(Exception):
    """The root of the tree above; catch it to catch all."""


class ConfigError(SignoffError):
    """A setting is missing, wrong, or contradicts another one.

    Args:
        message: What is wrong and what to do.
        key: The setting, as it is written in signoff.toml (``policies[0].when``).
    """

    def __init__(self, message: str, *, key: str = "") -> None:
        super().__init__(f"{key}: {message}" if key else message)
        self.key = key


class ConditionError(ConfigError):
    """The ``when`` of a policy is not a CEL expression over the known names."""


class AbsenceRefused(SignoffError):
    """An absence cannot be noted as it was given. The message can be shown to the person."""


class ApprovalError(SignoffError):
    """Something about one approval."""


class ApprovalNotFound(ApprovalError):
    """No approval has this id."""

    def __init__(self, approval_id: str) -> None:
        super().__init__(
            f"There is no approval {approval_id!r}. "
            "`signoff approvals list --all` shows all of them, `signoff archive show` those that "
            "were archived."
        )


class IllegalMove(ApprovalError):
    """The transition table does not have this move from this state."""


class DecisionRefused(ApprovalError):
    """The answer of a person does not count. The message can be shown to that person."""


class NotAnApprover(DecisionRefused):
    """The person is not among those who are asked at this level."""


class OwnRequest(DecisionRefused):
    """The person has asked for this, or owns the agent that asks."""


class NotYourTurn(DecisionRefused):
    """The policy asks one after the other, and it is somebody else's turn."""


class Escalated(DecisionRefused):
    """The level at which the person was asked is over; it went on to another one."""


class AlreadyDecided(DecisionRefused):
    """The approval has been decided before."""


class TooLate(DecisionRefused):
    """The answer came after the deadline."""


class Claimed(DecisionRefused):
    """Somebody else has reserved the decision.

    Args:
        message: Who has, and until when.
        until: When the claim ends (UTC).
    """

    def __init__(self, message: str, *, until: datetime) -> None:
        super().__init__(message)
        self.until = until


class MoveRefused(DecisionRefused):
    """What was wanted, short of a decision, is not possible, or not for this person to do."""


class SecondFactorNeeded(MoveRefused):
    """The move gives away a decision that takes a second factor, and none was given for it."""


class NotShownInFull(DecisionRefused):
    """A yes came by a channel that has not shown all of the call to the person who gave it."""


class ProgramRefused(DecisionRefused):
    """A program cannot do this with its own request.

    Args:
        message: Why not.
        code: The reason, as the Agent Approval Protocol names it.
    """

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class NotStartable(ProgramRefused):
    """A program may not start the call that it asks about."""


class ReportRefused(ProgramRefused):
    """What a program reports cannot be noted."""


class SecondStepNeeded(DecisionRefused):
    """A yes takes two steps here, and one of them is missing or cannot be taken this way."""


class StepChanged(DecisionRefused):
    """The person gave another answer after the one that is being confirmed was shown."""


class GrantNotFound(ApprovalError):
    """No grant has this id."""

    def __init__(self, grant_id: str) -> None:
        super().__init__(
            f"There is no grant {grant_id!r}. `signoff grants list --all` shows all of them."
        )


class GrantRefused(ApprovalError):
    """A grant cannot be given, or has ended. The message can be shown to anyone who wants it."""


class PayloadError(ApprovalError):
    """The values do not fit the payload template.

    Args:
        message: What is wrong, in words for the person who answered.
        key: The field, or "" when it is about the whole payload.
        read: What was read.
        example: A line that would have worked.
    """

    def __init__(self, message: str, *, key: str, read: str, example: str) -> None:
        super().__init__(message)
        self.key = key
        self.read = read
        self.example = example


class ReasonNeeded(PayloadError):
    """The policy wants a reason for this answer, and there is none."""


class NotCanonical(ApprovalError):
    """The arguments of the call cannot be brought into canonical JSON (RFC 8785)."""


class RunError(SignoffError):
    """Something about one run of an agent."""


class InvalidRun(RunError):
    """What was submitted cannot be a run: an empty message, or an id with forbidden characters."""


class RunNotFound(RunError):
    """No run has this id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"There is no run {run_id!r}. `signoff runs list` shows all of them, and `signoff "
            "archive show` those that were archived."
        )


class AppNotFound(RunError):
    """There is no such agent folder, or it does not load."""


class SessionGone(RunError):
    """The session was deleted, or went on without us."""


class DigestMismatch(RunError):
    """The call in the session's history is not the one that was shown and approved."""


class CallChanged(DigestMismatch):
    """A call would run otherwise than it was approved; it was not started, and is asked again.

    Args:
        approval: The id of the approval.
        why: What has changed, as a sentence.
        arguments: What it would run with.
        agent: The agent that would call it.
        declared: What the tool declares by now.
        made: The digest of the call in the session; see `Origin.made`.
    """

    def __init__(
        self,
        approval: str,
        why: str,
        *,
        arguments: Mapping[str, JsonValue],
        agent: str,
        declared: str,
        made: str,
    ) -> None:
        super().__init__(f"Approval {approval}: {why} It was not run.")
        self.approval = approval
        self.why = why
        self.arguments = dict(arguments)
        self.agent = agent
        self.declared = declared
        self.made = made


class ApprovalExpired(RunError):
    """The yes to a call is older than it is good for; the call was not started."""


class ReceiptRefused(RunError):
    """Nothing proves that a yes was given; the call was not started."""


class PauseNotRoutable(RunError):
    """The agent waits for something that no approver can give, such as a credential."""


class InputRefused(RunError):
    """A request for input was not answered, and its schema has no way to say no."""


class ToolInDoubt(RunError):
    """The tool was started by a worker that was not seen to finish it."""


class TurnLost(RunError):
    """A worker died in the middle of a turn, and the agent cannot go on from there."""


class AnswerNotTaken(RunError):
    """The agent was given an answer, and has not gone on from it: the tool was not run."""


class RemoteError(RunError):
    """The API server of a remote agent refuses, or says what cannot be read.

    Args:
        message: What it was asked, where, and what it said.
        fate: What became of the request: ``unsent`` if it never left, ``answered`` if the server
            itself has ended it, ``unknown`` if the server may still be working at it.
    """

    def __init__(
        self, message: str, *, fate: Literal["unsent", "answered", "unknown"] = "answered"
    ) -> None:
        super().__init__(message)
        self.fate = fate


class RemoteUnavailable(RemoteError):
    """The API server of a remote agent is away, busy or too slow; trying again is right."""


class LedgerError(SignoffError):
    """Something about the ledger in Redis."""


class LedgerUnavailable(LedgerError):
    """Redis cannot be reached, or refuses the command."""


class Conflict(LedgerError):
    """Somebody else changed the record first: read again and decide again."""


class LeaseLost(LedgerError):
    """The lease ran out and the work was handed to somebody else."""


class Frozen(LedgerError):
    """A tool was not started because `signoff freeze` has stopped it.

    Args:
        freeze: What stops it.
        tool: The tool.
    """

    def __init__(self, freeze: Freeze, tool: str = "") -> None:
        super().__init__(
            f"{freeze.by} has frozen {freeze.stops}: {freeze.why}. What waits goes on after "
            "`signoff thaw`."
        )
        self.freeze = freeze
        self.tool = tool


class FreezeRefused(LedgerError):
    """Something cannot be frozen because it is, or thawed because it is not."""


class CannotSign(LedgerError):
    """A process that has no private key is to decide; nothing was done."""


class KeyUnknown(LedgerError):
    """A receipt is signed with a key that is not among the public keys of this process."""


class RecordUnreadable(LedgerError):
    """A record does not hold what this version can read."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"The record {key} cannot be read: {problem}. If a newer version of Signoff wrote it, "
            "upgrade this process too; nothing about it is changed until then."
        )
        self.key = key


class AuditBroken(LedgerError):
    """An entry of the audit chain was changed, added or removed.

    Args:
        entry: The stream id of the first entry that does not fit.
    """

    def __init__(self, message: str, *, entry: str) -> None:
        super().__init__(message)
        self.entry = entry


class ArchiveBroken(LedgerError):
    """A file of the archive is missing, was changed, or is not one that the ledger knows."""


class NotArchived(LedgerError):
    """Nothing in the archive has this id."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            f"The archive has no run and no approval {subject!r}. `signoff archive list` shows all "
            "of them."
        )


class ErasureRefused(LedgerError):
    """Somebody's data cannot be erased yet: something still waits for them, or is theirs."""


class BackupRefused(LedgerError):
    """A backup cannot be made or read, or the Redis that it goes into is not empty."""


class SessionsNotMoved(LedgerError):
    """There is nothing to move, somebody uses the sessions, or their file cannot be read."""


class AccessError(SignoffError):
    """Something about one API token."""


class InvalidToken(AccessError):
    """Nobody may have such a token: it would decide for nobody, or ask and answer at once."""


class TokenNotFound(AccessError):
    """No API token has this id."""

    def __init__(self, token_id: str) -> None:
        super().__init__(
            f"There is no API token {token_id!r}. `signoff tokens list` shows all of them."
        )


class MailError(SignoffError):
    """Something about one mail."""


class UnreadableMail(MailError):
    """The message cannot be parsed."""


class MailTooLarge(UnreadableMail):
    """The message is over one of the caps on size, depth or number of parts."""


class MailTooCostly(UnreadableMail):
    """Reading the message took too much time or memory, and was broken off."""


class NotInQuarantine(MailError):
    """No mail in quarantine has this id, or several have."""


class MailDeferred(MailError):
    """The mail server could not take the message now; trying again later is right."""


class MailThrottled(MailDeferred):
    """The server wants less mail, or it is not this mail's turn yet."""


class MailRefused(MailError):
    """The mail server will never take this message for this recipient."""


class MailboxError(MailError):
    """The mailbox that answers come to cannot be read."""


class MailboxUnavailable(MailboxError):
    """The server of the mailbox, or of its tokens, is away or hung up; trying again is right."""


class MailboxRefused(MailboxError):
    """The server of the mailbox refuses the login, the token or the folder.

    It is tried again too, but somebody has to see to it.
    """


class SlackError(SignoffError):
    """Something about one message or click in Slack."""


class SlackPayloadUnreadable(SlackError):
    """What was sent to us is not what Slack documents. Nothing was done."""


class SlackDeferred(SlackError):
    """Slack cannot do it now; trying again later is right.

    Args:
        message: What was asked, and the result.
        after: Seconds that Slack wishes us to wait, 0 where it does not say.
        unsure: Whether it may have been done all the same, because the answer was lost.
        limited: Whether it was only too much at once: nothing is wrong, and nothing was done.
    """

    def __init__(
        self, message: str, *, after: float = 0, unsure: bool = False, limited: bool = False
    ) -> None:
        super().__init__(message)
        self.after = after
        self.unsure = unsure
        self.limited = limited


class SlackRefused(SlackError):
    """Slack will never do it.

    Args:
        message: What was asked, what Slack said, what to do.
        code: Slack's own word for it, such as ``channel_not_found``.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code
