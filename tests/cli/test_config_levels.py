"""The check of the levels in the settings: an error for each mistake, and none otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.cli.config.check import check
from signoff.cli.config.settings import load_settings

PEOPLE = """\
[agents]
folder = "."
[[people]]
id = "mara"
email = "mara@example.com"
[[people]]
id = "cleo"
email = "cleo@example.com"
manager = "mara"
[[queues]]
name = "finance"
members = ["mara", "cleo"]
[default]
ask = ["mara"]
[[policies]]
name = "p"
"""

TWO = """
[[policies.levels]]
ask = ["requester.manager"]
within = "2h"
remind = ["1h"]
[[policies.levels]]
ask = ["queue:finance"]
quorum = 2
earlier = "stay"
"""

STEPS = """\
on_timeout = "approve"
ceiling = "true"
second_step = "true"
ask = ["mara"]
[inbox]
url = "https://a.example"
secret_key = "0123456789abcdef0123456789abcdef"
"""

BAD = {
    "approve without a ceiling": (
        f'on_timeout = "approve"\n{TWO}',
        "policies[0].on_timeout",
        "silence would approve every call",
        "error",
    ),
    "a ceiling for every call": (
        f'on_timeout = "approve"\nceiling = "true"\n{TWO}',
        "policies[0].ceiling",
        "silence approves every call",
        "warning",
    ),
    "a ceiling that is no CEL": (
        f'on_timeout = "approve"\nceiling = "args.amount <"\n{TWO}',
        "policies[0].ceiling",
        "not a CEL expression",
        "error",
    ),
    "the old name of a phase": (
        TWO.replace('within = "2h"', 'within = "2h"\nstage = "team"'),
        "policies[0].levels[0].stage",
        "now called phase",
        "warning",
    ),
    "a ceiling without approve": (
        f'ceiling = "args.amount < 5"\n{TWO}',
        "policies[0].ceiling",
        "has no effect",
        "warning",
    ),
    "silence and a second step": (
        STEPS,
        "policies[0].on_timeout",
        "silence never approves",
        "warning",
    ),
    "more approvals than people": (
        TWO.replace("quorum = 2", "quorum = 3"),
        "policies[0].levels[1].quorum",
        "at most 2 can be asked",
        "error",
    ),
    "more approvals than people in the short form": (
        'ask = ["mara"]\nquorum = 2\n',
        "policies[0].quorum",
        "at most 1 can be asked",
        "error",
    ),
    "a sequence that ends with the first": (
        'ask = ["mara", "cleo"]\norder = "sequence"\n',
        "policies[0].order",
        "nobody else is ever asked",
        "warning",
    ),
    "business time of nobody": (
        'ask = ["mara"]\nwithin = "4h business"\n',
        "policies[0].within",
        "counted by the clock",
        "warning",
    ),
    "a reminder at the end": (
        TWO.replace('remind = ["1h"]', 'remind = ["2h"]'),
        "policies[0].levels[0].remind",
        "not before the end",
        "warning",
    ),
    "a repeated reminder that starts at the end": (
        TWO.replace('remind = ["1h"]', 'remind = "every 2h"'),
        "policies[0].levels[0].remind",
        "2h is not before the end",
        "warning",
    ),
    "the same people again": (
        TWO + '[[policies.levels]]\nask = ["queue:finance"]\nquorum = 2\nwithin = "9h"\n',
        "policies[0].levels[2]",
        "asks the same people in the same way as the level before",
        "warning",
    ),
    "nobody to stay": (
        TWO.replace('within = "2h"', 'within = "2h"\nearlier = "stay"'),
        "policies[0].levels[0].earlier",
        "no earlier level",
        "warning",
    ),
    "a channel that is none": (
        TWO.replace('within = "2h"', 'within = "2h"\nchannels = ["fax"]'),
        "policies[0].levels[0].channels",
        "'fax' is not a channel",
        "error",
    ),
    "Slack without Slack": (
        TWO.replace('within = "2h"', 'within = "2h"\nslack_channel = "C012AB3CD"'),
        "policies[0].levels[0].slack_channel",
        "Slack is not set up",
        "error",
    ),
    "both forms at once": (f'ask = ["mara"]\n{TWO}', "policies[0].ask", "beside levels", "error"),
    "an unknown person": (
        TWO.replace('"queue:finance"', '"queue:finance", "marra"'),
        "policies[0].levels[1].ask",
        "'marra' is not the id",
        "error",
    ),
    "an unknown owner": (
        f"{TWO}[agents.owners]\nfinance = 'olga'\n",
        "agents.owners.finance",
        "'olga' is not the id",
        "error",
    ),
}


def faults(folder: Path, policy: str) -> list[tuple[str, str, str]]:
    """Return the errors of settings with one policy: key, message and severity."""
    file = folder / "signoff.toml"
    file.write_text(PEOPLE + policy)
    try:
        found = check(load_settings(file))
    except Exception as error:  # noqa: BLE001 -- errors of reading count too
        found = list(getattr(error, "faults", ()))
    return [(one.key, one.message, one.severity) for one in found]


@pytest.mark.parametrize(
    "policy",
    [
        TWO,
        TWO + '[[policies.levels]]\nask = ["queue:finance"]\n',
        TWO + '[[policies.levels]]\nask = ["queue:finance"]\nquorum = 2\nurgent = true\n',
        TWO
        + '[[policies.levels]]\nask = ["queue:turns"]\n[[policies.levels]]\nask = ["queue:turns"]\n'
        '[[queues]]\nname = "turns"\nmembers = ["mara", "cleo"]\npick = "round-robin"\n',
        'ask = ["mara"]\nremind = "every 3h"\nwithin = "1d"\n',
        'ask = ["mara", "cleo"]\nquorum = "all"\norder = "sequence"\nwithin = "1d"\n',
    ],
)
def test_valid_levels_cause_no_warning(tmp_path: Path, policy: str) -> None:
    """Intended settings cause no warning."""
    assert faults(tmp_path, policy) == []


@pytest.mark.parametrize("name", BAD)
def test_each_mistake_is_found(tmp_path: Path, name: str) -> None:
    """The error is at its key and says what is wrong."""
    policy, key, words, severity = BAD[name]
    found = faults(tmp_path, policy)
    assert [one for one in found if one[0] == key and words in one[1] and one[2] == severity], found
