"""Compares the policies with the tools of the agents, and with the people who are present."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from signoff.cli.config.deciders import check as never_met
from signoff.cli.config.deciders import fault_of, unmet_levels
from signoff.cli.config.faults import place_text, suggest
from signoff.cli.config.settings import Settings
from signoff.cli.doctor.finding import Finding
from signoff.core.directory.people import Directory
from signoff.core.policies.comparisons import Alternative, alternatives
from signoff.core.policies.policy import Policy

Tools = Mapping[str, Mapping[str, Sequence[str]] | None]
"""By agent: the arguments of each tool; None if it may have other tools than are known."""

_ARGUMENT: Final = re.compile(r"\bargs\.([A-Za-z_]\w*)")
_ALIKE: Final = 0.8
_VERY_ALIKE: Final = 0.9


def about_rules(
    settings: Settings, tools: Tools, directory: Directory, now: datetime
) -> Iterator[Finding]:
    """Yield the policies that never match a call of the agents here, or that cannot be met now.

    Agents of other machines, MCP servers and programs may have other tools. So a tool that is
    unknown here is reported only if its agent is named, or if it looks like a misspelt one.

    Args:
        settings: The settings.
        tools: The tools of the agents here.
        directory: The people with their absences.
        now: The present (UTC).
    """
    yield from _unknown_tools(settings, tools)
    yield from _unknown_arguments(settings, tools)
    yield from _unshown_arguments(settings, tools)
    yield from _misspelt_names(settings, tools)
    apps: dict[str, list[str]] = {}
    for app, known in tools.items():
        for tool in known or ():
            apps.setdefault(tool, []).append(app)
    always = {loc for loc, _ in never_met(settings)}
    for one in unmet_levels(settings, directory, now, apps):
        # Seats without any person are reported one by one, with the absences.
        if one.loc not in always and (one.calls or not one.why.startswith("nobody")):
            yield Finding(
                "policies", "warning", f"{place_text(one.loc, settings)}: {fault_of(one)}"
            )


def _unknown_tools(settings: Settings, tools: Tools) -> Iterator[Finding]:
    every = {tool for known in tools.values() for tool in known or ()}
    named = {
        tool for policy in settings.policies for way in _ways(policy) for tool in way.texts("tool")
    }
    for policy in settings.policies:
        pairs = {(tool, way.texts("app")) for way in _ways(policy) for tool in way.texts("tool")}
        for tool, apps in sorted(pairs):
            own = [tools.get(app) for app in apps]
            names = {one for known in own for one in known or ()}
            if own and None not in own and tool not in names:
                text = f"names the tool {tool!r}, which {' or '.join(apps)} does not have"
                yield _unknown(policy, text, tool, names)
            # If policies name the similar tool too, this one is probably another tool.
            elif not own and tool not in every and _like(tool, every - named):
                text = f"names the tool {tool!r}, which no agent here has"
                yield _unknown(policy, text, tool, every)


def _unknown_arguments(settings: Settings, tools: Tools) -> Iterator[Finding]:
    for policy in settings.policies:
        lacking = [_lacking(way, tools) for way in _ways(policy)]
        if lacking and all(lacking):
            name, tool, has = lacking[0] or ("", "", set())
            text = f"compares args.{name}, which {tool} does not take, so it matches no call"
            yield _unknown(policy, text, name, has)


def _lacking(way: Alternative, tools: Tools) -> tuple[str, str, set[str]] | None:
    """Return an argument that a condition compares and that its tools do not take.

    Returns:
        The argument, the tools, and the arguments that they take; None if there is no such
        argument, or the tools are not known.
    """
    has = _taken(way, tools)
    compared = (name for one in way.names for name in _ARGUMENT.findall(one))
    name = next((one for one in compared if has is not None and one not in has), "")
    return (name, " or ".join(way.texts("tool")), has) if name and has is not None else None


def _taken(way: Alternative, tools: Tools) -> set[str] | None:
    """Return the arguments of the tools that a condition names; None if they are not known."""
    apps = [one for one in way.texts("app") or tools if one in tools]
    if any(tools[app] is None for app in apps):
        return None
    known = [tools[app] or {} for app in apps]
    taken = [own[tool] for own in known for tool in way.texts("tool") if tool in own]
    return {one for arguments in taken for one in arguments} if taken else None


def _unshown_arguments(settings: Settings, tools: Tools) -> Iterator[Finding]:
    """Yield arguments that a title shows, `money` formats or `hide` masks, and no tool takes."""
    for policy in settings.policies:
        takes = [_taken(way, tools) for way in _ways(policy)]
        has = {name for one in takes for name in one or ()}
        if not takes or None in takes:
            continue
        money = {name for pair in policy.money.items() for name in _roots(*pair)}
        for key, names in (
            ("title", {*_ARGUMENT.findall(policy.title)}),
            ("money", money),
            # A name hides fields inside of arguments too.
            ("hide", {one for one in policy.hide if _like(one, has)}),
        ):
            for name in sorted(names - has):
                text = f"names args.{name} in `{key}`, which its tools do not take"
                yield _unknown(policy, text, name, has)


def _roots(name: str, currency: str) -> list[str]:
    """Return the arguments that an entry of `money` names."""
    return [name.partition(".")[0], *_ARGUMENT.findall(currency)]


def _misspelt_names(settings: Settings, tools: Tools) -> Iterator[Finding]:
    """Yield misspelt names outside of policies, which would silently have no effect."""
    every = {tool for known in tools.values() for tool in known or ()}
    arguments = {name for known in tools.values() for own in (known or {}).values() for name in own}
    waits, inputs, owners = settings.long_running, settings.inputs, settings.agents.owners
    # Programs have names too, which are only in the ledger.
    apps = set[str]() if settings.aap.enabled else {*tools, *settings.agents.remote}
    for where, what, names, known, alike in (
        # Owners can also be of an agent whose folder has a similar name.
        ("[agents.owners]", "agent", {*owners}, apps, _VERY_ALIKE),
        ("[[long_running]]", "agent", {one.app for one in waits}, apps, _ALIKE),
        ("[[inputs]]", "agent", {one.app for one in inputs}, apps, _ALIKE),
        ("[[long_running]]", "tool", {one.tool for one in waits}, every, _ALIKE),
        ("[default] hide", "argument", {*settings.default.hide}, arguments, _ALIKE),
    ):
        for name in sorted(names - known):
            if right := _like(name, known - names, alike):
                text = f"{where} names the {what} {name!r}, which is not here."
                yield Finding("policies", "warning", f"{text} {suggest(name, {right})}")


def _ways(policy: Policy) -> list[Alternative]:
    return [one for one in alternatives(policy.when) if not one.contrary]


def _like(name: str, known: Collection[str], alike: float = _ALIKE) -> str:
    return next(iter(difflib.get_close_matches(name, sorted(known), n=1, cutoff=alike)), "")


def _unknown(policy: Policy, text: str, name: str, known: Collection[str]) -> Finding:
    text = f"policy {policy.name!r} {text}. {suggest(name, known)}".rstrip()
    return Finding("policies", "warning", text)
