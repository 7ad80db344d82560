"""Settings: their sources, and errors in their form."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.cli.config.faults import ConfigErrors, Fault
from signoff.cli.config.settings import Settings, load_settings
from signoff.cli.config.toml_lines import line_of


def write(tmp_path: Path, text: str, name: str = "signoff.toml") -> Path:
    """Write a settings file."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def faults(path: Path | None = None) -> dict[str, Fault]:
    """Load invalid settings and return the errors by key."""
    with pytest.raises(ConfigErrors) as caught:
        load_settings(path)
    return {fault.key: fault for fault in caught.value.faults}


def test_without_file_and_environment_the_defaults_are_in_force(tmp_path: Path) -> None:
    """The first start needs no settings."""
    settings = load_settings()
    assert settings.file is None
    assert settings.home == tmp_path
    assert settings.redis.url == settings.broker_url == "redis://127.0.0.1:6379/0"
    assert settings.sessions_url == ""
    assert settings.agents.concurrency == 128
    assert "url" not in settings.redis.model_fields_set


def test_arguments_win_over_environment_over_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source overrides the later ones by key, not by table."""
    write(tmp_path, '[redis]\nurl = "redis://file/0"\nprefix = "file:"\n[gateway]\nport = 1\n')
    monkeypatch.setenv("SIGNOFF_REDIS__URL", "redis://variable/0")
    settings = load_settings()
    assert settings.redis.url == "redis://variable/0"
    assert settings.redis.prefix == "file:"
    assert settings.gateway.port == 1
    assert settings.gateway.host == "127.0.0.1"
    direct = Settings.model_validate({"redis": {"url": "redis://argument/0"}})
    assert direct.redis.url == "redis://argument/0"
    assert direct.gateway.port == 8080


def test_secret_from_the_environment_stays_hidden_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A numeric password stays text, and its repr is hidden."""
    write(tmp_path, '[email.smtp]\nhost = "127.0.0.1"\nusername = "signoff"\n')
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PASSWORD", "12345678")
    settings = load_settings()
    assert settings.email.smtp.password.get_secret_value() == "12345678"
    assert "12345678" not in repr(settings)


def test_lists_in_the_environment_are_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers can be configured without a file."""
    monkeypatch.setenv("SIGNOFF_PEOPLE", '[{"id": "mara", "email": "mara@example.com"}]')
    assert load_settings().people[0].id == "mara"
    monkeypatch.setenv("SIGNOFF_PEOPLE", "mara")
    fault = faults()["people"]
    assert fault.source == "SIGNOFF_PEOPLE"
    assert "JSON" in fault.message
    monkeypatch.delenv("SIGNOFF_PEOPLE")
    monkeypatch.setenv("SIGNOFF_PEOPLE__AWAY", "[]")
    with pytest.raises(ConfigErrors) as caught:
        load_settings()
    (fault,) = caught.value.faults
    assert fault.source == "SIGNOFF_PEOPLE__AWAY"
    assert "Set SIGNOFF_PEOPLE to the whole list, as JSON." in str(fault)


def test_the_file_is_found_by_argument_variable_or_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--config overrides SIGNOFF_CONFIG, which overrides ./signoff.toml."""
    usual = write(tmp_path, "[gateway]\nport = 1\n")
    by_variable = write(tmp_path, "[gateway]\nport = 2\n", "variable.toml")
    by_argument = write(tmp_path, "[gateway]\nport = 3\n", "argument.toml")
    assert load_settings().gateway.port == 1
    monkeypatch.setenv("SIGNOFF_CONFIG", str(by_variable))
    assert load_settings().gateway.port == 2
    assert load_settings(by_argument).gateway.port == 3
    assert load_settings(by_argument).file == by_argument
    assert usual.exists()


def test_a_file_that_was_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistyped name does not start with the defaults."""
    assert faults(Path("nowhere.toml"))[""].message == "there is no such file"
    monkeypatch.setenv("SIGNOFF_CONFIG", "elsewhere.toml")
    assert "SIGNOFF_CONFIG" in faults()[""].message


@pytest.mark.parametrize("kind", ["folder", "broken link"])
def test_a_settings_file_that_is_not_a_file_is_an_error(tmp_path: Path, kind: str) -> None:
    """Without this error Signoff would start with the defaults, without any policy."""
    usual = tmp_path / "signoff.toml"
    if kind == "folder":
        usual.mkdir()
    else:
        usual.symlink_to(tmp_path / "gone.toml")
    fault = faults()[""]
    assert fault.source == str(usual)
    assert fault.remedy
    assert "not a file" in faults(tmp_path)[""].message


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    (tmp_path / "signoff.toml").write_bytes(b"\xef\xbb\xbf[gateway]\nport = 7\n")
    assert load_settings().gateway.port == 7


def test_relative_paths_start_at_the_settings_file(tmp_path: Path) -> None:
    """Processes in different folders use the same agents and sessions."""
    (tmp_path / "conf").mkdir()
    file = write(tmp_path / "conf", '[agents]\nfolder = "mine"\n[sessions]\nurl = "sqlite:///s.db"')
    settings = load_settings(file)
    assert settings.agents_folder == tmp_path / "conf" / "mine"
    assert settings.sessions_url == f"sqlite:///{tmp_path}/conf/s.db"
    assert settings.state_folder == tmp_path / "conf" / ".signoff"


@pytest.mark.parametrize("url", ["sqlite:////var/s.db", "sqlite:///:memory:", "postgresql+x://h/d"])
def test_other_session_urls_are_unchanged(tmp_path: Path, url: str) -> None:
    """ADK's own syntax is passed on."""
    assert load_settings(write(tmp_path, f'[sessions]\nurl = "{url}"')).sessions_url == url


def test_all_settings_errors_have_file_line_key_and_suggestion(tmp_path: Path) -> None:
    """The message is enough to repair the whole file."""
    file = write(
        tmp_path,
        """\
[redis]
ur = "x"
[[people]]
id = "mara"
email = "mara@example.com"
[[policies]]
name = "one"
ask = ["mara"]
withn = "4h"
[[policies]]
name = "two"
on_timeout = "panic"
[emial]
sender = "x"
[log]
level = "loud"
[gateway]
port = "http"
""",
    )
    found = faults()
    assert {key: fault.source for key, fault in found.items()} == {
        "redis.ur": f"{file}:2",
        "policies[0].withn": f"{file}:9",
        "policies[1].ask": f"{file}:10",
        "policies[1].on_timeout": f"{file}:12",
        "emial": f"{file}:13",
        "log.level": f"{file}:16",
        "gateway.port": f"{file}:18",
    }
    assert found["redis.ur"].remedy == "Did you mean 'url'?"
    assert found["policies[0].withn"].remedy == "Did you mean 'within'?"
    assert found["policies[1].ask"].remedy == "Add it to [[policies]]."
    assert "'stay' or 'approve', not 'panic'" in found["policies[1].on_timeout"].message
    assert found["emial"].remedy == "Did you mean 'email'?"
    assert found["gateway.port"].message == "it should be a whole number, not 'http'"


def test_a_fault_in_a_variable_names_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message does not point to the file."""
    monkeypatch.setenv("SIGNOFF_GATEWAY__PROT", "1")
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PORT", "smtp")
    monkeypatch.setenv("SIGNOFF_EMIAL__SENDER", "x")
    found = faults()
    assert found["gateway.prot"].source == "SIGNOFF_GATEWAY__PROT"
    assert found["email.smtp.port"].source == "SIGNOFF_EMAIL__SMTP__PORT"
    assert found["emial"].source == "SIGNOFF_EMIAL__SENDER"
    assert found["emial"].remedy == "Did you mean 'email'?"


def test_a_secret_is_not_quoted_in_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a password or a URL does not contain its value."""
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PASSWORD", "hunter2")
    with pytest.raises(ConfigErrors) as caught:
        load_settings()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("content", [b"[redis\n", b"a = b", b"\xff\xfe"])
def test_invalid_toml_error_names_the_file(tmp_path: Path, content: bytes) -> None:
    """The parser's error has the file's name."""
    (tmp_path / "signoff.toml").write_bytes(content)
    assert faults()[""].source == str(tmp_path / "signoff.toml")


@pytest.mark.parametrize(
    ("loc", "line"),
    [
        (("a",), 1),
        (("a", "x"), 2),
        (("a", "b", "y"), 4),
        (("list", 0, "z"), 6),
        (("list", 1), 7),
        (("list", 1, "missing"), 7),
        (("list", 1, "sub", "deep"), 9),
        (("dotted", "key"), None),
        (("a", "in", "line"), 10),
    ],
)
def test_lines_of_settings_are_found(loc: tuple[int | str, ...], line: int | None) -> None:
    """Headers, keys, arrays of tables, and the closest table of a missing key."""
    headers = "[a] x=1 [a.b] y=1 [[list]] z=1 [[list]] [list.sub] deep=1 [a.in]"
    text = headers.replace(" ", "\n") + "  # line = 1"
    assert line_of(text, loc) == line


PUBLIC = {
    "a page": '[inbox]\nurl = "https://x.example"\nsecret_key = "{key}"\n',
    "a port": '[gateway]\nhost = "0.0.0.0"\n',
    "Slack by HTTP": '[slack]\nbot_token = "xoxb-1"\nsigning_secret = "{key}"\n',
    "mail by HTTP": '[email.webhook]\nmailgun_secrets = ["{key}"]\n',
}
"""Settings that announce requests from other machines."""


@pytest.mark.parametrize("kind", PUBLIC)
def test_public_gateway_requires_a_token_from_local_programs(tmp_path: Path, kind: str) -> None:
    """A local proxy makes foreign requests look like local ones."""
    public = PUBLIC[kind].format(key="k" * 32)
    assert not load_settings(write(tmp_path, public)).local_programs
    said = public if "[gateway]" in public else public + "[gateway]\n"
    assert load_settings(write(tmp_path, said + "local = true\n")).local_programs


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("", True),
        ('[inbox]\nurl = "http://localhost:8080"\nsecret_key = "{key}"\n', True),
        ("[gateway]\nlocal = false\n", False),
        ('[[gateway.tokens]]\nusers = ["*"]\nsha256 = "{hash}"\n', False),
        ('[gateway]\nlocal = true\n[[gateway.tokens]]\nusers = ["*"]\nsha256 = "{hash}"\n', False),
    ],
)
def test_local_gateway_requires_no_token_unless_configured(
    tmp_path: Path, text: str, may: bool
) -> None:
    """Local use is for development; the tables of tokens end it."""
    text = text.format(key="k" * 32, hash="0" * 64)
    assert load_settings(write(tmp_path, text)).local_programs is may
