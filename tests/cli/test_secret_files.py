"""A variable may name a file with a secret; errors name the variable."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from cli.test_credentials import NEEDED
from signoff.cli.composition.credentials import WITHHELD, own_environment
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.secret_files import PATHS
from signoff.cli.config.settings import Settings, load_settings, source_of

KEY = "SIGNOFF_INBOX__SECRET_KEY"
GOOD = "k" * 32


def test_a_file_gives_the_value(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The final line feed is removed; errors about the value name the file's variable."""
    (tmp_path / "key").write_text(f"{GOOD}\n")
    (tmp_path / "url").write_text("redis://:p@ss word@redis:6379/3")
    monkeypatch.setenv(f"{KEY}_FILE", str(tmp_path / "key"))
    monkeypatch.setenv("SIGNOFF_INBOX__URL", "https://signoff.example.com")
    monkeypatch.setenv("signoff_redis__url_file", str(tmp_path / "url"))
    monkeypatch.setenv("SIGNOFF_CHANNELS_FILE", str(tmp_path / "none"))
    (tmp_path / "none").write_text("{}")
    settings = load_settings()
    assert settings.inbox.secret_key.get_secret_value() == GOOD
    assert settings.redis.url == "redis://:p@ss word@redis:6379/3"
    assert source_of(settings, ("inbox", "secret_key")) == f"{KEY}_FILE"
    (tmp_path / "url").write_text("8080x")
    monkeypatch.setenv("SIGNOFF_GATEWAY__PORT_FILE", str(tmp_path / "url"))
    with pytest.raises(ConfigErrors, match="SIGNOFF_GATEWAY__PORT_FILE: "):
        load_settings()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot be read"),
        ("\n", "is empty"),
        (b"\xff\xfe", "cannot be read"),
        ("x" * 70_000, "more than"),
    ],
)
def test_secret_file_without_a_secret_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | bytes | None, why: str
) -> None:
    """A missing secret must not look like an unset one."""
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    monkeypatch.setenv(f"{KEY}_FILE", str(file))
    with pytest.raises(ConfigErrors, match=f"{KEY}_FILE.*{why}"):
        load_settings()


def test_secret_and_secret_file_together_are_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would be unclear which one is meant."""
    (tmp_path / "key").write_text(GOOD)
    monkeypatch.setenv(KEY, GOOD)
    monkeypatch.setenv(f"{KEY}_FILE", str(tmp_path / "key"))
    with pytest.raises(ConfigErrors, match=f"{KEY} is set too"):
        load_settings()


@pytest.mark.parametrize("kind", list(WITHHELD))
def test_no_process_is_given_the_file_of_anothers_secret(kind: str) -> None:
    """A process gets neither another's secret nor its file name."""
    names = [f"SIGNOFF_{one.upper().replace('.', '__')}" for one in NEEDED if "*" not in one]
    plain = own_environment(kind, dict.fromkeys(names, "s"))
    files = own_environment(kind, {f"{name}_FILE": "/run/secrets/s" for name in names})
    assert set(files) == {f"{name}_FILE" for name in plain}


def test_settings_that_are_paths_stay_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings whose own names end like this are known."""
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__CA_FILE", "/etc/ca.pem")
    assert load_settings().email.smtp.ca_file == Path("/etc/ca.pem")
    assert set(fields_of(Settings)) == PATHS


def fields_of(annotation: Any) -> Iterator[str]:
    """Yield the names of all settings that end in ``_file``."""
    for part in typing.get_args(annotation):
        yield from fields_of(part)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            yield from fields_of(field.annotation)
            if name.endswith("_file"):
                yield name
