"""Policies that code computes, in addition to those of the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from cli.conftest import Invoke
from signoff.cli.config.check import check
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import load_settings
from signoff.core.policies.policy import Policy

ROOT = Path(__file__).parents[2]

BEFORE = """\
[agents]
folder = "."
[[people]]
id = "mara"
email = "mara@example.com"
[default]
ask = ["mara"]
[[policies]]
name = "travel"
when = 'tool == "travel"'
ask = ["mara"]
"""


def by_tool(options: Mapping[str, Mapping[str, str]]) -> Iterator[Policy | dict[str, object]]:
    """Yield a policy for each tool, half of them as tables."""
    for tool, person in options["owners"].items():
        yield Policy(name=tool, when=f'tool == "{tool}"', ask=(person,))
        later = f'tool == "{tool}_later"'
        yield {"name": f"{tool} later", "when": later, "levels": [{"ask": [person]}]}


def written(folder: Path, table: str) -> Path:
    """Return a settings file with a table for computed policies."""
    file = folder / "signoff.toml"
    file.write_text(f"{BEFORE}[policy]\n{table}\n")
    return file


def test_computed_policies_follow_the_file_policies_in_order(tmp_path: Path) -> None:
    """They keep their order, as models or as tables, and are valid."""
    table = f'factory = "{__name__}:by_tool"\noptions.owners = {{ deploy = "mara" }}'

    settings = load_settings(written(tmp_path, table))

    assert [one.name for one in settings.policies] == ["travel", "deploy", "deploy later"]
    assert settings.policies[2].levels[0].ask == ("mara",)
    assert check(settings) == []


def test_computed_policies_are_validated(tmp_path: Path) -> None:
    """An unknown person is reported with the position in the list."""
    table = f'factory = "{__name__}:by_tool"\noptions.owners = {{ deploy = "nobody" }}'

    (first, *_) = check(load_settings(written(tmp_path, table)))

    assert first.key == "policies[1].ask"
    assert "'nobody' is not the id of anybody" in first.message


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("nothing.at_all:make", "nothing.at_all:make cannot be loaded: ModuleNotFoundError"),
        ("builtins:nothing", "builtins:nothing cannot be loaded: AttributeError"),
        (f"{__name__}:by_tool", "returned no policies: KeyError: 'owners'"),
        ("builtins:str", "returned no policies: ValidationError"),
    ],
)
def test_invalid_policy_function_is_an_error(tmp_path: Path, factory: str, said: str) -> None:
    """The error has the setting, the line and a suggestion; no process starts."""
    with pytest.raises(ConfigErrors) as raised:
        load_settings(written(tmp_path, f'factory = "{factory}"'))

    (fault,) = raised.value.faults
    assert fault.key == "policy.factory"
    assert said in fault.message
    assert fault.remedy
    assert "signoff.toml:" in fault.source


def test_the_example_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's code and table make the policies that the page describes."""
    text = (ROOT / "docs" / "how-to" / "write-a-policy.md").read_text(encoding="utf-8")
    code = text.partition("# our_policies.py")[2].partition("```")[0]
    table = text.partition("    [policy]\n")[2].partition("\n\n")[0]
    (tmp_path / "our_policies.py").write_text("#" + code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    settings = load_settings(written(tmp_path, dedent(table)))

    assert [one.name for one in settings.policies[1:]] == ["owner of deploy", "owner of rollback"]


asked: list[object] = []
"""The options of each call of `counted`."""


def counted(options: Mapping[str, object]) -> list[Policy]:
    """Record the call, and return no policy."""
    asked.append(options)
    return []


def test_command_computes_policies_once(tmp_path: Path, invoke: Invoke) -> None:
    """Computing may be slow, so a command that reads its settings repeatedly does it once."""
    asked.clear()
    file = written(tmp_path, f'factory = "{__name__}:counted"')
    nowhere = {"SIGNOFF_REDIS__URL": "redis://127.0.0.1:1/0"}
    done = invoke("--config", str(file), "archive", "run", "--after", "1d", env=nowhere)
    assert (done.exit_code, "Redis cannot be reached" in done.output) == (1, True)
    assert len(asked) == 1
