"""Policies: the approvers of a call, the deadlines, and what happens if nobody answers."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import cached_property
from itertools import chain, groupby
from typing import ClassVar, Self

import rfc8785
from pydantic import Field, JsonValue, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from signoff.core.base.durations import Duration
from signoff.core.base.errors import ConditionError
from signoff.core.base.hiding import Hidden
from signoff.core.base.model import Value
from signoff.core.directory.hours import TimeZone
from signoff.core.directory.notifications import USUALLY, NotifyOn
from signoff.core.policies import conditions
from signoff.core.policies.allowance import RateText
from signoff.core.policies.levels import (
    MANAGERS,
    Asking,
    Earlier,
    Groups,
    Informed,
    Level,
    form_fault,
)
from signoff.core.policies.titles import Money, Title, check_title

Facts = Mapping[str, JsonValue]
"""The facts of a call: app, agent, tool, args and user."""


class Effect(StrEnum):
    """The effect of a policy on matching calls."""

    ASK = "ask"
    """People are asked."""
    ALLOW = "allow"
    """The call runs at once, up to the limit in `at_most`; people are asked about further calls."""
    DENY = "deny"
    """The call is rejected at once, and the model reads the `reason`."""


class OnTimeout(StrEnum):
    """What happens at the last deadline if nobody has answered."""

    REJECT = "reject"
    """The call is rejected, and the agent is told that nobody answered in time."""
    STAY = "stay"
    """The approval is marked overdue and stays open."""
    APPROVE = "approve"
    """The call is approved if the policy's `ceiling` is true for it, and otherwise rejected."""


class OnOutOfOffice(StrEnum):
    """What an approver's out-of-office reply means."""

    WAIT = "wait"
    """It is recorded, and the person may still answer."""
    DEFAULT = "default"
    """The person counts as not reached; if nobody else is left, the default is asked at once."""


class OnQuestion(StrEnum):
    """What happens to the deadline after a question to the requester."""

    RUN = "run"
    """It does not change."""
    PAUSE = "pause"
    """It is postponed by the time until the answer, at most by the length of the level."""


class InDoubt(StrEnum):
    """What happens to a call if its worker died while the tool ran."""

    ASK = "ask"
    """The approver is asked whether to run it again, because it may or may not have happened."""
    RETRY = "retry"
    """It is run again, up to three times: for tools that do no harm if they run twice."""
    FAIL = "fail"
    """The run ends in doubt, and a person has to look."""


class Edits(StrEnum):
    """What happens when the agent proposes exactly the values that an approver has suggested."""

    ASK = "ask"
    """People are asked about the new call like about any other."""
    APPROVE = "approve"
    """The new call counts as approved by the person who suggested the values."""


class Resume(StrEnum):
    """When a turn that waits for several approvals resumes."""

    TOGETHER = "together"
    """When all of them are decided."""
    EACH = "each"
    """After each decision if the app is resumable; otherwise when all are decided."""


class Hold(StrEnum):
    """Which other calls wait for a call that needs an approval."""

    NONE = "none"
    """None: other calls of the same turn run at once."""
    SIBLINGS = "siblings"
    """Calls of the same turn that need no approval: they run after this one is approved."""


class EmailProof(StrEnum):
    """What a mail reply must prove before it counts."""

    TOKEN = "token"  # noqa: S105 -- the name of a level
    """It was sent to the secret address of the card. Its sender is not another person of the
    directory."""
    TOKEN_FROM = "token+from"  # noqa: S105 -- the same
    """Also, its From is an address of the approver. A From can be forged."""
    TOKEN_FROM_DMARC = "token+from+dmarc"  # noqa: S105 -- the same
    """Also, the domain of that address authenticates the mail and its recipient."""


class Risk(StrEnum):
    """How much harm a wrong approval would do."""

    NORMAL = "normal"
    HIGH = "high"
    """A button asks for confirmation before it approves."""


class GrantRules(Value):
    """Who may approve similar calls in advance, and how many.

    Attributes:
        who: The ids of the people who may give a grant. They must be approvers of the policy.
        longest: The longest duration of a grant: ``"8h"``.
        most: The most calls that a grant covers.
        vary: The arguments that may differ from those of the approved call. All others must be
            equal.
        limit: A CEL expression over app, agent, tool, args and user that must be true for each
            call. Empty means no further limit.
    """

    who: tuple[str, ...] = Field(min_length=1)
    longest: Duration = timedelta(hours=8)
    most: int = Field(default=20, ge=1, le=1000)
    vary: tuple[str, ...] = ()
    limit: str = ""


class PolicySettings(Asking):
    """The settings that policies, the default and the snapshot of an approval share.

    Attributes:
        effect: Whether people are asked, or the call is allowed or denied at once.
        on_timeout: What happens when the last level times out.
        repeat: How often the levels are repeated.
        on_out_of_office: What an approver's out-of-office reply means.
        clock: What happens to the deadline while the requester is asked something.
        in_doubt: What happens if a worker died while the tool ran.
        edits: What happens to a call that an approver has proposed.
        resume: When a turn with several paused calls resumes.
        name_approver: Whether the agent is told who rejected its call.
        email: What a mail reply must prove. The default is ``[email.authentication] require``.
        risk: `high` asks for confirmation before an approval in Slack counts.
        valid_for: How long an approval is valid. A call that was not started by then needs a new
            approval. The default is ``[agents] valid_for``.
        grants: Who may approve calls like it in advance, and how far; None lets nobody do so.
        break_glass: The ids of people who may run a frozen or unanswered call alone, with a reason.
            All approvers are notified. Empty means nobody.
        ask_twice: Whether people who have approved in an earlier phase are asked again in a later
            one. Otherwise their approval counts there as well.
        title: The title of the request: ``"Reimburse {args.amount:money EUR} for
            {args.purpose}"``. Subjects, lists, notifications and cards begin with it. Placeholders
            are ``args.NAME``, ``requester``, ``agent``, ``app`` and ``tool``; formats of arguments
            are ``money EUR`` (or ``money args.currency``), ``number`` and ``date``. The default
            names the tool and its first arguments.
        money: The arguments that are amounts of money, each with its currency:
            ``{ amount = "EUR" }`` or ``{ amount = "args.currency" }``. They are shown as
            ``2,500.00 EUR``.
        hide: The arguments whose values are hidden from people: ``["iban", "customer.tax_id"]``. A
            name also hides every field with this name inside an argument. Conditions and the digest
            still use the values. The `hide` of ``[default]`` applies to every policy.
        inform: People who are notified when the request opens, escalates and ends. They may read it
            but do not decide it: ids, ``requester.manager``, ``queue:NAME`` (all its members),
            ``schedule:NAME``, ``slack-group:S012AB3CD``.
        notify_requester: The topics about which the requester is notified: ``waiting`` (whom it
            waits for), ``escalated``, ``decided``, ``done`` (or failed). ``[]`` means none.
        notify_by: How requesters and informed people are notified: ``["email"]``, ``["slack"]``,
            both, or your own channels. If it is empty, people with a Slack id are notified in
            Slack, if it is set up, and everybody else by mail.
    """

    effect: Effect = Effect.ASK
    on_timeout: OnTimeout = OnTimeout.REJECT
    repeat: int = Field(default=0, ge=0, le=10)
    on_out_of_office: OnOutOfOffice = OnOutOfOffice.WAIT
    clock: OnQuestion = OnQuestion.RUN
    in_doubt: InDoubt = InDoubt.ASK
    edits: Edits = Edits.ASK
    resume: Resume = Resume.TOGETHER
    name_approver: bool = False
    email: EmailProof | None = None
    risk: Risk = Risk.NORMAL
    valid_for: Duration | None = None
    grants: GrantRules | None = None
    break_glass: tuple[str, ...] = ()
    ask_twice: bool = False
    title: Title = ""
    money: Money = Field(default_factory=dict)
    hide: Hidden = ()
    inform: Informed = ()
    notify_requester: tuple[NotifyOn, ...] = USUALLY
    notify_by: tuple[str, ...] = ()


class Routing(PolicySettings):
    """The settings that policies and the default share.

    Attributes:
        levels: The levels, which are asked one after another until somebody has decided.
        ask: The approvers, if there is one level; see `ask` of a level.
        all_of: Groups that are asked at the same time, if there is one level; see `all_of` of a
            level.
        ceiling: A CEL expression with the names of ``when``. ``on_timeout = "approve"`` only
            approves calls for which it is true.
        second_step: A CEL expression with the names of ``when``. If it is true, an approval by
            mail or Slack counts only after the person confirms it on the inbox page. ``"true"``
            means always, empty means never. An expression that fails counts as true.
        time_zone: The time zone of `now` in ``when``, ``ceiling`` and ``second_step``:
            ``Europe/Berlin``.
        hold: `siblings` holds calls of the same turn that need no approval until this one is
            approved. After a rejection they do not run.
    """

    must_ask: ClassVar[bool] = False

    levels: tuple[Level, ...] = Field(default=(), max_length=20)
    all_of: Groups = ()
    ask: tuple[str, ...] = Field(default=(), validate_default=True)
    ceiling: str = ""
    second_step: str = ""
    time_zone: TimeZone = "UTC"
    hold: Hold = Hold.NONE

    @field_validator("ask", mode="after")
    @classmethod
    def _one_form(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        levels = info.data.get("levels", ())
        if (value or info.data.get("all_of")) and levels:
            raise ValueError("it cannot be set beside levels: ask for these people in a level")
        if info.data.get("all_of"):
            return value
        asks = info.data.get("effect", Effect.ASK) is Effect.ASK
        is_read = {"levels", "all_of"} <= info.data.keys()  # those with errors are not in it
        if cls.must_ask and asks and not value and not levels and is_read:
            raise PydanticCustomError("missing", "nobody is asked")
        return value

    @model_validator(mode="after")
    def _phases_in_order(self) -> Self:
        levels = [level.over(self) for level in self.levels]
        faults = [form_fault(one, one.ask, one.all_of) for one in levels]
        if not levels and (self.ask or self.all_of):
            faults = [form_fault(self, self.ask, self.all_of)]
        if why := next(filter(None, faults), ""):
            raise ValueError(why)
        chains = [one for one in levels if one.is_chain]
        phases = [one.phase for one in levels]
        if any(phases.count(one.phase) > 1 for one in chains):
            raise ValueError(
                "a level that goes up the managers is a phase of its own: give each level a phase"
            )
        climbs = bool(chains or self.until or MANAGERS in self.ask)
        if climbs and self.on_timeout is OnTimeout.APPROVE:
            raise ValueError(
                "a timeout cannot approve while managers are asked one after another: set "
                'on_timeout = "reject" or "stay"'
            )
        names = [phase for phase, _ in groupby(level.phase for level in self.levels)]
        if len(names) > len(set(names)):
            raise ValueError("the levels of a phase are not adjacent: move them next to each other")
        if len(names) > 1 and self.on_timeout is OnTimeout.APPROVE:
            raise ValueError(
                'a timeout cannot approve several phases: set on_timeout = "reject" or "stay"'
            )
        return self

    @model_validator(mode="after")
    def _title_hides(self) -> Self:
        check_title(self.title, self.hide)
        return self

    @property
    def references(self) -> tuple[str, ...]:
        """All references in `ask`, of all levels and groups."""
        groups = (group.ask for group in self.all_of)
        return (*self.ask, *chain(*groups), *chain(*(one.references for one in self.levels)))

    @cached_property
    def version(self) -> str:
        """The first 16 hex digits of the SHA-256 of the settings as canonical JSON.

        Settings that only repeat a default do not change it.
        """
        return hashlib.sha256(rfc8785.dumps(self.content)).hexdigest()[:16]

    @property
    def content(self) -> dict[str, JsonValue]:
        """The settings without those that only repeat a default."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @cached_property
    def _snapshots(self) -> "dict[tuple[bool, bool], Terms]":
        return {}

    def _terms(self, policy: str, facts: Facts, *, batch: bool = False) -> "Terms":
        """Return the terms of a call. Calls with the same values of all expressions share them."""
        under, second_step = (
            _under(self.ceiling, facts),
            second_step_needed(self.second_step, facts),
        )
        if (known := self._snapshots.get((under, second_step))) is not None:
            return known
        rules = {name: getattr(self, name) for name in PolicySettings.model_fields}
        made = Terms(
            policy=policy,
            version=self.version,
            ask=self.ask,
            all_of=self.all_of,
            levels=tuple(level.over(self) for level in self.levels),
            under_ceiling=under,
            second_step=second_step,
            batch=batch,
            **rules,
        )
        return self._snapshots.setdefault((under, second_step), made)


class Terms(PolicySettings):
    """The rules of one approval: a snapshot of its policy, which applies until the approval ends.

    Attributes:
        policy: The name of the policy.
        version: The version of the policy; see `Routing.version`.
        ask: The approvers, if there is one level.
        levels: The levels, if there are several.
        under_ceiling: Whether a timeout may approve it.
        second_step: Whether an approval by mail or Slack only counts after the person has
            confirmed it.
        batch: Whether it may be approved together with others.
        at_least: The least number of approvals. The default, if it is asked instead of a policy,
            needs as many as the level of the policy that needs the fewest.
        all_of: The groups that are asked at the same time, if there is one level.
        chains: The first and the last of the levels that go up the managers until a limit covers
            the call; see `signoff.core.routing.chains`.
    """

    policy: str
    version: str = ""
    ask: tuple[str, ...] = ()
    all_of: Groups = ()
    chains: tuple[tuple[int, int], ...] = ()
    levels: tuple[Level, ...] = ()
    under_ceiling: bool = False
    second_step: bool = False
    batch: bool = False
    at_least: int = 1

    def shown_like(self, before: "Terms") -> Self:
        """Return these terms with the hidden names, the title and the money of earlier terms."""
        money = {**before.money, **self.money}
        update = {"title": self.title or before.title, "money": money}
        return self.model_copy(update=update).hiding(before.hide)

    def hiding(self, names: Hidden) -> Self:
        """Return these terms with further hidden names."""
        hide = tuple(dict.fromkeys((*self.hide, *names)))
        # Most hide nothing more, and all calls under a policy share its terms.
        return self if hide == self.hide else self.model_copy(update={"hide": hide})

    def no_weaker_than(self, before: "Terms") -> Self:
        """Return these terms without what is weaker than in the terms that they replace.

        So the grants, the silence and the `break_glass` of the default do not decide a call that
        its policy would not let them decide.
        """
        silence = before.on_timeout is OnTimeout.APPROVE and before.under_ceiling
        valid_for = before.valid_for
        if self.valid_for is not None and valid_for is not None:
            valid_for = min(self.valid_for, valid_for)
        strongest = self.email is EmailProof.TOKEN_FROM_DMARC
        update: dict[str, object] = {
            "second_step": self.second_step or before.second_step,
            "under_ceiling": self.under_ceiling and silence,
            "grants": None,
            "break_glass": tuple(one for one in self.break_glass if one in before.break_glass),
            "email": self.email if strongest else before.email,
            "risk": self.risk if before.risk is Risk.NORMAL else before.risk,
            "edits": self.edits if before.edits is Edits.APPROVE else before.edits,
            "in_doubt": self.in_doubt if before.in_doubt is InDoubt.RETRY else before.in_doubt,
            "valid_for": valid_for,
        }
        return self.model_copy(update=update)

    def fewest_from(self, level: int) -> int:
        """Return the least number of approvals from the phase of a level on.

        Each phase counts with the level that needs the fewest, as far as quorums are numbers,
        because every phase must approve.
        """
        wanted = 0
        for group in self._groups:
            if group[-1] >= level:
                wanted += min(self.ladder[one].fewest for one in group)
        return max(self.at_least, wanted, 1)

    @cached_property
    def ladder(self) -> tuple[Level, ...]:
        """The levels, or one level made of `ask` or `all_of`; empty if nobody is asked."""
        if self.levels or not (self.ask or self.all_of):
            return self.levels
        asking = {name: getattr(self, name) for name in Asking.model_fields}
        # Its fields have been validated as those of the terms.
        return (Level.model_construct(ask=self.ask, all_of=self.all_of, **asking),)

    def asking(self, level: int) -> "Level | Terms":
        """Return the settings of a level."""
        return self.levels[level] if level < len(self.levels) else self

    def stays(self, level: int) -> bool:
        """Say whether approvers of earlier levels may still answer at this level."""
        return level < len(self.levels) and self.levels[level].earlier is Earlier.STAY

    def called(self, level: int) -> str:
        """Return the name of a level, "" if there is only one without a name."""
        if len(self.levels) < 2:
            return self.levels[0].name if self.levels else ""
        name = self.levels[level].name if level < len(self.levels) else ""
        return name or f"level {level + 1}"

    def telling_as(self, other: "Terms") -> Self:
        """Return these terms with the notifications of others, and the people to inform of both."""
        update: dict[str, object] = {
            "inform": tuple(dict.fromkeys((*other.inform, *self.inform))),
            "notify_requester": other.notify_requester,
            "notify_by": other.notify_by,
        }
        return self.model_copy(update=update)

    def informs(self, level: int) -> tuple[str, ...]:
        """Return whom a level informs, besides the people whom all levels inform."""
        return self.levels[level].inform if level < len(self.levels) else ()

    def after(self, level: int, round_: int) -> Iterator[tuple[int, int]]:
        """Yield the levels to ask, in the same phase, after a level ended without an approval.

        Each comes with its round. If a manager does not answer, the next manager up follows.
        """
        mine = next((one for one in self._groups if level <= one[-1]), [])
        yield from ((index, round_) for index in mine if index > level)
        for again in range(round_ + 1, self.repeat + 1):
            yield from ((index, again) for index in mine)

    def behind(self, level: int, round_: int, *, covered: bool = True) -> Iterator[tuple[int, int]]:
        """Yield the levels of the next phase, which are asked after the phase of a level approved.

        Args:
            level: The index of the level.
            round_: The number of earlier rounds through the levels.
            covered: Whether an approver's limit covers the call; otherwise the next managers up are
                asked.
        """
        if len(self.levels) < 2:
            return
        ends = self.chain_of(level)
        if ends is not None and not covered:
            yield from ((index, round_) for index in range(level + 1, ends[1] + 1))
            return
        level = ends[1] if ends is not None else level
        if (phase := self.phase_of(level) + 1) < len(self._phases):
            yield from ((index, round_) for index in self._phases[phase])

    def chain_of(self, level: int) -> tuple[int, int] | None:
        """Return the first and last level of the chain of managers that contains this level."""
        return next((one for one in self.chains if one[0] <= level <= one[1]), None)

    def same_phase(self, one: int, other: int) -> bool:
        """Say whether two levels belong to the same phase."""
        levels = self.levels
        if not (0 <= one < len(levels) and 0 <= other < len(levels)):
            return True
        return levels[one].phase == levels[other].phase

    def phase_of(self, level: int) -> int:
        """Return the index of the phase to which a level belongs."""
        found = (number for number, one in enumerate(self._phases) if level <= one[-1])
        return next(found, max(len(self._phases) - 1, 0))

    @property
    def phases(self) -> tuple[str, ...]:
        """The names of the phases; a single phase without a name is ""."""
        return tuple(self.ladder[one[0]].phase for one in self._phases)

    @property
    def _groups(self) -> list[list[int]]:
        """The indexes of the levels of each phase; a chain of managers counts as one phase."""
        found: list[list[int]] = []
        for phase in self._phases:
            ends = self.chain_of(phase[0])
            if found and ends is not None and ends[0] <= found[-1][0]:
                found[-1] += phase
            else:
                found.append(phase)
        return found

    @property
    def _phases(self) -> list[list[int]]:
        """The indexes of the levels of each phase."""
        if not self.levels:
            return [[0]] if self.ask or self.all_of else []
        grouped = groupby(range(len(self.levels)), key=lambda index: self.levels[index].phase)
        return [list(indexes) for _, indexes in grouped]


class Policy(Routing):
    """One policy. The first that matches a call applies.

    Attributes:
        name: Shown on the card and in the audit log.
        when: A CEL expression over app, agent, tool, args, user and now. Empty matches every call.
        at_most: With ``effect = "allow"``: how many calls run without asking anybody in any period
            of this length, ``"20/h"``. The approvers of the policy are asked about further calls,
            or the default if it names nobody.
        reason: With ``effect = "deny"``: the reason, which the agent reads.
        batch: Whether these calls are harmless enough to be approved together on the inbox page.
            Not allowed with a second step or ``risk = "high"``.
    """

    must_ask: ClassVar[bool] = True

    name: str = Field(min_length=1, max_length=64)
    when: str = ""
    at_most: RateText | None = None
    reason: str = Field(default="", max_length=1000)
    batch: bool = False

    @model_validator(mode="after")
    def _one_effect(self) -> Self:
        effect = self.effect
        if effect is Effect.ALLOW and self.at_most is None:
            raise ValueError(
                'effect = "allow" needs a ceiling: add at_most = "20/h", the most calls that may '
                "run without being asked about"
            )
        if effect is Effect.ALLOW and self.second_step not in {"", "false"}:
            raise ValueError(
                'effect = "allow" asks nobody, and second_step asks twice: take one of them out'
            )
        if effect is Effect.DENY and not self.reason.strip():
            raise ValueError(
                'effect = "deny" needs a reason, which the model reads: add reason = "…"'
            )
        if effect is Effect.DENY and (self.ask or self.all_of or self.levels):
            raise ValueError('effect = "deny" asks nobody: take ask and levels out')
        if effect is not Effect.ALLOW and self.at_most is not None:
            raise ValueError('at_most goes with effect = "allow": set that, or take it out')
        if effect is not Effect.DENY and self.reason:
            raise ValueError('reason goes with effect = "deny": set that, or take it out')
        return self

    @model_validator(mode="after")
    def _harmless(self) -> Self:
        if self.batch and self.second_step not in {"", "false"}:
            raise ValueError(
                "batch says that these calls are harmless, and second_step that they are not: "
                "take one of them out"
            )
        if self.batch and self.risk is Risk.HIGH:
            raise ValueError('batch contradicts risk = "high": take one of them out')
        return self

    def terms(self, facts: Facts) -> Terms:
        """Return the snapshot for an approval of a call with these facts."""
        return self._terms(self.name, facts, batch=self.batch)


class Fallback(Routing):
    """Who is asked if no policy matches, or if nobody of the policy can be asked.

    Attributes:
        time_zone: The time zone of `now`, and the one in which times are shown to people whose own
            is not known.
        hide: The arguments whose values are hidden from people, under every policy.
    """

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if self.effect is not Effect.ASK:
            raise ValueError(
                f'the default asks people. Add a policy with effect = "{self.effect.value}" and '
                "without `when` as the last one"
            )
        return self

    def terms(self, facts: Facts) -> Terms:
        """Return the snapshot for an approval; it asks nobody if no approver is configured."""
        return self._terms("default", facts)


def second_step_needed(second_step: str, facts: Facts) -> bool:
    """Say whether a call needs a second step; a failing expression counts as true."""
    if not second_step:
        return False
    try:
        seen = conditions.value(second_step, facts)
        return seen is not False or conditions.holds(second_step, facts)
    except (KeyError, ConditionError):
        return True


def _under(ceiling: str, facts: Facts) -> bool:
    """Say whether a call is under a ceiling; a failing expression counts as false."""
    try:
        return bool(ceiling) and conditions.holds(ceiling, facts)
    except ConditionError:
        return False
