"""The check of the settings' meaning: an error for each mistake, and none otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.cli.config.check import check, require
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import load_settings

GOOD = """\
[agents]
folder = "."
[[people]]
id = "mara"
email = "mara@example.com"
aliases = ["m@example.net"]
[[people]]
id = "cleo"
email = "cleo@example.com"
[[policies]]
name = "large"
when = "tool == 'pay' && args.amount > 1000"
ask = ["cleo"]
[[policies]]
name = "all"
ask = ["mara"]
[default]
ask = ["cleo", "mara"]
"""

PAY = """\
[[policies]]
name = "pay"
when = "tool=='pay'"
ask = ["mara"]
"""

SHA = f'sha256 = "{"0" * 64}"\n'

BAD = {
    "a URL without a scheme": (
        GOOD + '[redis]\nurl = ""\n',
        "redis.url",
        "it has no scheme",
        "error",
    ),
    "metrics that anybody can read": (
        GOOD + '[gateway]\nhost = "0.0.0.0"\n[metrics]\nenabled = true\n',
        "metrics.token",
        "other machines can reach the metrics",
        "error",
    ),
    "metrics of a worker that anybody can read": (
        GOOD + '[metrics]\nenabled = true\nhost = "0.0.0.0"\n',
        "metrics.token",
        "other machines can reach the metrics",
        "error",
    ),
    "two people of one id": (
        GOOD.replace('id = "cleo"', 'id = "mara"')
        .replace('["cleo"]', '["mara"]')
        .replace('["cleo", "mara"]', '["mara"]'),
        "people[1].id",
        "already the id",
        "error",
    ),
    "two people of one address": (
        GOOD.replace("cleo@example.com", "Mara@Example.com"),
        "people[1].email",
        "already an address of 'mara'",
        "error",
    ),
    "two people of one mailbox": (
        GOOD.replace("cleo@example.com", "MARA+2@example.com"),
        "people[1].email",
        "lead to one mailbox",
        "warning",
    ),
    "a time without a unit": (
        GOOD.replace('name = "all"', 'name = "all"\nwithin = 4'),
        "policies[1].within",
        "people have only 4s to answer",
        "warning",
    ),
    "code on several machines without a key": (
        GOOD + '[redis]\nurl = "redis://ledger:6379/0"\n[ces]\nhosts = ["api.example.com"]\n',
        "ces.key",
        "each machine makes a key of its own",
        "warning",
    ),
    "an alias that is somebody's address": (
        GOOD.replace("m@example.net", "cleo@example.com"),
        "people[1].email",
        "already an address of 'mara'",
        "error",
    ),
    "two people of one Slack id": (
        GOOD.replace('mara@example.com"', 'mara@example.com"\nslack = "U012"').replace(
            'cleo@example.com"', 'cleo@example.com"\nslack = "U012"'
        ),
        "people[1].slack",
        "already the Slack id of 'mara'",
        "error",
    ),
    "Slack without a token": (
        GOOD.replace('name = "all"', 'name = "all"\nchannels = ["slack"]'),
        "policies[1].channels",
        "Slack is not set up",
        "error",
    ),
    "a channel without a token": (
        GOOD.replace("[default]", '[default]\nslack_channel = "C012"'),
        "default.slack_channel",
        "Slack is not set up",
        "error",
    ),
    "more than mail can prove here": (
        GOOD + '[email.authentication]\nrequire = "token+from+dmarc"\n',
        "email.authentication.require",
        "nothing here can prove token+from+dmarc",
        "error",
    ),
    "a policy that wants more than mail can prove here": (
        GOOD.replace('name = "all"', 'name = "all"\nemail = "token+from+dmarc"'),
        "policies[1].email",
        "nothing here can prove token+from+dmarc",
        "error",
    ),
    "a default that wants more than mail can prove here": (
        GOOD + 'email = "token+from+dmarc"\n',
        "default.email",
        "nothing here can prove token+from+dmarc",
        "error",
    ),
    "answers that prove nothing": (
        GOOD + '[email.authentication]\nrequire = "token"\n',
        "email.authentication.require",
        "anybody who has a card's address can answer it",
        "warning",
    ),
    "results of everybody": (
        GOOD + '[email.authentication]\nauthserv_id = "mx.example.com"\nrelays = ["0.0.0.0/0"]\n',
        "email.authentication.relays",
        "0.0.0.0/0 means everybody",
        "error",
    ),
    "a result that is no map": (
        GOOD + "[[long_running]]\ntool = 'ask'\nresponse = \"status == 'approved'\"\n",
        "long_running[0]",
        "gives bool, not a map",
        "error",
    ),
    "a result of a name that is not there": (
        GOOD + "[[long_running]]\ntool = 'ask'\nresponse = \"{'to': agent}\"\n",
        "long_running[0]",
        "uses 'agent', which does not exist",
        "error",
    ),
    "a long-running tool that an earlier table takes": (
        GOOD + "[[long_running]]\ntool = 'ask'\n[[long_running]]\ntool = 'ask'\napp = 'x'\n",
        "long_running[1]",
        "never reached",
        "error",
    ),
    "Signoff asks itself": (
        GOOD.replace("cleo@example.com", "approvals@signoff.localhost"),
        "people[1].email",
        "Signoff's own address",
        "error",
    ),
    "a policy asks nobody that is known": (
        GOOD.replace('ask = ["mara"]', 'ask = ["marra"]'),
        "policies[1].ask",
        "'marra' is not the id",
        "error",
    ),
    "the default asks nobody that is known": (
        GOOD.replace('["cleo", "mara"]', '["cleo", "zoe"]'),
        "default.ask",
        "'zoe' is not the id",
        "error",
    ),
    "somebody is named twice": (
        GOOD.replace('["cleo", "mara"]', '["cleo", "cleo"]'),
        "default.ask",
        "twice",
        "warning",
    ),
    "a condition that does not parse": (
        GOOD.replace("> 1000", ">> 1000"),
        "policies[0].when",
        "not a CEL expression",
        "error",
    ),
    "a condition over a name that is not there": (
        GOOD.replace("tool == 'pay' &&", "tol == 'pay' &&"),
        "policies[0].when",
        "tol",
        "error",
    ),
    "a condition that is not true or false": (
        GOOD.replace("tool == 'pay' && args.amount > 1000", "tool + 'x'"),
        "policies[0].when",
        "not true or false",
        "error",
    ),
    "two policies of one name": (
        GOOD.replace('name = "all"', 'name = "large"'),
        "policies[1].name",
        "already the name",
        "error",
    ),
    "a policy behind one that matches all": (
        GOOD.replace("when = \"tool == 'pay' && args.amount > 1000\"", 'when = "true"'),
        "policies[1]",
        "never reached",
        "error",
    ),
    "a policy behind one with fewer conditions": (
        GOOD.replace("[[policies]]", PAY + "[[policies]]", 1),
        "policies[1]",
        "never reached: 'pay' matches each of its calls",
        "warning",
    ),
    "a policy behind one with a lower bound": (
        GOOD.replace(
            "[[policies]]", PAY.replace("'pay'", "'pay' && args.amount > 5") + "[[policies]]", 1
        ),
        "policies[1]",
        "never reached: 'pay' matches each of its calls",
        "warning",
    ),
    "a policy behind one of several tools": (
        GOOD.replace(
            "[[policies]]", PAY.replace("=='pay'", " in ['pay', 'refund']") + "[[policies]]", 1
        ),
        "policies[1]",
        "never reached: 'pay' matches each of its calls",
        "warning",
    ),
    "bounds that exclude each other": (
        GOOD.replace("> 1000", "> 1000 && args.amount < 100"),
        "policies[0].when",
        "it can never be true: it wants contrary values of args.amount",
        "warning",
    ),
    "hours over midnight": (
        GOOD.replace("[[policies]]", "[[policies]]\ntime_zone = 'Europe/Berlin'", 1).replace(
            "args.amount > 1000", "now.hour >= 22 && now.hour < 6"
        ),
        "policies[0].when",
        "contrary values of now.hour",
        "warning",
    ),
    "a ceiling that nothing is under": (
        GOOD.replace(
            'ask = ["mara"]',
            'ask = ["mara"]\non_timeout = "approve"\nceiling = "args.n > 5 && args.n < 2"',
        ),
        "policies[1].ceiling",
        "contrary values of args.n",
        "warning",
    ),
    "a grant that covers nothing": (
        GOOD.replace(
            'ask = ["mara"]',
            'ask = ["mara"]\ngrants = { who = ["mara"], limit = "args.n > 5 && args.n < 2" }',
        ),
        "policies[1].grants.limit",
        "contrary values of args.n",
        "warning",
    ),
    "a pattern that is no pattern": (
        GOOD.replace("tool == 'pay'", "tool == 'pay_*'"),
        "policies[0].when",
        "* and ? have no meaning",
        "warning",
    ),
    "an amount in quotes": (
        GOOD.replace("> 1000", "> '1000'"),
        "policies[0].when",
        "letter by letter",
        "warning",
    ),
    "nobody by default": (
        GOOD.replace('ask = ["cleo", "mara"]', ""),
        "default.ask",
        "nobody is asked",
        "warning",
    ),
    "plain mail to another machine": (
        GOOD + '[email.smtp]\nhost = "mail.example.com"\ninsecure = true\n',
        "email.smtp.security",
        "unencrypted",
        "warning",
    ),
    "answers to another domain": (
        GOOD + '[email]\nmailbox = "approvals@example.org"\n',
        "email.mailbox",
        "example.org",
        "warning",
    ),
    "somebody unknown at this machine": (
        GOOD + '[gateway]\nlocal_person = "marra"\n',
        "gateway.local_person",
        "'marra' is not the id",
        "error",
    ),
    "a person at this machine beside tokens": (
        GOOD + f'[gateway]\nlocal_person = "mara"\n[[gateway.tokens]]\nusers = ["*"]\n{SHA}',
        "gateway.local_person",
        "has no effect",
        "warning",
    ),
    "an API for others, and none of this machine asked for a token": (
        GOOD + '[gateway]\nadk = true\nlocal = true\nhost = "0.0.0.0"\n',
        "gateway.local",
        "requests come from other machines",
        "warning",
    ),
    "a person at this machine of an API for others": (
        GOOD + '[gateway]\nadk = true\nlocal_person = "mara"\n'
        f'[inbox]\nurl = "https://x.example"\nsecret_key = "{"k" * 32}"\nsign_in = ["code"]\n',
        "gateway.local_person",
        "has no effect",
        "warning",
    ),
    "a token of somebody unknown": (
        GOOD + f'[[gateway.tokens]]\nperson = "marra"\n{SHA}',
        "gateway.tokens[0].person",
        "'marra' is not the id",
        "error",
    ),
    "a token that is there twice": (
        GOOD
        + f'[[gateway.tokens]]\nperson = "mara"\n{SHA}[[gateway.tokens]]\nusers = ["*"]\n{SHA}',
        "gateway.tokens[1].sha256",
        "gateway.tokens[0]",
        "error",
    ),
    "a token that can ask and approve": (
        GOOD + f'[[gateway.tokens]]\nperson = "mara"\nusers = ["*"]\n{SHA}',
        "gateway.tokens[0]",
        "submit a request and approve it",
        "warning",
    ),
    "a token for nothing": (
        GOOD + f"[[gateway.tokens]]\n{SHA}",
        "gateway.tokens[0]",
        "it allows nothing",
        "warning",
    ),
    "no folder of agents": (
        GOOD.replace('folder = "."', 'folder = "nowhere"'),
        "agents.folder",
        "nowhere",
        "warning",
    ),
    "a scheme that Redis does not have": (
        GOOD + '[redis]\nurl = "http://localhost"\n',
        "redis.url",
        "http",
        "error",
    ),
    "a port that is none": (
        GOOD + '[redis]\nurl = "redis://localhost:port/0"\n',
        "redis.url",
        "not a URL",
        "error",
    ),
    "no host": (GOOD + '[redis]\nurl = "redis:///0"\n', "redis.url", "no host", "error"),
    "a second step without a page": (
        GOOD.replace('name = "large"', 'name = "large"\nsecond_step = "true"'),
        "policies[0].second_step",
        "no page",
        "error",
    ),
    "a second step of the default without a page": (
        GOOD + 'second_step = "tool == 1"\n',
        "default.second_step",
        "no page",
        "error",
    ),
    "a second step that is no condition": (
        GOOD.replace('name = "large"', 'name = "large"\nsecond_step = "amount > 1"')
        + f'[inbox]\nurl = "https://x.example"\nsecret_key = "{"k" * 32}"\nsign_in = ["code"]\n',
        "policies[0].second_step",
        "uses 'amount'",
        "error",
    ),
    "a database that is no number": (
        GOOD + '[redis]\nurl = "redis://localhost/signoff"\n',
        "redis.url",
        "database number",
        "error",
    ),
    "a broker that is none": (
        GOOD + '[broker]\nurl = "kafka://localhost"\n',
        "broker.url",
        "kafka",
        "error",
    ),
}


def load(tmp_path: Path, text: str) -> Path:
    """Write a settings file."""
    file = tmp_path / "signoff.toml"
    file.write_text(text)
    return file


def test_good_settings_have_no_faults(tmp_path: Path) -> None:
    """Correct settings cause no message."""
    assert check(load_settings(load(tmp_path, GOOD))) == []


@pytest.mark.parametrize("case", BAD)
def test_each_config_error_has_file_key_and_suggestion(tmp_path: Path, case: str) -> None:
    """Each mistake has one error, at the right place and with the right severity."""
    text, key, words, severity = BAD[case]
    file = load(tmp_path, text)
    found = check(load_settings(file))
    assert [(one.key, one.severity) for one in found] == [(key, severity)]
    assert words in found[0].message
    assert found[0].remedy
    assert found[0].source in {"", str(file)} or found[0].source.startswith(f"{file}:")


def test_all_config_errors_are_listed_errors_first(tmp_path: Path) -> None:
    """The list is complete, with the errors that prevent a start on top."""
    text = GOOD.replace('ask = ["cleo", "mara"]', "").replace('ask = ["mara"]', 'ask = ["x", "y"]')
    settings = load_settings(load(tmp_path, text))
    assert [fault.severity for fault in check(settings)] == ["error", "error", "warning"]
    with pytest.raises(ConfigErrors) as caught:
        require(settings)
    assert len(caught.value.faults) == 2


def test_variable_with_one_underscore_is_named_with_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warning says that it is not read; those that Kubernetes makes of services are none."""
    monkeypatch.setenv("SIGNOFF_REDIS_URL", "redis://ledger/0")
    monkeypatch.setenv("SIGNOFF_GATEWAY_PORT", "tcp://10.0.0.11:8080")
    monkeypatch.setenv("SIGNOFF_GATEWAY_HOST", "0.0.0.0")
    monkeypatch.setenv("SIGNOFF_CONFIG", str(load(tmp_path, GOOD)))
    found = {fault.key: fault for fault in check(load_settings())}
    assert set(found) == {"redis.url", "gateway.host"}
    assert found["redis.url"].message == "the variable SIGNOFF_REDIS_URL is not read"
    assert "Name it SIGNOFF_REDIS__URL," in found["redis.url"].remedy


def test_warnings_do_not_keep_signoff_from_starting(tmp_path: Path) -> None:
    """They are returned, so that the caller logs them."""
    settings = load_settings(load(tmp_path, GOOD.replace('ask = ["cleo", "mara"]', "")))
    assert [fault.key for fault in require(settings)] == ["default.ask"]


@pytest.mark.parametrize("section", ["redis", "broker"])
@pytest.mark.parametrize(
    "url",
    [
        "redis://:hunter2@localhost/x",
        "redis://:hunter2/x@localhost:6379/0",
        "redis://:hunter2?x@localhost:6379/0",
        "redis://:hunter2#x@localhost:6379/0",
        "redis://u:22#hunter2@localhost:6379/0",
        "redis://:[hunter2@localhost:6379/0",
    ],
)
def test_no_fault_shows_the_password_of_a_url(tmp_path: Path, section: str, url: str) -> None:
    """An invalid URL may still contain a secret."""
    file = load(tmp_path, GOOD + f'[{section}]\nurl = "{url}"\n')
    (fault,) = check(load_settings(file))
    assert fault.key == f"{section}.url"
    assert "hunter2" not in str(fault)


@pytest.mark.parametrize("section", ["redis", "broker"])
def test_the_options_of_a_redis_url_are_checked(tmp_path: Path, section: str) -> None:
    """A mistyped option would end each command with an error of Python."""
    known = "redis://localhost:6379/0?socket_timeout=3"
    assert check(load_settings(load(tmp_path, GOOD + f'[{section}]\nurl = "{known}"\n'))) == []
    for wrong in ("sockettimeout=3", "socket_timeout=soon"):
        url = f"redis://localhost:6379/0?{wrong}"
        (fault,) = check(load_settings(load(tmp_path, GOOD + f'[{section}]\nurl = "{url}"\n')))
        assert (fault.key, "option" in fault.message) == (f"{section}.url", True)
