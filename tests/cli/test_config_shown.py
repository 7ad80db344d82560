"""The settings about displayed values: titles, amounts, and hidden values."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import Settings, load_settings
from signoff.cli.log import HIDDEN, Redactor

PEOPLE = '[[people]]\nid = "mara"\nemail = "mara@example.com"\n'
POLICY = '[[policies]]\nname = "payments"\nask = ["mara"]\n'


def loaded(tmp_path: Path, text: str) -> Settings:
    """Return the settings of a file with these policies."""
    file = tmp_path / "signoff.toml"
    file.write_text(PEOPLE + text, encoding="utf-8")
    return load_settings(file)


@pytest.mark.parametrize(
    ("line", "key", "said"),
    [
        ('title = "Pay {args.sum:mony EUR}"', "title", "{args.sum:mony EUR} has an unknown format"),
        ('title = "Pay {user}"', "title", "{user} is not a fact of a call"),
        ('title = "Pay {args.iban}"\nhide = ["iban"]', "", "{args.iban} shows an argument"),
        ('money = { sum = "euro" }', "money.sum", "'euro' is not a currency"),
        ('hide = ["args.iban"]', "hide[0]", "write 'iban'"),
    ],
)
def test_a_fault_names_the_policy_and_the_placeholder(
    tmp_path: Path, line: str, key: str, said: str
) -> None:
    """It also has the key and the line of the file."""
    with pytest.raises(ConfigErrors) as caught:
        loaded(tmp_path, f"{POLICY}{line}\n")
    (fault,) = caught.value.faults
    assert fault.key == f"policies[0].{key}".rstrip(".")
    assert f"policy 'payments': {key}".rstrip(": ") in str(fault)
    assert "policies[" not in str(fault)
    assert said in fault.message
    assert "signoff.toml:" in fault.source


def test_values_hidden_by_a_policy_are_never_logged(tmp_path: Path) -> None:
    """This holds for every policy and the default, in addition to the usual redaction."""
    settings = loaded(
        tmp_path,
        f'{POLICY}hide = ["customer.iban"]\n[default]\nask = ["mara"]\nhide = ["password"]\n'
        '[log]\nredact = ["ssn"]\n',
    )
    assert settings.all_hidden == ("password", "customer.iban")
    assert settings.logging.redact == ("ssn", "password", "iban")
    event = {"event": "x", "args": {"customer": {"iban": "DE89"}}, "text": 'password="hunter22"'}
    clean = Redactor(settings.logging.redact)(None, "info", event)
    assert clean["args"] == {"customer": {"iban": HIDDEN}}
    assert "hunter22" not in str(clean)


def test_default_time_zone_applies_to_people_without_one(tmp_path: Path) -> None:
    """People without a time zone get the default's zone."""
    settings = loaded(tmp_path, '[default]\nask = ["mara"]\ntime_zone = "Europe/Berlin"\n')
    assert settings.everybody.zone_of("mara").key == "Europe/Berlin"
