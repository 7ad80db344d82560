"""Checks the policies, the default, and the rules for long-running calls and inputs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from signoff.cli.config.faults import Found, Loc, defect, suggest, warning
from signoff.cli.config.levels import never_true
from signoff.cli.config.mail import provable
from signoff.cli.config.people import reference
from signoff.cli.config.settings import Settings
from signoff.core.approvals.input import long_running
from signoff.core.approvals.input import rules as input_rules
from signoff.core.base.errors import ConditionError, NotCanonical
from signoff.core.policies import conditions
from signoff.core.policies.comparisons import Alternative, alternatives, contrary, covers
from signoff.core.policies.levels import Asking
from signoff.core.policies.policy import Effect, Fallback, Policy, Routing

_LEAST = timedelta(minutes=1)
"""A shorter time for an answer is probably a mistake."""
_ORDER = "Put it before that one, or remove it: the first that matches wins."


def check(settings: Settings) -> Iterator[Found]:
    """Find the faults of the policies."""
    names: dict[str, int] = {}
    before, all_of = _Earlier(), ""
    for index, policy in enumerate(settings.policies):
        first = names.setdefault(policy.name, index)
        if first != index:
            message = f"{policy.name!r} is already the name of another policy"
            remedy = "Choose a unique name: the audit log and the cards name policies."
            yield ("policies", index, "name"), defect(message, remedy)
        mine = alternatives(policy.when, policy.time_zone)
        if all_of:
            message = f"it is never reached: {all_of!r} matches all"
            yield ("policies", index), defect(message, _ORDER)
        elif (name := before.covering(mine)) and not contrary(policy.when):
            message = f"it is never reached: {name!r} matches each of its calls"
            yield ("policies", index), warning(message, _ORDER)
        yield from _condition(("policies", index, "when"), policy.when)
        yield from _clock(("policies", index), policy)
        yield from _routing(settings, ("policies", index), policy)
        before.add(mine, policy.name)
        has_condition = {one.strip() for one in policy.when.split("&&")} - {"", "true"}
        all_of = all_of or ("" if has_condition else policy.name)


class _Earlier:
    """The conditions of earlier policies, by the tools to which they are limited."""

    def __init__(self) -> None:
        self._by_tool: dict[str, list[tuple[tuple[Alternative, ...], str]]] = {}

    def add(self, ways: tuple[Alternative, ...], name: str) -> None:
        """Add a policy; the tool "" stands for any."""
        for tool in {tool for one in ways for tool in one.texts("tool") or ("",)}:
            self._by_tool.setdefault(tool, []).append((ways, name))

    def covering(self, ways: tuple[Alternative, ...]) -> str:
        """Return the name of a policy that covers a condition, "" if there is none."""
        tools = ("", *ways[0].texts("tool")[:1])
        among = (one for tool in tools for one in self._by_tool.get(tool, ()))
        return next((name for wider, name in among if covers(wider, ways)), "")


def _routing(settings: Settings, loc: Loc, rule: Policy | Fallback) -> Iterator[Found]:
    """Find the faults of a policy or the default."""
    yield from _condition((*loc, "second_step"), rule.second_step)
    levels = [((*loc, "levels", index), level) for index, level in enumerate(rule.levels)]
    for here, one in ((loc, rule), *levels):
        yield from _asked(settings, (*here, "ask"), one.ask)
        for index, group in enumerate(one.all_of):
            yield from _asked(settings, (*here, "all_of", index, "ask"), group.ask)
        yield from _until(settings, here, one)
        if one.within.by_the_clock < _LEAST:
            remedy = 'A number without a unit means seconds: write "4h" for four hours.'
            yield (*here, "within"), warning(f"people have only {one.within} to answer", remedy)
    yield from _informed(settings, loc, rule)
    yield from provable(settings, (*loc, "email"), rule.email)


def _condition(loc: Loc, source: str) -> Iterator[Found]:
    if not source:
        return
    try:
        conditions.check(source, conditions.POLICY_NAMES)
    except ConditionError as error:
        remedy = "For instance: tool == 'reimburse' && args.amount > 1000."
        yield loc, defect(str(error).rstrip("."), remedy)
    yield from never_true(loc, source)
    for message in conditions.pitfalls(source):
        remedy = "Write tool.startsWith('delete_') for a pattern, and numbers without quotes."
        yield loc, warning(message, remedy)


def _clock(loc: Loc, policy: Policy) -> Iterator[Found]:
    sources = (policy.when, policy.ceiling, policy.second_step)
    if any(map(conditions.reads_clock, sources)) and "time_zone" not in policy.model_fields_set:
        message = "it reads `now`, which is counted in UTC"
        yield loc, warning(message, 'Add time_zone = "Europe/Berlin", or another one.')


def _asked(settings: Settings, loc: Loc, ask: tuple[str, ...]) -> Iterator[Found]:
    for one in ask:
        if fault := reference(settings, one):
            yield loc, fault
    if len(set(ask)) < len(ask):
        yield loc, warning("somebody is named twice", "Once is enough.")


def _informed(settings: Settings, loc: Loc, rules: Routing) -> Iterator[Found]:
    yield from _asked(settings, (*loc, "inform"), rules.inform)
    for index, level in enumerate(rules.levels):
        yield from _asked(settings, (*loc, "levels", index, "inform"), level.inform)
    if rules.inform and not rules.references and rules.effect is not Effect.ASK:
        message = "nobody is informed of calls that are decided at once; they are in the audit log"
        yield (*loc, "inform"), warning(message, "Remove it, or name somebody in ask.")


def _until(settings: Settings, loc: Loc, asking: Asking) -> Iterator[Found]:
    if not asking.until:
        return
    try:
        conditions.check(asking.until, conditions.LIMIT_NAMES)
    except ConditionError as error:
        remedy = "For instance: limit.expenses >= args.amount."
        yield (*loc, "until"), defect(str(error).rstrip("."), remedy)
    limits = [one.limits for one in settings.people] + [one.limits for one in settings.queues]
    known = {name for one in limits for name in one}
    for name in conditions.limits_in(asking.until):
        if name not in known:
            remedy = suggest(name, known) or f"Add limits = {{ {name} = 5000 }} to [[people]]."
            yield (*loc, "until"), defect(f"nobody has a limit called {name!r}", remedy)


def default(settings: Settings) -> Iterator[Found]:
    """Find the faults of the default."""
    yield from _routing(settings, ("default",), settings.default)
    if settings.default.references:
        return
    message = "nobody is asked if no policy matches, or if nobody of a policy can be reached"
    remedy = 'Add [default] ask = ["…"]: otherwise such a call waits for its deadline.'
    yield ("default", "ask"), warning(message, remedy)


def long_running_calls(settings: Settings) -> Iterator[Found]:
    """Find the faults of [[long_running]]."""
    rules = settings.long_running
    for index, rule in enumerate(rules):
        try:
            long_running.check(rule)
        except (ConditionError, NotCanonical) as error:
            remedy = "For instance: {'status': status, 'ticket': result.ticket}."
            yield ("long_running", index), defect(str(error).rstrip("."), remedy)
        covering = [
            other
            for other in rules[:index]
            if other.tool == rule.tool and other.app in {"", rule.app} and not other.when
        ]
        if covering:
            message = f"it is never reached: an earlier table takes every call of {rule.tool!r}"
            yield ("long_running", index), defect(message, _ORDER)


def inputs(settings: Settings) -> Iterator[Found]:
    """Find the faults of [[inputs]]."""
    for index, rule in enumerate(settings.inputs):
        try:
            input_rules.check(rule)
        except (ConditionError, NotCanonical) as error:
            remedy = "For instance: when = \"message.startsWith('Reply with')\"."
            yield ("inputs", index), defect(str(error).rstrip("."), remedy)
        if any(one.app in {"", rule.app} and not one.when for one in settings.inputs[:index]):
            message = "it is never reached: an earlier table takes all"
            yield ("inputs", index), defect(message, _ORDER)
