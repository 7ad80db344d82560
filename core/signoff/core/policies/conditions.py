"""The expressions in the settings: CEL over the facts of one tool call or one decision.

The language is Google's Common Expression Language (https://cel.dev), evaluated by the
`common-expression-language` package. It terminates and is pure, so the core may use it.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from signoff.core.base.errors import ConditionError
from signoff.core.directory.hours import zone
from signoff.core.policies.condition_cost import MOST, cost, variables_of_loops

# The package imports its terminal program with prompt_toolkit, which costs each process 8 MB and a
# tenth of a second.
sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))
import cel  # noqa: E402 -- see above

if TYPE_CHECKING:
    from cel import Program

NAMES = ("app", "agent", "tool", "args", "user")
"""The facts of a call: four strings, and `args`, a map."""

POLICY_NAMES = (*NAMES, "now")
"""The names that `when`, `ceiling` and `second_step` of a policy can use; see `clock`."""

LIMIT_NAMES = (*NAMES, "limit")
"""The names that `until` can use: `limit` is a map of the limits of the person who approves."""

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
"""The values of `now.weekday`."""

_MAPS = frozenset({"args", "result", "values", "proposal", "limit"})
_FLAGS = frozenset({"approved"})

_TYPES = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "null_type", "optional", "string", "uint"}
)
"""Names that CEL defines, as in ``type(args.amount) == int``."""

_FAULT = re.compile(
    r"<input>:(?P<line>\d+):(?P<column>\d+): (?:Syntax error: )?(?P<what>.+?)(?: expecting |$)",
    re.MULTILINE,
)
_TOKEN = re.compile(r"(?:input|at:?) '(.*)'$")
"""A fault of an expression in the words of its parser, and the token at fault."""

_BOUND = re.compile(r"\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*,")
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_NAME_OR_NUMBER = r"(?:args|now|limit)(?:\.[A-Za-z_]\w*)+|\b[0-9][0-9.]*"
_COMPARED = re.compile(rf"({_NAME_OR_NUMBER})\s*(?:[<>]=?|[-+*/%])\s*({_NAME_OR_NUMBER})")
_PATH = re.compile(r"\bargs(?:\.[A-Za-z_]\w*)+")
_FIELDS: Final = r"(?<![\w.]){name}((?:\.[A-Za-z_]\w*(?!\w|\s*\())+)"
"""The fields that an expression reads of a name: ``args.vendor.id``, not ``args.size()``."""

_PATTERN: Final = re.compile(
    r"""\b(app|agent|tool|user)\s*[=!]=\s*("[^"]*[*?][^"]*"|'[^']*[*?][^']*')"""
)
_AS_TEXT: Final = re.compile(r"""[<>]=?\s*("-?\d[\d.,]*"|'-?\d[\d.,]*')""")
_LITERAL: Final = r"""(?:true\b|false\b|-?(?:0|[1-9]\d*)(?:\.\d+)?(?![\w.])|"[^"\\]*"|'[^'\\]*')"""
_ARGUMENT: Final = r"\bargs((?:\.[A-Za-z_]\w*)+)"
_EQUALITY: Final = re.compile(
    rf"{_ARGUMENT}\s*[=!]=\s*({_LITERAL})|(?<![\w.])({_LITERAL})\s*[=!]=\s*{_ARGUMENT}"
    rf"|{_ARGUMENT}\s+in\s*\[((?:\s*{_LITERAL}\s*(?:,|(?=\])))*)\s*\]"
)
_ONE_LITERAL: Final = re.compile(_LITERAL)
_SCALARS: Final = frozenset({bool, int, float, str})
_NOTHING: Final = object()
_INDEX: Final = re.compile(r"""\[\s*(["'])([A-Za-z_]\w*)\1\s*\]""")
"""``["vendor"]``, which reads the same field as ``.vendor``."""

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
    """Return the value of `now` in conditions: a moment in local time.

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
        raise ConditionError(
            f"{source!r} is not a CEL expression: {_why_not_cel(str(error))}"
        ) from error


def _why_not_cel(error: str) -> str:
    """Return the first fault that the parser names, without the tokens that it expects there."""
    fault = _FAULT.search(error)
    if fault is None:
        return error.partition("\n")[0]
    what, token = fault["what"], _TOKEN.search(fault["what"])
    if what.startswith("Incomplete") or (token and token[1] == "<EOF>"):
        return "it is not complete"
    what = f"unexpected {token[1].strip()!r}" if token else what
    return f"{what} in line {fault['line']}, column {fault['column']}"


def pitfalls(source: str) -> Iterator[str]:
    """Yield what an expression most likely does not mean, in words."""
    for name, text in _PATTERN.findall(source):
        yield f"it compares {name} with {text}, where * and ? have no meaning"
    for text in _AS_TEXT.findall(source):
        yield f'it compares with the text {text}, letter by letter: "1000" comes before "500"'


def limits_in(source: str) -> tuple[str, ...]:
    """Return the names of the limits that an expression reads."""
    return tuple(dict.fromkeys(_OF_LIMIT.findall(source)))


def reads_clock(source: str) -> bool:
    """Say whether an expression uses `now`."""
    try:
        return bool(source) and "now" in _compiled(source).variables()
    except ConditionError:
        return False


def check(source: str, names: Sequence[str] = NAMES, *, gives: type = bool) -> None:
    """Refuse an expression that can never be evaluated.

    Args:
        source: The expression.
        names: The names that it can use.
        gives: The type of its result: true or false, or a map.

    Raises:
        ConditionError: It does not parse, uses another name, or its result has another type.
    """
    program = _compiled(source)
    if unknown := _unknown_names(source, program, names):
        raise ConditionError(
            f"{source!r} uses {unknown[0]!r}, which does not exist. The names are "
            f"{', '.join(names)}."
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
        return  # an argument that only some tools have
    except (RuntimeError, NameError) as error:
        if "ndefined variable" in str(error) or "ndeclared reference" in str(error):
            raise ConditionError(
                f"{source!r}: {str(error).rstrip('.')}. The names are {', '.join(names)}."
            ) from error
        return
    except (TypeError, ValueError, ArithmeticError, IndexError):
        return  # depends on the types of real arguments
    if not isinstance(result, gives):
        wanted = "true or false" if gives is bool else "a map"
        raise ConditionError(f"{source!r} gives {type(result).__name__}, not {wanted}.")


def _check_now(source: str) -> None:
    """Refuse comparisons with `now` that can never be true."""
    known = clock(_SOME_MOMENT, "UTC")
    for name in _OF_NOW.findall(source):
        if name not in known:
            raise ConditionError(
                f"{source!r} uses now.{name}, which does not exist. There are "
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
    """Return the names in an expression that no call has.

    Evaluating a sample does not find all of them: `x == 1 && args.y` ends at `args.y`.
    """
    # `args.items.exists(item, item > 1)`: the macros bind their first argument.
    bound = set(_BOUND.findall(source))
    return sorted(set(program.variables()) - {*names, *bound, *_TYPES})


def holds(source: str, facts: Mapping[str, JsonValue]) -> bool:
    """Say whether an expression is true for these facts; false if an argument is missing.

    Raises:
        ConditionError: It cannot be evaluated on these facts, for example because an argument has
            another type, or an item of a list lacks a field. The default approver is then asked.
    """
    try:
        result = value(source, facts)
    except KeyError as error:
        if _lacks_in_loop(source, facts):
            # CEL stops at the first item without the field, and the next one may be the large one.
            raise ConditionError(
                f"{source!r} cannot be evaluated on this call: an item has no {error.args[0]!r}"
            ) from error
        return False
    if not isinstance(result, bool):
        raise ConditionError(f"{source!r} gives {type(result).__name__}, not true or false.")
    for name, path, meant in _equalities(source):
        found = _at(facts.get("args"), path)
        if not _is_mistyped(found, meant):
            continue
        args = _with(facts.get("args"), path, meant)
        try:
            matters = value(source, {**facts, "args": args}) is not result
        except (KeyError, ConditionError):
            matters = False
        if matters:
            raise ConditionError(
                f"{name} is {_KINDS[type(found)]}, but must be {_KINDS[type(meant)]}"
            )
    return result


@lru_cache(maxsize=1024)
def _equalities(source: str) -> tuple[tuple[str, list[str], JsonValue], ...]:
    """Return the arguments that an expression compares with values by ``==``, ``!=`` or ``in``.

    For CEL, values of different types are only unequal, which is no error.
    """
    found = list[tuple[str, list[str], JsonValue]]()
    for one in _EQUALITY.finditer(_INDEX.sub(r".\2", source)):
        path = one[1] or one[4] or one[5]
        for text in _ONE_LITERAL.findall(one[2] or one[3] or one[6]):
            meant = text[1:-1] if text[0] in "\"'" else json.loads(text)
            found.append((f"args{path}", path[1:].split("."), meant))
    return tuple(found)


def _is_mistyped(found: object, meant: JsonValue) -> bool:
    """Say whether a value of another type has the same meaning: ``"true"`` or 1 for true."""
    if type(found) not in _SCALARS or _sort(found) is _sort(meant):
        return False
    texts = [one if isinstance(one, str) else json.dumps(one) for one in (found, meant)]
    if texts[0].strip().lower() == texts[1].strip().lower():
        return True
    numbers = [_number(one) for one in (found, meant)]
    return numbers[0] is not None and numbers[0] == numbers[1]


def _sort(value: object) -> type:
    """Return the type of a scalar; int and float are one type."""
    return float if type(value) is int else type(value)


def _number(value: object) -> float | None:
    """Return the number that a scalar stands for: 1 for true and for ``"1"``; None for others."""
    try:
        return float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None


def _with(found: JsonValue, path: Sequence[str], meant: JsonValue) -> JsonValue:
    """Return a value with another field at a path."""
    if not path or not isinstance(found, Mapping):
        return meant
    return {**found, path[0]: _with(found.get(path[0]), path[1:], meant)}


def _lacks_in_loop(source: str, facts: Mapping[str, JsonValue]) -> bool:
    """Say whether a field may be missing inside of a loop, and not only an argument."""
    text = _QUOTED.sub('""', _INDEX.sub(r".\2", source))
    if not (variables := variables_of_loops(text)):
        return False
    args, direct = facts.get("args"), _fields("args", text)
    present = [found for path in direct if (found := _at(args, path)) is not _NOTHING]
    if direct and len(present) == len(direct):
        return True
    read = [path for name in variables for path in _fields(name, text)]
    items = [item for found in present for item in _items(found)]
    return any(_at(item, path) is _NOTHING for item in items for path in read)


def _fields(name: str, text: str) -> list[list[str]]:
    return [path[1:].split(".") for path in re.findall(_FIELDS.format(name=name), text)]


def _at(found: object, path: Sequence[str]) -> object:
    """Return the field of an object at a path, `_NOTHING` if there is none."""
    for part in path:
        if not isinstance(found, Mapping) or part not in found:
            return _NOTHING
        found = found[part]
    return found


def _items(found: object) -> Iterator[object]:
    """Yield the objects in all lists of a value."""
    if isinstance(found, Mapping):
        for one in found.values():
            yield from _items(one)
    elif isinstance(found, list | tuple):
        for one in found:
            if isinstance(one, Mapping):
                yield one
            yield from _items(one)


def covers(until: str, facts: Mapping[str, JsonValue], limits: Mapping[str, float]) -> bool:
    """Say whether limits fulfil the `until` of a level; false if it cannot be evaluated."""
    try:
        return not until or holds(until, {**facts, "limit": dict(limits)})
    except ConditionError:
        return False


def value(source: str, facts: Mapping[str, JsonValue]) -> JsonValue:
    """Return the result of an expression.

    Raises:
        KeyError: It uses a missing argument.
        ConditionError: It cannot be evaluated on these facts, or would take too long on them.
    """
    if cost(source, facts) > MOST:
        raise ConditionError(
            f"{source!r} is not evaluated on this call: it has too many values, and would take too "
            "long."
        )
    name, wanted = _first(source)
    if name and isinstance(found := facts.get(name), str) and found != wanted:
        return False
    program = _compiled(source)
    # CEL copies all that it is given, so it gets only the facts that the expression names.
    named = {one: facts[one] for one in program.variables() if one in facts}
    try:
        result: JsonValue = program.execute(named)
    except KeyError:
        raise
    except (RuntimeError, NameError, TypeError, ValueError, ArithmeticError, IndexError) as error:
        raise ConditionError(_why(source, facts, error)) from error
    return result


@lru_cache(maxsize=1024)
def _first(source: str) -> tuple[str, str]:
    """Return the name and the text of ``tool == "refund" && …``, which is false for other tools.

    Most policies begin like this, so CEL does not have to run for most calls. The name is "" for
    any other expression.
    """
    found, plain = _FIRST.match(source), _QUOTED.sub("", source)
    if found is None or any(sign in plain for sign in ("||", "?", "//")):
        return "", ""
    _compiled(source)
    return found[1], found[2] or found[3] or ""


def _why(source: str, facts: Mapping[str, JsonValue], error: Exception) -> str:
    """Return why an expression cannot be evaluated on a call, in one line of plain words."""
    text = _QUOTED.sub('""', source)
    for left, right in _COMPARED.findall(text):
        kinds = [_kind(one, facts) for one in (left, right)]
        for name, kind, other in ((left, *kinds), (right, *reversed(kinds))):
            if other == "a number" and kind not in {"", "a number"}:
                return f"{name} is {kind}, but must be a number"
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
    """Return the type of a name's value in words, "" if it has no value."""
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
