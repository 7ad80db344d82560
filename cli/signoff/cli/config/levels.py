"""Checks levels: whether each can be met, and whether the end of the policy is valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from signoff.cli.config.faults import (
    NO_SLACK,
    Found,
    Loc,
    defect,
    parse_toml,
    read_text,
    suggest,
    unknown_person,
    warning,
)
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import ConditionError
from signoff.core.directory.people import Person
from signoff.core.directory.queues import QUEUE, Pick
from signoff.core.policies import conditions
from signoff.core.policies.comparisons import contrary
from signoff.core.policies.levels import Asking, Earlier, Group, Level, Order, Quorum, repeated
from signoff.core.policies.policy import OnTimeout, Routing
from signoff.core.routing.resolve import ASKED, SCHEDULE, SLACK_GROUP, is_managers
from signoff.core.routing.targets import EMAIL, SLACK


def check(settings: Settings) -> Iterator[Found]:
    """Yield the faults of levels, of the ends of policies, and of the owners of agents."""
    yield from _old_names(settings)
    for index, person in enumerate(settings.people):
        yield from _notify_by(settings, ("people", index, "notify_by"), person.notify_by)
    for loc, rule in settings.rules:
        yield from _end(loc, rule)
        yield from _notify_by(settings, (*loc, "notify_by"), rule.notify_by)
        if rule.ask or rule.all_of:
            yield from _level(settings, loc, rule, rule.ask, rule.all_of)
            yield from _asked_before(loc, rule.references)
        for index, level in enumerate(rule.levels):
            here: Loc = (*loc, "levels", index)
            yield from _level(settings, here, level.over(rule), level.ask, level.all_of)
            if index == 0:
                yield from _asked_before(here, level.references)
            yield from _channels(settings, here, level)
            if index and _is_repeated(
                settings, level.over(rule), rule.levels[index - 1].over(rule)
            ):
                message = "it asks the same people in the same way as the level before"
                remedy = "Ask somebody else, or use remind, a longer within, or repeat."
                yield here, warning(message, remedy)
            if level.earlier is Earlier.STAY and index == 0:
                message = "there is no earlier level whose people could stay"
                yield (*here, "earlier"), warning(message, "Set it on a level below, or drop it.")
    known = [person.id for person in settings.people]
    for agent, owner in settings.agents.owners.items():
        if fault := unknown_person(owner, known):
            yield ("agents", "owners", agent), fault


def _is_repeated(settings: Settings, level: Level, before: Level) -> bool:
    """Say whether a level asks the people of the level before again, in the same phase."""
    in_turn = {f"{QUEUE}{one.name}" for one in settings.queues if one.pick is not Pick.EVERYONE}
    others = {"name", "within", "remind", "earlier", "inform"}
    same = level.model_dump(exclude=others) == before.model_dump(exclude=others)
    return same and not any(
        one.startswith((ASKED, SCHEDULE)) or one in in_turn for one in level.references
    )


def _old_names(settings: Settings) -> Iterator[Found]:
    """Find levels that use the old name of `phase`, which the next release does not read."""
    file = settings.file
    content = parse_toml(read_text(file), file) if file is not None else {}
    written = [(("policies", at), one) for at, one in enumerate(content.get("policies", []))]
    for loc, rule in [*written, (("default",), content.get("default", {}))]:
        for index, level in enumerate(rule.get("levels", [])):
            if "stage" in level:
                message = "it is now called phase, and the next release does not read stage"
                yield (*loc, "levels", index, "stage"), warning(message, "Write phase = …")


def _end(loc: Loc, rule: Routing) -> Iterator[Found]:
    approves = rule.on_timeout is OnTimeout.APPROVE
    if approves and not rule.ceiling:
        message = "silence would approve every call"
        remedy = (
            "Add a ceiling, such as 'args.amount >= 0 && args.amount <= 200': above it, it is "
            "rejected."
        )
        yield (*loc, "on_timeout"), defect(message, remedy)
    if approves and rule.ceiling.strip() == "true":
        message = "silence approves every call"
        remedy = "Write what is small enough: 'args.amount >= 0 && args.amount <= 200'."
        yield (*loc, "ceiling"), warning(message, remedy)
    if rule.ceiling and not approves:
        message = "it has no effect unless silence approves"
        yield (*loc, "ceiling"), warning(message, 'Set on_timeout = "approve", or remove it.')
    if approves and rule.second_step not in {"", "false"}:
        message = "silence never approves a call with a second step"
        yield (*loc, "on_timeout"), warning(message, "Such a call is rejected at the end.")
    if rule.ceiling:
        try:
            conditions.check(rule.ceiling, conditions.POLICY_NAMES)
        except ConditionError as error:
            remedy = "For instance: args.amount >= 0 && args.amount <= 200."
            yield (*loc, "ceiling"), defect(str(error).rstrip("."), remedy)
        yield from never_true((*loc, "ceiling"), rule.ceiling)


def never_true(loc: Loc, source: str) -> Iterator[Found]:
    """Yield a warning about a condition that wants contrary values, such as > 500 and < 100."""
    if name := contrary(source):
        message = f"it can never be true: it wants contrary values of {name}"
        yield loc, warning(message, "Correct them, or write || where one of them is enough.")


def _asked_before(loc: Loc, references: Iterable[str]) -> Iterator[Found]:
    for one in references:
        if one.startswith(ASKED):
            message = (
                f"{one} is the manager of the people of an earlier level, and this is the first"
            )
            yield (*loc, "ask"), defect(message, "Ask requester.manager, or move it to a level.")


def _quorum(settings: Settings, loc: Loc, quorum: Quorum, ask: tuple[str, ...]) -> Iterator[Found]:
    most = _most(settings, ask)
    if isinstance(quorum, int) and most is not None and quorum > most:
        message = f"it needs {quorum} approvals, but at most {most} can be asked"
        remedy = "Ask more people, or lower the quorum: as it is, nothing is ever approved here."
        yield (*loc, "quorum"), defect(message, remedy)


def _level(
    settings: Settings,
    loc: Loc,
    rules: Asking,
    ask: tuple[str, ...],
    groups: tuple[Group, ...],
) -> Iterator[Found]:
    for index, group in enumerate(groups):
        yield from _quorum(settings, (*loc, "all_of", index), group.quorum, group.ask)
    if ask:
        yield from _quorum(settings, loc, rules.quorum, ask)
    quorum = rules.quorum
    people = _people(settings, (*ask, *(one for group in groups for one in group.ask)))
    if rules.order is Order.SEQUENCE and quorum == 1 and rules.veto:
        message = "with a quorum of 1 the first approver decides, and nobody else is ever asked"
        yield (*loc, "order"), warning(message, 'Set quorum = "all", or order = "any".')
    if rules.order is Order.SEQUENCE and rules.slack_channel:
        message = "all approvers see the card in the channel immediately"
        remedy = (
            "They still decide in sequence. Remove slack_channel to send the cards in sequence."
        )
        yield (*loc, "order"), warning(message, remedy)
    spans = (rules.within, *rules.remind)
    if people and any(span.business for span in spans) and not any(one.hours for one in people):
        message = "nobody who is asked has working hours: it is counted by the clock"
        yield (*loc, "within"), warning(message, 'Add hours = ["Mon-Fri 09:00-17:00"] to people.')
    # Repeated reminders go on until the level ends, so only the first one has to be before that.
    repeats = rules.remind == repeated(rules.remind[0]) if rules.remind else False
    for span in rules.remind[:1] if repeats else rules.remind:
        within = rules.within
        # If one is in days and the other in hours, the comparison depends on the working hours.
        alike = (span.business, bool(span.days)) == (within.business, bool(within.days))
        if alike and (span.days, span.length) >= (within.days, within.length):
            message = f"{span} is not before the end of the level, {rules.within}"
            yield (*loc, "remind"), warning(message, "Nobody is reminded then.")


def _channels(settings: Settings, loc: Loc, level: Level) -> Iterator[Found]:
    known = (EMAIL, SLACK, *settings.channels)
    for name in level.channels:
        if name not in known:
            remedy = suggest(name, known)
            yield (*loc, "channels"), defect(f"{name!r} is not a channel", remedy)
    if (SLACK in level.channels or level.slack_channel) and not settings.slack.enabled:
        key = "slack_channel" if level.slack_channel else "channels"
        remedy = f"{NO_SLACK}, or remove it: then people are asked by mail."
        yield (*loc, key), defect("Slack is not set up", remedy)


def _notify_by(settings: Settings, loc: Loc, channels: tuple[str, ...]) -> Iterator[Found]:
    """Yield the faults of the channels for notifications of people who do not decide."""
    known = (EMAIL, SLACK, *settings.channels)
    for name in channels:
        if name not in known:
            remedy = suggest(name, known) or f"Name one of {', '.join(known)}."
            yield loc, defect(f"{name!r} is not a channel", remedy)
    if SLACK in channels and not settings.slack.enabled:
        remedy = f"{NO_SLACK}, or remove it: then people are told by mail."
        yield loc, defect("Slack is not set up", remedy)


def _most(settings: Settings, ask: Iterable[str]) -> int | None:
    """Return how many people can be asked at most; None if that is only known at run time."""
    people: set[str] = set()
    others = 0
    queues = {queue.name: queue for queue in settings.queues}
    for one in ask:
        queue = queues.get(one.removeprefix(QUEUE)) if one.startswith(QUEUE) else None
        unknown = one.startswith(QUEUE) and queue is None
        if unknown or one.startswith((SCHEDULE, SLACK_GROUP, ASKED)):
            return None
        if queue is not None and queue.pick is Pick.EVERYONE:
            people |= {*queue.members}
        elif queue is not None or is_managers(one):
            others += 1
        else:
            people.add(one)
    return len(people) + others


def _people(settings: Settings, ask: Iterable[str]) -> list[Person]:
    """Return the active people who are asked, directly or through a queue."""
    queues = {queue.name: queue.members for queue in settings.queues}
    names: set[str] = set()
    for one in ask:
        names |= {*queues.get(one.removeprefix(QUEUE), ())} if one.startswith(QUEUE) else {one}
    return [person for person in settings.people if person.active and person.id in names]
