"""The expressions in the settings: CEL over the facts of one tool call or one decision.

The language is Google's Common Expression Language (https://cel.dev), evaluated by the
`common-expression-language` package: it terminates, does no I/O and is pure, which is why the
core may use it.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from pydantic import JsonValue

from signoff.core.base.errors import ConditionError
from signoff.core.directory.hours import zone
from signoff.core.policies.condition_cost import MOST, cost

# The package imports its own terminal program, with prompt_toolkit: 8 MB and a tenth of a second of
# each process and command.
sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
import cel  # noqa: E402 -- see above

if TYPE_CHECKING:
    from cel import Program

NAMES = ("app", "agent", "tool", "args", "user")
"""The names that are known of a call: four strings, and `args`, a map."""

POLICY_NAMES = (*NAMES, "now")
"""The names that `when`, `ceiling` and `second_step` of a policy can use; see `clock`."""

LIMIT_NAMES = (*NAMES, "limit")
"""The names that `until` can use: `limit` is a map of the limits of the person who approves."""

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""What `now.weekday` can be."""

_MAPS = frozenset({"args", "result", "values", "proposal", "limit"})
_FLAGS = frozenset({"approved"})

_TYPES = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "optional", "string", "uint"}
)
"""Names that CEL itself gives a meaning, as in ``type(args.amount) == int``."""

_BOUND = re.compile(r"\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*,")
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_NAME_OR_NUMBER = r"(?:args|now|limit)(?:\.[A-Za-z_]\w*)+|\b[0-9][0-9.]*"
_COMPARED = re.compile(rf"({_NAME_OR_NUMBER})\s*(?:[<>]=?|[-+*/%])\s*({_NAME_OR_NUMBER})")
_PATH = re.compile(r"\bargs(?:\.[A-Za-z_]\w*)+")
_KINDS: Mapping[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    type(None): "empty",
    list: "a list",
}
_OF_LIMIT = re.compile(r"\blimit\s*\.\s*([A-Za-z_]\w*)")
_OF_NOW = re.compile(r"\bnow\s*\.\s*([A-Za-z_]\w*)")
_WEEKDAY = re.compile(r"\bnow\s*\.\s*weekday\s*(?:==|!=|in)\s*(\[[^\]]*\]|\"[^\"]*\"|'[^']*')")
_SOME_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
_FIRST = re.compile(
    r"""\s*(app|agent|tool|user)\s*==\s*(?:"([^"\\\n]*)"|'([^'\\\n]*)')\s*(?:&&|\Z)"""
)
_TEXT = re.compile(r"\"([^\"]*)\"|'([^']*)'")


def clock(moment: datetime, time_zone: str) -> dict[str, JsonValue]:
    """Return what `now` stands for in conditions: a moment as clocks in a time zone show it.

    Returns:
        ``weekday`` ("Mon" … "Sun"), ``date`` ("2026-11-20"), ``hour`` (0 to 23), ``minute``,
        ``day`` of the month and ``month`` (from 1), ``year``.
    """
    here = moment.astimezone(zone(time_zone))
    return {
        "weekday": WEEKDAYS[here.weekday()],
        "date": here.date().isoformat(),
        "hour": here.hour,
        "minute": here.minute,
        "day": here.day,
        "month": here.month,
        "year": here.year,
    }


@lru_cache(maxsize=1024)
def _compiled(source: str) -> Program:
    try:
        return cel.compile(source)
    except ValueError as error:
        first = str(error).splitlines()[0]
        raise ConditionError(f"{source!r} is not a CEL expression: {first}") from error


def limits_in(source: str) -> tuple[str, ...]:
    """Return the names of the limits that an expression reads."""
    return tuple(dict.fromkeys(_OF_LIMIT.findall(source)))


def reads_clock(source: str) -> bool:
    """Say whether an expression depends on the time of day or the day."""
    try:
        return bool(source) and "now" in _compiled(source).variables()
    except ConditionError:
        return False


def check(source: str, names: Sequence[str] = NAMES, *, gives: type = bool) -> None:
    """Refuse an expression that can never be evaluated.

    Args:
        source: The expression.
        names: What it can use.
        gives: What it has to give: true or false, or a map.

    Raises:
        ConditionError: It does not parse, uses a name that is not one of these, or gives
            something else.
    """
    program = _compiled(source)
    if unknown := _unknown_names(source, program, names):
        raise ConditionError(
            f"{source!r} uses {unknown[0]!r}, which is not there. The names are {', '.join(names)}."
        )
    _check_now(source)
    sample: dict[str, JsonValue] = {
        name: {} if name in _MAPS else name in _FLAGS or "" for name in names
    }
    if "now" in names:
        sample["now"] = clock(_SOME_MOMENT, "UTC")
    try:
        result = program.execute(sample)
    except KeyError:
        return  # an argument that only some tools have: decided when a call is there
    except (RuntimeError, NameError) as error:
        if "ndefined variable" in str(error) or "ndeclared reference" in str(error):
            raise ConditionError(
                f"{source!r}: {error}. The names are {', '.join(names)}."
            ) from error
        return
    except (TypeError, ValueError, ArithmeticError, IndexError):
        return  # depends on the types of real arguments
    if not isinstance(result, gives):
        wanted = "true or false" if gives is bool else "a map"
        raise ConditionError(f"{source!r} gives {type(result).__name__}, not {wanted}.")


def _check_now(source: str) -> None:
    """Refuse what can never be true of `now`."""
    known = clock(_SOME_MOMENT, "UTC")
    for name in _OF_NOW.findall(source):
        if name not in known:
            raise ConditionError(
                f"{source!r} uses now.{name}, which is not there. There are "
                f"{', '.join(f'now.{one}' for one in known)}."
            )
    for compared in _WEEKDAY.findall(source):
        for double, single in _TEXT.findall(compared):
            if (day := double or single) not in WEEKDAYS:
                raise ConditionError(
                    f"{source!r} compares now.weekday with {day!r}, which is not a day. "
                    f"The days are {', '.join(WEEKDAYS)}."
                )


def _unknown_names(source: str, program: Program, names: Sequence[str]) -> list[str]:
    """Return what an expression reads and no call has.

    Running it on a sample does not find all of them: `x == 1 && args.y` ends at `args.y`.
    """
    # `args.items.exists(item, item > 1)`: the macros bind their first argument.
    bound = set(_BOUND.findall(source))
    return sorted(set(program.variables()) - {*names, *bound, *_TYPES})


def holds(source: str, facts: Mapping[str, JsonValue]) -> bool:
    """Say whether an expression is true of these facts.

    An argument that this tool does not have makes it false.

    Raises:
        ConditionError: It cannot be evaluated on these facts, for instance because an argument
            has another type; the caller then asks the default approver rather than guess.
    """
    try:
        result = value(source, facts)
    except KeyError:
        return False
    if not isinstance(result, bool):
        raise ConditionError(f"{source!r} gives {type(result).__name__}, not true or false.")
    return result


def covers(until: str, facts: Mapping[str, JsonValue], limits: Mapping[str, float]) -> bool:
    """Say whether limits reach as far as the `until` of a level wants.

    What cannot be evaluated is not covered.
    """
    try:
        return not until or holds(until, {**facts, "limit": dict(limits)})
    except ConditionError:
        return False


def value(source: str, facts: Mapping[str, JsonValue]) -> JsonValue:
    """Return what an expression gives.

    Raises:
        KeyError: It uses an argument that is not there.
        ConditionError: It cannot be evaluated on these facts, or would take too long on them.
    """
    if cost(source, facts) > MOST:
        raise ConditionError(
            f"{source!r} is not evaluated on this call: with so many values it would take too long."
        )
    name, wanted = _first(source)
    if name and isinstance(found := facts.get(name), str) and found != wanted:
        return False
    try:
        result: JsonValue = _compiled(source).execute(dict(facts))
    except KeyError:
        raise
    except (RuntimeError, NameError, TypeError, ValueError, ArithmeticError, IndexError) as error:
        raise ConditionError(_why(source, facts, error)) from error
    return result


@lru_cache(maxsize=1024)
def _first(source: str) -> tuple[str, str]:
    """Return the name and the text of ``tool == "refund" && …``, which is false for other tools.

    Most policies begin so, and most calls meet most policies only to be told that: CEL need not be
    run for it. The name is "" for any other expression.
    """
    found, plain = _FIRST.match(source), _QUOTED.sub("", source)
    if found is None or any(sign in plain for sign in ("||", "?", "//")):
        return "", ""
    _compiled(source)
    return found[1], found[2] or found[3] or ""


def _why(source: str, facts: Mapping[str, JsonValue], error: Exception) -> str:
    """Say in one line of plain words why an expression cannot be evaluated on a call."""
    text = _QUOTED.sub('""', source)
    for left, right in _COMPARED.findall(text):
        kinds = [_kind(one, facts) for one in (left, right)]
        for name, kind, other in ((left, *kinds), (right, *reversed(kinds))):
            if other == "a number" and kind not in {"", "a number"}:
                return f"{name} is {kind}, a number is wanted"
    told = [
        f"{name} is {kind}"
        for name in dict.fromkeys(_PATH.findall(text))
        if (kind := _kind(name, facts))
    ]
    first = re.split(r"[:.] ", str(error).splitlines()[0], maxsplit=1)[0].rstrip(".")
    because = "" if isinstance(error, TypeError | RuntimeError | NameError) else f" ({first})"
    seen = f", where {', '.join(told)}" if told else ""
    return f"{source!r} cannot be evaluated on this call{seen}{because}"


def _kind(name: str, facts: Mapping[str, JsonValue]) -> str:
    """Say what sort of value a name stands for, "" where it stands for none."""
    if name[0].isdigit():
        return "a number"
    found: JsonValue = dict(facts)
    for part in name.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return ""
        found = found[part]
    if isinstance(found, float) and math.isnan(found):
        return "not a number"
    return _KINDS.get(type(found), "an object")
