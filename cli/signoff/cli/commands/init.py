"""`signoff init`: set up a folder in which `signoff up` runs."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from signoff.cli.config.toml_lines import toml_text
from signoff.cli.terminal import say
from signoff.core.base.errors import ConfigError

_AGENT: Final = "finance"
_CASES: Final = "signoff.test.toml"
_REQUESTER: Final = "nora@example.com"
_NAME: Final = "Mara Lind"
_EMAIL: Final = "mara@example.com"
_FOLDER: Final = "agents"

_IGNORED: Final = ".signoff/\n"
"""The line for .gitignore: the folder contains the state of this machine, and secrets."""


def init(
    *,
    name: Annotated[str, typer.Option(help=f"Who approves. The default is {_NAME}.")] = "",
    email: Annotated[str, typer.Option(help=f"Their address. The default is {_EMAIL}.")] = "",
    agents: Annotated[
        str,
        typer.Option(
            metavar="FOLDER",
            help="Your folder of ADK agents. By default an example is written into agents/.",
        ),
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing; take the defaults.")] = False,
) -> None:
    """Write signoff.toml, an example agent and tests of the policies into this folder.

    Without options it asks three questions. Afterwards `signoff up` starts everything. Existing
    files are never changed, except that .gitignore gets a line for .signoff/.
    """
    from signoff.cli.config.settings import FILE_NAME  # noqa: PLC0415 -- help must not wait for it

    for taken in (FILE_NAME, _CASES):
        if Path(taken).exists():
            raise ConfigError(
                f"{Path(taken).resolve()} is there already, and `signoff init` changes no file. "
                "Start it with `signoff up`, or call `signoff init` in another folder."
            )
    if not (name or email or agents or yes) and sys.stdin.isatty():
        name = typer.prompt("Who approves? Their name", default=_NAME)
        email = typer.prompt("Their mail address", default=_EMAIL)
        agents = typer.prompt(
            "Your folder of ADK agents (Enter writes an example)", default="", show_default=False
        )
    _write(name or _NAME, email or _EMAIL, agents)


def _write(name: str, email: str, agents: str) -> None:
    from signoff.cli.composition.first_steps import first_steps  # noqa: PLC0415 -- as above
    from signoff.cli.config.check import require  # noqa: PLC0415
    from signoff.cli.config.settings import FILE_NAME, load_settings  # noqa: PLC0415
    from signoff.cli.example_files import examples  # noqa: PLC0415

    if agents and not Path(agents).is_dir():
        raise ConfigError(f"{agents} is not a folder. It has a folder for each agent.")
    approver = _id_of(name, email)
    written = []
    for file in (FILE_NAME, _CASES):
        text = (examples("start") / file).read_text("utf-8")
        text = text.replace('"mara"', toml_text(approver)).replace(
            toml_text(_EMAIL), toml_text(email)
        )
        text = text.replace(toml_text(_NAME), toml_text(name))
        text = text.replace(f'folder = "{_FOLDER}"', f"folder = {toml_text(agents or _FOLDER)}")
        Path(file).write_text(text, "utf-8")
        written.append(file)
    if not agents and not (Path(_FOLDER) / _AGENT).exists():
        source = examples("agents") / _AGENT
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, Path(_FOLDER) / _AGENT, ignore=ignored)
        written.append(f"{_FOLDER}/{_AGENT}/")
    if _ignore(Path(".gitignore")):
        written.append(".gitignore")
    settings = load_settings(Path(FILE_NAME))
    require(settings)
    say(f"Wrote {', '.join(written)}. Now start it, and go on in a second terminal:\n")
    say("Start:  signoff up")
    for line in first_steps(settings):
        say(line)


def _ignore(file: Path) -> bool:
    """Add our line to .gitignore, unless it exists already; return whether it was added."""
    text = file.read_bytes().decode("utf-8", "surrogateescape") if file.exists() else ""
    if any(line.strip().strip("/") == _IGNORED.strip("/\n") for line in text.splitlines()):
        return False
    end = "\n" if text and not text.endswith("\n") else ""
    with file.open("a", encoding="utf-8", newline="") as lines:
        lines.write(f"{end}{_IGNORED}")
    return True


def _id_of(name: str, email: str) -> str:
    """Return the id of the approver: the local part of the address, if that is a valid id.

    Raises:
        ConfigError: The name or the address cannot be used.
    """
    from pydantic import ValidationError  # noqa: PLC0415 -- help must not wait for it

    from signoff.core.base.plain import plainly  # noqa: PLC0415
    from signoff.core.directory.people import Person, identity_key  # noqa: PLC0415

    if identity_key(email) == _REQUESTER:
        raise ConfigError(
            f"--email: {email} is who asks in the example, and nobody approves their own request."
        )
    try:
        Person(id="approver", name=name, email=email)
    except ValidationError as error:
        what = error.errors()[0]
        raise ConfigError(f"--{what['loc'][0]} {what['input']!r}: {plainly(what)}") from error
    found = email.partition("@")[0].partition("+")[0].lower()
    usable = (
        re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", found) and f"{found}@example.com" != _REQUESTER
    )
    return found if usable else "approver"
