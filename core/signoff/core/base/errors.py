"""Every error that a user of Signoff can meet.

SignoffError
├── ConfigError                 a setting is missing, wrong, or contradicts another
│   └── ConditionError          the `when` of a policy is not a CEL expression over the known names
├── AbsenceRefused              an absence cannot be set
├── ApprovalError
│   ├── ApprovalNotFound
│   ├── IllegalMove             the transition table does not have this move
│   ├── DecisionRefused         a person's answer does not count
│   │   ├── NotAnApprover       not asked at this level
│   │   ├── OwnRequest          the requester and the owner of the agent never decide
│   │   ├── NotYourTurn         others are asked first
│   │   ├── Escalated           the person's level has ended, and another one is asked
│   │   ├── AlreadyDecided
│   │   ├── TooLate             after the deadline, even if no timer has run
│   │   ├── Claimed             somebody else has claimed the decision
│   │   ├── MoveRefused         a claim, a question, … that is not possible or not allowed
│   │   │   └── SecondFactorNeeded  it hands over a decision that needs a second factor
│   │   ├── NotShownInFull      an approval by a channel that did not show the whole call
│   │   ├── ProgramRefused      a program cannot do this with its own request
│   │   │   ├── NotStartable    start the call: not approved, consumed, expired
│   │   │   └── ReportRefused   report its result
│   │   ├── SecondStepNeeded    an approval needs two steps, and one of them is missing
│   │   └── StepChanged         the first step has changed since it was shown
│   ├── GrantNotFound
│   ├── GrantRefused            a grant cannot be given, or has ended already
│   ├── PayloadError            the values do not fit the template, or those of other approvers
│   │   ├── ReasonNeeded        the policy requires a reason for this answer
│   │   └── ReasonContradicts   the reason of an approval reads like no plain yes
│   └── NotCanonical            the arguments have no canonical form, so no digest
├── RunError
│   ├── InvalidRun              the submitted run is invalid
│   ├── RunNotFound
│   ├── SubjectNotFound         no approval and no run has this id
│   ├── AppNotFound             no such agent folder, or it does not load
│   ├── SessionGone             the session was deleted, or continued without Signoff
│   │   └── CallGone            the call of an approval was removed or changed in the session
│   ├── DigestMismatch          the call that would run is not the approved one
│   │   └── CallChanged         the call has changed since; people are asked again
│   ├── ApprovalExpired         the approval is not valid any more
│   ├── ReceiptRefused          no valid receipt proves the approval
│   ├── PauseNotRoutable        the agent waits for something that no approver can give
│   ├── InputRefused            a request for input was rejected, and its schema has no such answer
│   ├── ToolInDoubt             a tool was started and not seen to finish
│   ├── TurnLost                a worker died in a turn that cannot be resumed
│   ├── AnswerNotTaken          the agent got an answer and did not continue
│   └── RemoteError             an ADK API server refuses, or its response cannot be read
│       └── RemoteUnavailable   it is down, busy or too slow; Signoff tries again
├── LedgerError
│   ├── LedgerUnavailable       Redis cannot be reached, or refuses
│   ├── Conflict                somebody else changed the record first
│   ├── LeaseLost               the lease has expired, and another process has the work
│   ├── Frozen                  `signoff freeze` has stopped the tool
│   ├── FreezeRefused           it is already frozen, or is not frozen
│   ├── CannotSign              this process has no private key for receipts
│   ├── KeyUnknown              a receipt is signed with an unknown key
│   ├── RecordUnreadable        this version cannot read a record
│   ├── AuditBroken             an entry of the audit chain was changed, added or removed
│   ├── ArchiveBroken           a file of the archive is missing, changed or unknown to the ledger
│   ├── NotArchived             nothing in the archive has this id
│   ├── ErasureRefused          somebody's data is still needed
│   ├── BackupRefused           a backup cannot be made, read, or restored there
│   └── SessionsNotMoved        ADK's sessions cannot be moved into Redis now
├── AccessError
│   ├── InvalidToken            an API token with these rights is not allowed
│   └── TokenNotFound           no API token has this id
├── MailError
│   ├── UnreadableMail
│   │   ├── MailTooLarge
│   │   └── MailTooCostly       reading it took too long, or too much memory
│   ├── NotInQuarantine         no mail in quarantine has this id
│   ├── MailDeferred            try again later
│   │   ├── MailThrottled       the server accepts no more mail for now
│   │   ├── MailLoginRefused    the server refuses our login
│   │   └── MailUncertain       the connection broke while it was sent
│   ├── MailRefused             the mail cannot be delivered
│   └── MailboxError            the mailbox for answers cannot be read
│       ├── MailboxUnavailable  its server is down, or closed the connection; Signoff tries again
│       └── MailboxRefused      login, token or folder: an operator has to correct it
└── SlackError
    ├── SlackPayloadUnreadable  a request does not have the format that Slack documents
    ├── SlackDeferred           a limit or an outage: try again later
    └── SlackRefused            Slack will never do it

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
    """The base class of all errors of Signoff."""


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
    """An absence cannot be set. The message can be shown to the person."""


class ApprovalError(SignoffError):
    """An error about one approval."""


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
    """A person's answer does not count. The message can be shown to that person."""


class NotAnApprover(DecisionRefused):
    """The person is not an approver of this level."""


class OwnRequest(DecisionRefused):
    """The person is the requester, or owns the agent."""


class NotYourTurn(DecisionRefused):
    """The policy asks one person after another, and others are asked first."""


class Escalated(DecisionRefused):
    """The person's level has ended, and another level is asked."""


class AlreadyDecided(DecisionRefused):
    """The approval has been decided before."""


class TooLate(DecisionRefused):
    """The answer came after the deadline."""


class Claimed(DecisionRefused):
    """Somebody else has claimed the decision.

    Args:
        message: Who claimed it, and until when.
        until: When the claim ends (UTC).
    """

    def __init__(self, message: str, *, until: datetime) -> None:
        super().__init__(message)
        self.until = until


class MoveRefused(DecisionRefused):
    """A move that is not a decision is not possible, or not allowed for this person."""


class SecondFactorNeeded(MoveRefused):
    """The move hands over a decision that needs a second factor, without a second factor."""


class NotShownInFull(DecisionRefused):
    """An approval came by a channel that did not show the person the whole call."""


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
    """A program may not start the call of its request."""


class ReportRefused(ProgramRefused):
    """A program's report cannot be stored."""


class SecondStepNeeded(DecisionRefused):
    """An approval needs two steps, and one is missing or not possible in this channel."""


class StepChanged(DecisionRefused):
    """The person has changed the first step since it was shown for confirmation."""


class GrantNotFound(ApprovalError):
    """No grant has this id."""

    def __init__(self, grant_id: str) -> None:
        super().__init__(
            f"There is no grant {grant_id!r}. `signoff grants list --all` shows all of them."
        )


class GrantRefused(ApprovalError):
    """A grant cannot be given, or has ended. The message can be shown to the person."""


class PayloadError(ApprovalError):
    """The values do not fit the payload template.

    Args:
        message: What is wrong, in words for the person who answered.
        key: The field, "" if the error is about the whole payload.
        read: The text that was read.
        example: A line that would be valid.
    """

    def __init__(self, message: str, *, key: str, read: str, example: str) -> None:
        super().__init__(message)
        self.key = key
        self.read = read
        self.example = example


class ReasonNeeded(PayloadError):
    """The policy requires a reason for this answer."""


class ReasonContradicts(PayloadError):
    """The reason beside an approval reads like a no, a question, a condition or a limit.

    Nothing is decided. The person can approve the call as it is, or reject it with the reason.
    """


class NotCanonical(ApprovalError):
    """The arguments of the call cannot be brought into canonical JSON (RFC 8785)."""


class RunError(SignoffError):
    """An error about one run of an agent."""


class InvalidRun(RunError):
    """The submitted run is invalid: an empty message, or an id with forbidden characters."""


class RunNotFound(RunError):
    """No run has this id."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"There is no run {run_id!r}. `signoff runs list` shows all of them, and `signoff "
            "archive show` those that were archived."
        )


class SubjectNotFound(RunError):
    """No approval and no run has this id."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            f"There is no approval or run {subject!r}. `signoff approvals list --all` and `signoff "
            "runs list` show all of them, `signoff archive show` those that were archived."
        )


class AppNotFound(RunError):
    """There is no such agent folder, or it does not load."""


class SessionGone(RunError):
    """The session was deleted, or continued without Signoff."""


class CallGone(SessionGone):
    """The call of an approval was removed or changed in the session, and nobody can be asked again.

    Args:
        approval: The id of the approval.
        why: What happened to it, as a sentence.
    """

    def __init__(self, approval: str, why: str) -> None:
        super().__init__(why)
        self.approval = approval


class DigestMismatch(RunError):
    """The call in the session's history is not the one that was shown and approved."""


class CallChanged(DigestMismatch):
    """A call has changed since its approval. It was not started, and people are asked again.

    Args:
        approval: The id of the approval.
        why: What has changed, as a sentence.
        tool: The tool that would run.
        arguments: Its present arguments.
        origin: The changed fields of its origin; see `Origin`.
        declared: The digest of the parameters that the tool declares now.
    """

    def __init__(
        self,
        approval: str,
        why: str,
        *,
        tool: str,
        arguments: Mapping[str, JsonValue],
        origin: Mapping[str, JsonValue],
        declared: str,
    ) -> None:
        super().__init__(f"Approval {approval}: {why} It was not run.")
        self.approval = approval
        self.why = why
        self.tool = tool
        self.arguments = dict(arguments)
        self.origin = dict(origin)
        self.declared = declared


class ApprovalExpired(RunError):
    """The approval of a call is not valid any more; the call was not started."""


class ReceiptRefused(RunError):
    """No valid receipt proves an approval; the call was not started."""


class PauseNotRoutable(RunError):
    """The agent waits for something that no approver can give, such as a credential."""


class InputRefused(RunError):
    """A request for input was rejected, and its schema has no answer for that."""


class ToolInDoubt(RunError):
    """The tool was started, and was not seen to finish."""


class TurnLost(RunError):
    """A worker died during a turn, and the agent cannot resume it."""


class AnswerNotTaken(RunError):
    """The agent got an answer and did not continue; the message says which tools have run."""


class RemoteError(RunError):
    """The API server of a remote agent refuses, or its response cannot be read.

    Args:
        message: The request, the server and its response.
        fate: ``unsent`` if the request was never sent, ``answered`` if the server has responded,
            ``unknown`` if the server may still be processing it.
    """

    def __init__(
        self, message: str, *, fate: Literal["unsent", "answered", "unknown"] = "answered"
    ) -> None:
        super().__init__(message)
        self.fate = fate


class RemoteUnavailable(RemoteError):
    """The API server of a remote agent is down, busy or too slow; try again."""


class LedgerError(SignoffError):
    """An error of the ledger in Redis."""


class LedgerUnavailable(LedgerError):
    """Redis cannot be reached, or refuses the command."""


class Conflict(LedgerError):
    """Somebody else changed the record first: read again and decide again."""


class LeaseLost(LedgerError):
    """The lease has expired, and another process has the work."""


class Frozen(LedgerError):
    """A tool was not started because `signoff freeze` has stopped it."""

    def __init__(self, freeze: Freeze, tool: str = "") -> None:
        super().__init__(
            f"{freeze.by} has frozen {freeze.stops}: {freeze.why}. What waits goes on after "
            "`signoff thaw`."
        )
        self.freeze = freeze
        self.tool = tool


class FreezeRefused(LedgerError):
    """Something cannot be frozen because it is frozen, or thawed because it is not."""


class CannotSign(LedgerError):
    """This process has no private key to sign a decision; nothing was done."""


class KeyUnknown(LedgerError):
    """A receipt is signed with a key that this process does not know."""


class RecordUnreadable(LedgerError):
    """This version cannot read a record."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"The record {key} cannot be read: {problem}. If a newer version of Signoff wrote it, "
            "upgrade this process too; nothing about it is changed until then."
        )
        self.key = key


class AuditBroken(LedgerError):
    """An entry of the audit chain was changed, added or removed.

    Args:
        entry: The stream id of the first entry that does not match.
    """

    def __init__(self, message: str, *, entry: str) -> None:
        super().__init__(message)
        self.entry = entry


class ArchiveBroken(LedgerError):
    """A file of the archive is missing, was changed, or is unknown to the ledger."""


class NotArchived(LedgerError):
    """Nothing in the archive has this id."""

    def __init__(self, subject: str) -> None:
        super().__init__(
            f"The archive has no run and no approval {subject!r}. `signoff archive list` shows all "
            "of them."
        )


class ErasureRefused(LedgerError):
    """A person's data cannot be erased yet, because open requests or settings need it."""


class BackupRefused(LedgerError):
    """A backup cannot be made or read, or the Redis to restore it into is not empty."""


class SessionsNotMoved(LedgerError):
    """There are no sessions to move, they are in use, or their file cannot be read."""


class AccessError(SignoffError):
    """An error about one API token."""


class InvalidToken(AccessError):
    """A token with these rights is not allowed: it would decide for nobody, or ask and answer."""


class TokenNotFound(AccessError):
    """No API token has this id."""

    def __init__(self, token_id: str) -> None:
        super().__init__(
            f"There is no API token {token_id!r}. `signoff tokens list` shows all of them."
        )


class MailError(SignoffError):
    """An error about one mail."""


class UnreadableMail(MailError):
    """The message cannot be parsed."""


class MailTooLarge(UnreadableMail):
    """The message is over one of the caps on size, depth or number of parts."""


class MailTooCostly(UnreadableMail):
    """Reading the message took too much time or memory, and was stopped."""


class NotInQuarantine(MailError):
    """No mail in quarantine has this id, or several have."""


class MailDeferred(MailError):
    """The mail server does not accept the message now; try again later."""


class MailThrottled(MailDeferred):
    """The server accepts no more mail for now, or this mail has to wait for others."""


class MailLoginRefused(MailDeferred):
    """The mail server refuses our login. Each attempt may count towards locking the account."""


class MailUncertain(MailDeferred):
    """The connection broke while the mail was being sent, so it may have arrived."""


class MailRefused(MailError):
    """The mail server will never accept this message for this recipient."""


class MailboxError(MailError):
    """The mailbox for answers cannot be read."""


class MailboxUnavailable(MailboxError):
    """The server of the mailbox or of its tokens is down or closed the connection; try again."""


class MailboxRefused(MailboxError):
    """The server of the mailbox refuses the login, the token or the folder.

    Signoff tries again, but an operator has to correct it.
    """


class SlackError(SignoffError):
    """An error about one message or click in Slack."""


class SlackPayloadUnreadable(SlackError):
    """A request does not have the format that Slack documents. Nothing was done."""


class SlackDeferred(SlackError):
    """Slack cannot do it now; try again later.

    Args:
        message: The request and the result.
        after: The seconds to wait, 0 if Slack does not say.
        unsure: Whether Slack may have done it, because the response was lost.
        limited: Whether a rate limit was the only reason; then nothing was done.
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
        message: The request, Slack's response, and what to do.
        code: Slack's error code, such as ``channel_not_found``.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code
