"""The faults of the settings: each with its place, its problem and its remedy."""

from __future__ import annotations

import difflib
import re
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from signoff.core.base.errors import ConfigError
from signoff.core.base.plain import plainly

Loc = tuple[int | str, ...]
"""The path of a setting: ``("policies", 0, "within")``."""

_SECRET_WORDS = ("password", "secret", "token", "url")

_BRANCH = re.compile(r"\[key\]|constrained-\w+|literal\[.*|function-.*|lax-or-strict\[.*")
"""Parts that pydantic adds to the path of a value, for each type that it has tried."""

_NAMED: Final = {
    "policies": ("policy", "name"),
    "people": ("person", "id"),
    "queues": ("queue", "name"),
    "schedules": ("schedule", "name"),
    "webhooks": ("webhook", "name"),
    "cases": ("case", "name"),
}
"""Tables that may be repeated: the noun for one of them, and the key with its name."""


class Fault(NamedTuple):
    """A fault of the settings.

    Attributes:
        key: The setting, as people write it: ``policies[0].within``.
        message: What is wrong.
        remedy: What to do; "" if the message already says it.
        source: The file (with the line, if it is known) or the environment variable.
        severity: An error keeps Signoff from starting; a warning does not.
        place: The setting with the name of its policy, person or queue instead of a number:
            ``policy 'expenses': within``; "" if the setting has no such name.
    """

    key: str
    message: str
    remedy: str = ""
    source: str = ""
    severity: Literal["error", "warning"] = "error"
    place: str = ""

    def __str__(self) -> str:
        """Return source, place, message and remedy on one line."""
        place = self.place or self.key
        head = ": ".join(part for part in (self.source, place, self.message) if part)
        return f"{head}. {self.remedy}" if self.remedy else head


Found = tuple[Loc, Fault]
"""A fault and its path; the caller that collects faults fills in their places."""


def defect(message: str, remedy: str) -> Fault:
    """Return an error without a place; its path gives the place."""
    return Fault("", message, remedy)


def warning(message: str, remedy: str) -> Fault:
    """Return a warning without a place; its path gives the place."""
    return Fault("", message, remedy, severity="warning")


class ConfigErrors(ConfigError):
    """The settings have faults; the message lists all of them."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))


def key_text(loc: Loc) -> str:
    """Return the path of a setting as people write it: ``policies[0].within``."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def place_text(loc: Loc, content: object) -> str:
    """Return the path of a setting with the name of its table: ``policy 'x': within``.

    The settings are a model, or the content of a file, with or without faults.
    """
    table, index, *rest = *loc, "", ""
    if table not in _NAMED or not isinstance(index, int):
        return ""
    kind, key = _NAMED[table]
    try:
        one = _part(_part(content, table), index)
        name = _part(one, key)
    except (LookupError, AttributeError, TypeError):
        return ""
    if not isinstance(name, str):
        return ""
    within = key_text(tuple(part for part in rest if part != ""))
    return f"{kind} {name!r}" + (f": {within}" if within else "")


def _part(value: Any, key: int | str) -> Any:  # noqa: ANN401 -- a model, or the content of a file
    return getattr(value, str(key)) if isinstance(value, BaseModel) else value[key]


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[tuple[Loc, Fault]]:
    """Translate the errors of pydantic into faults without a source, each with its path."""
    found: dict[Loc, Fault] = {}
    errors = error.errors(include_url=False)
    for one in errors:
        if one["type"] == "too_short" and any(
            _is_within(other["loc"], one["loc"]) for other in errors
        ):
            continue  # pydantic does not count entries that have errors of their own
        loc = tuple(part for part in one["loc"] if not _BRANCH.fullmatch(str(part)))
        fault = _fault({**one, "loc": loc}, model)
        if loc in found and loc != one["loc"]:
            # If text is allowed too, only the other type's message is useful.
            is_typed = one["type"] == "string_type"
            fault = found[loc] if is_typed else _either(found[loc], fault)
        found[loc] = fault
    return list(found.items())


def export(loc: Loc, value: str = "…") -> str:
    """Return the shell command that sets a setting in the environment.

    The path must not contain numbers. The value is text, or a command that creates it.
    """
    variable = "__".join(str(part).upper() for part in loc)
    return f'export SIGNOFF_{variable}="{value}"'


NO_SLACK: Final = f"Make the Slack app work: {export(('slack', 'bot_token'), 'xoxb-…')}"
"""The remedy if a policy asks in Slack, and Slack is not set up."""


def suggest(word: str, known: Iterable[str]) -> str:
    """Return ``Did you mean 'within'?`` if a known word is similar, else the known words."""
    names = sorted(known)
    close = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.6)
    if close:
        return f"Did you mean {close[0]!r}?"
    return f"Known here: {', '.join(names)}." if names else ""


def unknown_person(
    person: str, known: Collection[str], *, others: Iterable[str] = ()
) -> Fault | None:
    """Return the fault of an id that is not known; None if it is. The `others` may be meant."""
    if person in known:
        return None
    return defect(
        f"{person!r} is not the id of anybody in [[people]]",
        suggest(person, [*known, *others]) or "Add a [[people]] table with this id.",
    )


def _fault(error: ErrorDetails, model: type[BaseModel]) -> Fault:
    loc, kind = error["loc"], error["type"]
    key, name = key_text(loc), str(loc[-1]) if loc else ""
    where = _table(loc[:-1])
    if kind == "extra_forbidden":
        known = _fields_at(model, loc[:-1])
        message = f"{name!r} is not a setting of {where}" if where else "there is no such section"
        return Fault(key, message, suggest(name, known))
    plain = all(isinstance(part, str) for part in loc)
    by_environment = export(loc) if plain and name != "url" and _is_secret(loc[-1:]) else ""
    value = error.get("input")
    if kind == "missing" and value == []:
        return Fault(key, "it is empty", "Name somebody.")
    if kind == "missing":
        add = f"Add it to {where}." if where else "Add it."
        return Fault(
            key, f"{name!r} is missing", f"Set it: {by_environment}" if by_environment else add
        )
    message = plainly(error, table="a table")
    showable = isinstance(value, str | int | float | bool) and not _is_secret(loc)
    if showable and str(value) and str(value) not in message and len(str(value)) <= 80:
        message += f", not {value!r}"
    remedy = f"Set it: {by_environment}" if by_environment else ""
    if kind in {"tuple_type", "list_type"} and isinstance(value, dict):
        remedy = f"Write its header with two brackets: {_table((*loc, 0))}."
    return Fault(key, message[:1].lower() + message[1:], remedy)


def _is_within(loc: Loc, table: Loc) -> bool:
    return len(loc) > len(table) and loc[: len(table)] == table


def _either(one: Fault, other: Fault) -> Fault:
    """Join the faults of a value that allows several types: ``it should be at least 1, or …``."""
    first, value, shown = one.message.partition(", not ")
    second = other.message.partition(", not ")[0].removeprefix("it should be ")
    return one if second in first else one._replace(message=f"{first}, or {second}{value}{shown}")


def _table(loc: Loc) -> str:
    """Return the header of a table, as in the file."""
    names = ".".join(part for part in loc if isinstance(part, str))
    if not names:
        return ""
    return f"[[{names}]]" if isinstance(loc[-1], int) else f"[{names}]"


def _is_secret(loc: Sequence[int | str]) -> bool:
    return any(word in str(part).lower() for part in loc for word in _SECRET_WORDS)


def _fields_at(model: type[BaseModel], loc: Loc) -> list[str]:
    """Return the names of the settings in a table."""
    here: Any = model
    for part in loc:
        for one in _models_in(here):
            if isinstance(part, str) and part in one.model_fields:
                here = one.model_fields[part].annotation
    fields = (pair for one in _models_in(here)[:1] for pair in one.model_fields.items())
    return [field.alias or name for name, field in fields]


def _models_in(annotation: Any) -> list[type[BaseModel]]:  # noqa: ANN401 -- any annotation
    """Return the models in an annotation, including those in tuples, lists and unions."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [model for part in typing.get_args(annotation) for model in _models_in(part)]


def why_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Return why a file cannot be read, without its path: ``No such file or directory``."""
    return str(getattr(error, "strerror", None) or error)


def read_text(file: Path) -> str:
    """Return the text of a file of settings.

    Raises:
        ConfigErrors: It cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"it cannot be read: {why_unreadable(error)}"
        fault = Fault("", message, "Name a UTF-8 text file.", str(file))
        raise ConfigErrors([fault]) from error


def parse_toml(text: str, file: Path | None) -> dict[str, Any]:
    """Return the content of a file of settings.

    Raises:
        ConfigErrors: It is not TOML.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"it is not TOML: {error}"
        remedy = "Text values need quotes, and a key or [table] is set only once; see toml.io."
        raise ConfigErrors([Fault("", message, remedy, str(file))]) from error
