"""Reads people from CSV files and code, and policies from code."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from signoff.cli.config.faults import Fault, faults_of, suggest, why_unreadable
from signoff.core.base.errors import ConfigError
from signoff.core.base.model import Value
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Policy

_FACTORY: Final = r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$"

ADDRESS: Final = "address."
"""The prefix of a column with addresses in a custom channel: ``address.mattermost``."""

_LISTS: Final = ("aliases", "hours", "roles", "notify_requester", "notify_by")
_AWAY: Final = {"away_from": "from", "away_to": "to", "delegate": "delegate"}
_PLAIN: Final = ("id", "name", "email", "slack", "manager", "time_zone", "holidays", "active")
COLUMNS: Final = (*_PLAIN, *_LISTS, *_AWAY)
"""The columns of a CSV file of people, in any order; `id` and `email` are required."""


class DirectorySettings(Value):
    """[directory]: people from other sources. They are read when a process starts."""

    csv: str = Field(
        "",
        description="A CSV file of people, relative to the settings file: one row for each, with "
        "the columns "
        + ", ".join(f"`{one}`" for one in COLUMNS)
        + " in any order. Separate several "
        f"values by `|`. Addresses in your own channels have the columns `{ADDRESS}NAME`.",
    )
    factory: str = Field(
        "",
        pattern=_FACTORY,
        description="`package.module:name`: creates a source of your own. It is called with "
        "`options`, and its method `people` returns values of "
        "`signoff.core.directory.people.Person`.",
    )
    options: dict[str, JsonValue] = Field(
        default_factory=dict, description="The argument of the factory."
    )
    unknown_requesters: Literal["ask", "refuse"] = Field(
        "ask",
        description="What happens to a call if the run's user is not in the directory: `ask` asks "
        "the approvers; `refuse` rejects it and tells the agent why. Use `refuse` if "
        "people can choose their user id, because they could approve their own "
        "requests under their real name.",
    )


class ComputedPolicies(Value):
    """[policy]: policies computed by code when a process starts."""

    factory: str = Field(
        "",
        pattern=_FACTORY,
        description="`package.module:name`: computes policies. It is called with `options`, and "
        "returns values of `signoff.core.policies.policy.Policy`, or tables as in "
        "[[policies]]. They follow those of the file.",
    )
    options: dict[str, JsonValue] = Field(
        default_factory=dict, description="The argument of the factory."
    )


class Sourced(NamedTuple):
    """People from outside the settings file.

    Attributes:
        people: The people who could be read.
        places: The place of each person: file and line, or the source.
        faults: The faults of the others, each with its place.
    """

    people: list[Person]
    places: list[str]
    faults: list[Fault]


def sourced(settings: DirectorySettings, home: Path) -> Sourced:
    """Read the people of all sources; relative paths are relative to `home`."""
    found = Sourced([], [], [])
    if settings.csv:
        _read_csv(home / settings.csv, found)
    if settings.factory:
        _ask(settings, found)
    return found


class CsvPeople:
    """A `PeopleSource` that reads a CSV file, for sources that write one.

    The file is in UTF-8, with a header, and commas or semicolons between the fields.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def people(self) -> Iterable[Person]:
        """Return everybody in the file.

        Raises:
            ConfigError: The file has faults; the message lists all of them.
        """
        found = Sourced([], [], [])
        _read_csv(self._file, found)
        if found.faults:
            raise ConfigError("\n".join(str(fault) for fault in found.faults))
        return found.people


def text_of(file: Path) -> str | Fault:
    """Return the content of a text file, or the fault if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        remedy = "It must be UTF-8 text that this user may read."
        return Fault("", f"{file} cannot be read: {why_unreadable(error)}", remedy)


def _read_csv(file: Path, found: Sourced) -> None:
    key = "directory.csv"
    text = text_of(file)
    if isinstance(text, Fault):
        found.faults.append(Fault(key, text.message, text.remedy))
        return
    header = text.partition("\n")[0]
    by = ";" if header.count(";") > header.count(",") else ","
    rows = csv.reader(text.splitlines(keepends=True), delimiter=by, strict=True)
    names: list[str] = []
    try:
        for row in rows:
            place = f"{file}:{rows.line_num}"
            if not any(cell.strip() for cell in row):
                continue
            if not names:
                names = [name.strip().lower() for name in row]
                found.faults.extend(_wrong_columns(names, place))
                if found.faults:
                    return
                continue
            _take_row(dict(zip_longest(names, row[: len(names)], fillvalue="")), place, found)
            if len(row) > len(names):
                message = f"this row has {len(row)} fields, and the header {len(names)}"
                remedy = "Put a field with a comma in it between quotes."
                found.faults.append(Fault(key, message, remedy, place))
    except csv.Error as error:
        place = f"{file}:{rows.line_num}"
        found.faults.append(Fault(key, f"it is not CSV: {error}", "See RFC 4180.", place))
    if not names:
        message = "it has no header"
        found.faults.append(Fault(key, message, f"Begin it with: {by.join(COLUMNS)}", str(file)))


def _wrong_columns(names: list[str], place: str) -> Iterator[Fault]:
    for at, name in enumerate(names):
        if name not in COLUMNS and not name.startswith(ADDRESS):
            message = f"there is no column {name!r}"
            yield Fault("directory.csv", message, suggest(name, COLUMNS), place)
        elif name in names[:at]:
            message = f"the column {name!r} is there twice"
            yield Fault("directory.csv", message, "Remove one of them.", place)
    for name in ("id", "email"):
        if name not in names:
            remedy = f"The columns are: {', '.join(COLUMNS)}."
            yield Fault("directory.csv", f"the column {name!r} is missing", remedy, place)


def _take_row(row: Mapping[str, str], place: str, found: Sourced) -> None:
    cells = {name: cell.strip() for name, cell in row.items() if cell.strip()}
    person: dict[str, Any] = {name: cell for name, cell in cells.items() if name in _PLAIN}
    for name in _LISTS:
        if name in cells:
            person[name] = [one.strip() for one in cells[name].split("|") if one.strip()]
    person["addresses"] = {
        name.removeprefix(ADDRESS): cell for name, cell in cells.items() if name.startswith(ADDRESS)
    }
    if away := {inner: cells[name] for name, inner in _AWAY.items() if name in cells}:
        person["away"] = [away]
    try:
        found.people.append(Person.model_validate(person))
        found.places.append(place)
    except ValidationError as error:
        for loc, fault in faults_of(error, Person):
            column = next((name for name, inner in _AWAY.items() if inner == loc[-1]), str(loc[0]))
            message = f"column {column}: {fault.message}"
            found.faults.append(Fault("directory.csv", message, fault.remedy, place))


def _ask(settings: DirectorySettings, found: Sourced) -> None:
    name = settings.factory
    try:
        source = _made(name, settings.options)
        people = [Person.model_validate(one) for one in source.people()]
    except Exception as error:  # noqa: BLE001 -- the source may raise anything
        remedy = "See docs/how-to/connect-a-directory.md for what a source has to do."
        found.faults.append(_fault("directory.factory", name, "people", error, remedy))
        return
    found.people.extend(people)
    found.places.extend(name for _ in people)


def computed(settings: ComputedPolicies) -> list[Policy] | Fault:
    """Return the policies that code computes, or its fault."""
    if not settings.factory:
        return []
    try:
        made = _made(settings.factory, settings.options)
        return [Policy.model_validate(one) for one in made]
    except Exception as error:  # noqa: BLE001 -- the code may raise anything
        remedy = "It has to return policies; see docs/how-to/write-a-policy.md."
        return _fault("policy.factory", settings.factory, "policies", error, remedy)


class _CannotBeLoadedError(Exception):
    """The module, or the name in it, does not exist or raises while it is imported."""


def _made(name: str, options: Mapping[str, JsonValue]) -> Any:  # noqa: ANN401 -- third-party code
    module, _, attribute = name.partition(":")
    try:
        factory = getattr(import_module(module), attribute)
    except Exception as error:
        raise _CannotBeLoadedError(f"{type(error).__name__}: {error}") from error
    return factory(options)


def _fault(key: str, name: str, what: str, error: Exception, remedy: str) -> Fault:
    if isinstance(error, _CannotBeLoadedError):
        remedy = "It must be on the Python path of every process: installed, or PYTHONPATH."
        return Fault(key, f"{name} cannot be loaded: {error}", remedy)
    return Fault(key, f"{name} returned no {what}: {type(error).__name__}: {error}", remedy)
