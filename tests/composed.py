"""Reads compose.yaml as `docker compose` does: merged with further files, variables filled in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.core import TyperCommand, TyperGroup

from signoff.cli.config.check import require
from signoff.cli.config.settings import Settings, load_settings
from signoff.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples" / "deploy" / "compose"
OVERLAYS = ("mailbox", "mail", "slack", "push", "adk-api")
"""The names of the files that extend compose.yaml, without their suffix."""

_VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::-([^}]*))?\})")


@cache
def composed(*overlays: str) -> dict[str, Any]:
    """Return compose.yaml, merged with some of the files that extend it.

    A variable has its default unless a value is given here.
    """
    found: dict[str, Any] = {}
    files = [ROOT / "compose.yaml", *(FOLDER / f"{one}.yaml" for one in overlays)]
    for file in files:
        found = _merged(found, yaml.safe_load(file.read_text(encoding="utf-8")))
    filled: dict[str, Any] = _filled(found)
    return filled


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the services that run Signoff's image."""
    services: dict[str, dict[str, Any]] = compose["services"]
    return {name: one for name, one in services.items() if one["image"] == "signoff:local"}


def line_of(service: dict[str, Any]) -> list[str]:
    """Return the command line of a service."""
    return [*service.get("entrypoint", ()), *service["command"]]


def kind_of(service: dict[str, Any]) -> str:
    """Return the kind of process that a service runs; "" for a command of a person."""
    word = line_of(service)[1]
    return word if word in {"worker", "channels", "gateway", "mailbox"} else ""


def secret_files(compose: dict[str, Any], service: dict[str, Any], folder: Path) -> dict[str, Path]:
    """Return the files of the secrets of a service, by their paths in its container.

    Args:
        compose: The merged content.
        service: One of its services.
        folder: The replacement of ./secrets.
    """
    return {
        f"/run/secrets/{name}": folder / Path(compose["secrets"][name]["file"]).name
        for name in service.get("secrets", ())
    }


def settings_of(
    kind: str,
    environment: Mapping[str, str | None],
    files: Mapping[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    file: Path = ROOT / "examples" / "signoff.toml",
) -> Settings:
    """Return the settings of a process, checked as at its start.

    Args:
        kind: The kind of process; "" is a command of a person.
        environment: Its environment; a variable without a value is not set.
        files: Its secrets, by their paths in the container.
        monkeypatch: Sets the environment.
        file: Its settings file.
    """
    for name, value in environment.items():
        if name.startswith("SIGNOFF_") and value is not None:
            monkeypatch.setenv(name, str(files[value]) if name.endswith("_FILE") else value)
    settings = load_settings(file, kind)
    require(settings, kind)
    return settings


def command(words: list[str]) -> TyperCommand:
    """Find the command of a command line in the tree of commands, ignoring options."""
    here: object = typer.main.get_command(app)
    for word in words:
        if word.startswith("-") or not isinstance(here, TyperGroup):
            break
        here = here.commands[word]
    assert isinstance(here, TyperCommand), f"`signoff {' '.join(words)}` is not a whole command"
    return here


def make_secrets(folder: Path, **environment: str) -> None:
    """Run the script that makes the secrets of an installation."""
    programs = Path(sys.executable).parent
    subprocess.run(
        ["/bin/sh", str(ROOT / "examples" / "deploy" / "make-secrets"), str(folder)],
        check=True,
        cwd=folder.parent,
        capture_output=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", **environment},
    )


def _merged(first: Any, second: Any) -> Any:
    if isinstance(first, dict) and isinstance(second, dict):
        both = {key: _merged(first[key], second[key]) for key in first.keys() & second.keys()}
        return first | second | both
    return first + second if isinstance(first, list) and isinstance(second, list) else second


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one) for key, one in value.items() if not key.startswith("x-")}
    if isinstance(value, list):
        return [_filled(one) for one in value]
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: (found[2] or "") if found[1] else "$", value)
    return value
