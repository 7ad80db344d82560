"""Settings from files: ``SIGNOFF_INBOX__SECRET_KEY_FILE`` names one that holds the secret key.

Docker, Kubernetes and systemd provide secrets as files, because every program that a process
starts inherits its environment, and many tools show it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from signoff.cli.composition.credentials import NESTED, PREFIX
from signoff.cli.config.faults import Fault

FILE: Final = "_FILE"
PATHS: Final = frozenset({"ca_file"})
"""Settings that are paths themselves: ``_FILE`` is a part of their names."""

_LONGEST: Final = 65_536


def with_files(
    environment: Mapping[str, str], sections: Collection[str]
) -> tuple[dict[str, str], list[Fault]]:
    """Return an environment with the contents of these files, and the faults of the files.

    The value is the text of the file, without the line feed at its end.

    Args:
        environment: Names and values.
        sections: The names of the sections of the settings.
    """
    found, faults = dict(environment), []
    names = {name.upper() for name in environment}
    for name, path in environment.items():
        base = name.upper().removesuffix(FILE)
        section, nested, _ = base.removeprefix(PREFIX).lower().partition(NESTED)
        if base == name.upper() or not base.startswith(PREFIX):
            continue
        own = name.lower().rpartition(NESTED)[2] in PATHS
        if own or (not nested and section not in sections):
            continue
        del found[name]
        if base in names:
            problem = f"{base} is set too"
        else:
            problem, found[base] = _read(path)
        if problem:
            found.pop(base, None)
            faults.append(Fault("", problem, "Set one of the two, to a file with text.", name))
    return found, faults


def _read(path: str) -> tuple[str, str]:
    """Return the problem of a file, or "", and its text."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        return f"the file that it names cannot be read: {error}", ""
    if not text.strip():
        return "the file that it names is empty", ""
    if len(text) > _LONGEST:
        return f"the file that it names has more than {_LONGEST} characters", ""
    return "", text.removesuffix("\n").removesuffix("\r")
