"""`signoff policy`: explain, test and diff."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from builders import MARA, paused
from cli.conftest import Invoke
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store

EXAMPLES = Path(__file__).parents[2] / "examples"
ZONE = ("--zone", "Europe/Berlin")
CALL = ("policy", "explain", "--tool", "reimburse", "--user", "riley@example.com", *ZONE)

CASES = """\
zone = "Europe/Berlin"
today = 2026-11-18

[[cases]]
name = "expenses go to Mara and Cleo"
tool = "reimburse"
args = { amount = 250 }
user = "riley"
at = "Friday 17:30"
[cases.expect]
policy = "expenses"
asked = ["cleo", "mara"]
by = ["email"]
end = "reject"
asked_at = ["Friday 17:30"]
end_at = 2026-11-20T21:30:00+01:00
"""


@pytest.fixture(autouse=True)
def _settings(settings_file: Path) -> None:
    """Put the settings of the command line's tests into the working directory."""


LEVELS = """\
[[people]]
id = "dana"
email = "dana@example.com"
manager = "mara"
[[people]]
id = "tom"
email = "tom@example.com"
time_zone = "Europe/Berlin"
hours = ["Mon-Fri 09:00-17:00"]
[[queues]]
name = "finance"
members = ["cleo", "tom"]
[[policies]]
name = "trips"
when = "tool == 'trip'"
[[policies.levels]]
ask = ["requester.manager"]
within = "2h"
remind = ["1h"]
[[policies.levels]]
name = "finance"
ask = ["queue:finance"]
within = "4h business"
quorum = "all"
[policies.grants]
who = ["cleo"]
longest = "4h"
"""
TRIP = """
[[cases]]
name = "trips go to the manager, and then to finance until Monday noon"
tool = "trip"
user = "dana@example.com"
at = "Friday 16:00"
[cases.expect]
policy = "trips"
asked = [["mara"], ["tom", "cleo"]]
asked_at = ["16:00", "18:00"]
reminded = 1
never = ["dana"]
end_at = "Monday 13:00"

[[cases]]
name = "who is away is stood in for, and who has nobody is passed over"
tool = "trip"
user = "dana@example.com"
at = "Friday 16:00"
away = { mara = "riley", cleo = "" }
[cases.expect]
asked = [["riley"], ["tom"]]
never = ["mara", "cleo"]
"""


def cases(more: str = "", *, without: str = "", instead: str = "") -> Path:
    """Write a file of cases beside the settings, and return it."""
    file = Path("signoff.test.toml")
    file.write_text(CASES.replace(without, instead) + more if without else CASES + more)
    return file


def test_explain_prints_the_timeline(invoke: Invoke) -> None:
    """Policies, approvers with their channels, and the end, in the time zone of the settings."""
    done = invoke(*CALL, "--arg", "amount=2500", "--at", "2026-11-20 17:30")

    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "reimburse(amount=2500) asked for by Riley Voss"
    assert "✓ expenses tool == 'reimburse' tool is \"reimburse\"" in lines
    assert "Fri 2026-11-20 17:30 CET asked until Fri 2026-11-20 21:30 CET" in lines
    assert "Mara Lind by email (mara@example.com)" in lines
    assert "Fri 2026-11-20 21:30 CET +4h timed out nobody answered in time" in lines
    assert lines[-1] == "end: it is rejected, and the agent is told that nobody answered"


def test_explain_as_json(invoke: Invoke) -> None:
    """Arguments are read as JSON if possible; times are in UTC."""
    given = ("--args", '{"amount": 1, "to": ["a"]}', "--arg", "amount=2.5", "--arg", "purpose=taxi")
    done = invoke(*CALL, *given, "--at", "2026-11-20T17:30:00Z", "--json")

    made = json.loads(done.stdout)
    assert made["facts"]["args"] == {"amount": 2.5, "to": ["a"], "purpose": "taxi"}
    assert made["start"] == "2026-11-20T17:30:00Z"
    assert [seat["person"] for seat in made["levels"][0]["seats"]] == ["mara", "cleo"]
    assert (made["end"], made["end_at"]) == ("reject", "2026-11-20T21:30:00Z")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--arg", "amount"], "KEY=VALUE"),
        (["--arg", "a=1", "--arg", "a=2"], "given twice"),
        (["--args", "[1]"], "write an object"),
        (["--args", "{"], "not JSON"),
        (["--at", "Fryday"], "write it like Friday 17:30"),
        (["--at", "9999-12-31T23:59"], "too far from now"),
        (["--zone", "Europe/Berln"], "Europe/Berlin"),
    ],
)
def test_unreadable_option_is_named_with_its_form(
    invoke: Invoke, arguments: list[str], named: str
) -> None:
    """The error names the option and its form."""
    done = invoke(*CALL, *arguments)
    assert done.exit_code == 2
    assert named in " ".join(done.output.replace("│", " ").split())


def test_cases_beside_the_settings_are_used_by_default(invoke: Invoke) -> None:
    """Without a name, the file beside the settings is used."""
    cases()
    done = invoke("policy", "test")
    assert done.exit_code == 0, done.output
    assert "✓ expenses go to Mara and Cleo" in done.stdout
    assert done.stdout.endswith("1 case: 1 passed, 0 failed.\n")


def test_levels_of_a_policy(invoke: Invoke, settings_file: Path) -> None:
    """The people of references, the start of each level, delegates, and the end in working time."""
    settings_file.write_text(settings_file.read_text(encoding="utf-8") + LEVELS)
    cases(TRIP)
    done = invoke("policy", "test")
    assert (done.exit_code, done.stdout.count("✓")) == (0, 3), done.output

    call = ("--tool", "trip", "--user", "dana@example.com", "--at", "2026-11-20 16:00")
    done = invoke("policy", "explain", *call, *ZONE)
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[-1] == "grants: Cleo Park may approve up to 20 calls like it for up to 4h"
    assert lines[lines.index("when after what") + 1 : -5] == [
        "Fri 2026-11-20 16:00 CET asked level 1: until Fri 2026-11-20 18:00 CET",
        "Mara Lind (requester.manager) by email (mara@example.com)",
        "Fri 2026-11-20 17:00 CET +1h reminded Mara Lind",
        (
            "Fri 2026-11-20 18:00 CET +2h escalated finance: until Mon 2026-11-23 13:00 CET, "
            "2 have to approve"
        ),
        "Cleo Park (queue:finance) by email (cleo@example.com)",
        "tom (queue:finance) by email (tom@example.com)",
        "nobody decided in time",
        "Mon 2026-11-23 13:00 CET +2d21h timed out nobody answered in time",
    ]


def test_live_explain_uses_absences_and_excludes_owners(
    invoke: Invoke, settings_file: Path
) -> None:
    """With --live, absences count; owners never decide."""
    text = settings_file.read_text(encoding="utf-8")
    settings_file.write_text(text.replace("[redis]", 'owners = { finance = "cleo" }\n[redis]'))
    days = ("--from", "2199-11-20", "--until", "2199-11-21")
    assert invoke("people", "away", "mara", *days).exit_code == 0

    def asked(*more: str) -> list[str]:
        call = (*CALL, "--at", "2199-11-20 12:00", "--json", *more)
        (level,) = json.loads(invoke(*call).stdout)["levels"]
        return [seat["person"] for seat in level["seats"]]

    assert asked() == ["mara", "cleo"]
    assert asked("--live") == ["cleo"]
    assert asked("--app", "finance") == ["mara"]


@pytest.mark.parametrize("folder", [EXAMPLES, EXAMPLES / "escalation"])
def test_example_settings_cases_pass(invoke: Invoke, folder: Path) -> None:
    """The cases beside the example settings pass."""
    done = invoke("--config", str(folder / "signoff.toml"), "policy", "test")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["pagerduty", "servicenow", "github", "quiet_hours", "payments"])
def test_policies_of_other_systems_pass_their_cases(invoke: Invoke, name: str) -> None:
    """Rules of other systems can be written without warnings, and their cases pass."""
    folder = EXAMPLES / "policies"
    config = ("--config", str(folder / f"{name}.toml"))
    done = invoke(*config, "policy", "test", str(folder / f"{name}.test.toml"))
    assert done.exit_code == 0, done.output
    checked = invoke(*config, "config", "check")
    assert "warning" not in checked.output
    assert checked.exit_code == 0, checked.output


ANSWERED = """
[[cases]]
name = "an answer"
tool = "reimburse"
args = { amount = 10 }
user = "riley@example.com"
at = 2026-11-20T17:30:00
[[cases.answers]]
by = "%s"
says = "%s"
at = "18:00"
[cases.expect]
%s
"""


@pytest.mark.parametrize(
    ("by", "says", "expect", "failure"),
    [
        ("mara", "approve", 'end = "approve"', ""),
        ("mara", "reject", 'end = "reject"\nend_at = "18:00"', ""),
        ("riley", "approve", 'refused = ["riley"]\nend = "reject"', ""),
        ("mara", "approve", 'refused = ["mara"]', "refused: expected mara, is nobody"),
        ("nobody", "approve", 'end = "reject"', "'nobody' is not the id of anybody"),
        ("mara", "maybe", 'end = "reject"', "says"),
    ],
)
def test_answers_in_cases(invoke: Invoke, by: str, says: str, expect: str, failure: str) -> None:
    """A case has answers and their results; an unknown person is an error."""
    Path("signoff.test.toml").write_text(ANSWERED % (by, says, expect))
    done = invoke("policy", "test")
    assert (done.exit_code == 0) is (not failure), done.output
    assert failure in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize(
    ("without", "instead", "failure"),
    [
        ('policy = "expenses"', 'policy = "default"', "policy: expected 'default', is 'expenses'"),
        ('"cleo", "mara"', '"mara"', "asked: expected mara at level 1, is mara, cleo"),
        ('["cleo", "mara"]', '[["cleo"], ["mara"]]', "asked: expected 2 levels, there are 1 level"),
        ('by = ["email"]', 'never = ["mara"]', "never: mara is asked at level 1"),
        ('by = ["email"]', 'by = ["slack"]', "by: expected slack, is email"),
        ('end = "reject"', 'end = "stay"', "end: expected stay, is reject"),
        (
            'asked_at = ["Friday 17:30"]',
            'asked_at = ["Friday 17:31"]',
            "asked_at: expected Fri 2026-11-20 17:31, is Fri 2026-11-20 17:30",
        ),
        ("21:30:00+01:00", "21:30:00Z", "expected Fri 2026-11-20 22:30, is Fri 2026-11-20 21:30"),
    ],
)
def test_failing_case_shows_expected_and_actual_values(
    invoke: Invoke, without: str, instead: str, failure: str
) -> None:
    """The output has the expected and the actual value with the line; the exit code is 1."""
    cases(without=without, instead=instead)
    done = invoke("policy", "test")
    assert done.exit_code == 1, done.output
    assert failure in done.stdout
    assert "line 4" in done.stdout


@pytest.mark.parametrize(
    ("without", "instead", "fault"),
    [
        ('user = "riley"', 'usr = "riley"', "'usr' is not a setting of [[cases]]. Did you mean"),
        ('user = "riley"', 'away = ["marra"]', "'marra' is not the id of anybody in [[people]]."),
        ("today = 2026-11-18", "", "'Friday 17:30' depends on the present day: write it"),
        ("today = 2026-11-18", 'today = "Friday"', "today: it should be a date like 2026-01-31"),
        ('policy = "expenses"', 'policy = "expnses"', "there is no policy 'expnses'. Did you mean"),
        ('"cleo", "mara"', '"cleo", "mar"', "'mar' is not the id of anybody in [[people]]."),
        ('"Friday 17:30"\n[', '"Frday 17:30"\n[', "'Frday 17:30' is not a moment"),
        ('tool = "reimburse"', "", "'tool' is missing. Add it to [[cases]]"),
        ('end = "reject"', 'end = "rejected"', "expect.end"),
        ('name = "exp', "name = exp", "it is not TOML"),
        ("Europe/Berlin", "Europe/Berln", "there is no time zone 'Europe/Berln'"),
    ],
)
def test_a_case_that_cannot_be_run_is_named(
    invoke: Invoke, without: str, instead: str, fault: str
) -> None:
    """The error has file, line, key and a suggestion; the exit code is 2."""
    cases(without=without, instead=instead)
    done = invoke("policy", "test")
    assert done.exit_code == 2, done.output
    assert "signoff.test.toml" in done.stderr
    assert fault in done.stderr


def test_duplicate_case_names_and_missing_file_are_errors(invoke: Invoke) -> None:
    """Case names identify results; a missing file is named."""
    cases(CASES[CASES.index("[[cases]]") :])
    done = invoke("policy", "test")
    assert (done.exit_code, "is the name of an earlier case" in done.stderr) == (2, True)
    done = invoke("policy", "test", "nothing.toml")
    assert (done.exit_code, "nothing.toml" in done.stderr) == (2, True)


def test_results_for_machines(invoke: Invoke) -> None:
    """JSON on standard output, JUnit XML in a file."""
    cases(without='end = "reject"', instead='end = "stay"')
    done = invoke("policy", "test", "--json", "--junit", "junit.xml")

    assert done.exit_code == 1
    (made,) = json.loads(done.stdout)
    assert (made["passed"], made["line"]) == (False, 4)
    suite = ET.parse("junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite[0][0].get("message") == "end: expected stay, is reject"


def wait(redis_url: str, prefix: str) -> str:
    """Open an approval that asks Mara for an hour; return its id."""

    async def work() -> str:
        ledger = Ledger(Store.open(redis_url, prefix=prefix))
        try:
            return (await paused(ledger, asked=[MARA]))[1][0].id
        finally:
            await ledger.close()

    return asyncio.run(work())


def test_diff_compares_each_field_and_sets_the_exit_code(
    invoke: Invoke, settings_file: Path, redis_url: str, prefix: str
) -> None:
    """Each field is compared; the exit code is 1 with a difference and 0 without."""
    approval = wait(redis_url, prefix)

    done = invoke("policy", "diff")
    assert done.exit_code == 1, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines == [
        f"{approval} reimburse() expenses",
        'ask - ["mara"] + ["mara", "cleo"]',
        "1 pending: 1 would have other terms, 0 the same.",
    ]

    text = settings_file.read_text(encoding="utf-8")
    other = settings_file.with_name("other.toml")
    other.write_text(text.replace('["mara", "cleo"]', '["mara"]'))
    done = invoke("policy", "diff", "--against", str(other))
    assert (done.exit_code, done.stdout) == (
        0,
        "1 pending: 0 would have other terms, 1 the same.\n",
    )

    done = invoke("policy", "diff", "--json")
    (made,) = json.loads(done.stdout)
    assert made["differences"] == [{"field": "ask", "frozen": ["mara"], "new": ["mara", "cleo"]}]


def test_diff_of_a_condition(
    invoke: Invoke, settings_file: Path, redis_url: str, prefix: str
) -> None:
    """A changed condition makes a new version of the policy with the same terms."""
    wait(redis_url, prefix)
    text = settings_file.read_text(encoding="utf-8").replace('["mara", "cleo"]', '["mara"]')
    other = text.replace("tool == ", "true && tool == ")
    assert other != text
    settings_file.write_text(other)
    done = invoke("policy", "diff")
    assert (done.exit_code, done.stdout) == (
        0,
        "1 pending: 0 would have other terms, 1 the same.\n",
    )


def test_diff_of_levels(invoke: Invoke, settings_file: Path, redis_url: str, prefix: str) -> None:
    """An added level is one difference, and another way to write the same is none."""
    approval = wait(redis_url, prefix)
    text = settings_file.read_text(encoding="utf-8")
    level = "[[policies.levels]]\nask = ['mara']\n"
    one = text.replace('ask = ["mara", "cleo"]\nwithin = "4h"\n', f"within = '4h'\n{level}")
    settings_file.write_text(one)
    assert invoke("policy", "diff").exit_code == 0

    settings_file.write_text(one.replace(level, level + level.replace("mara", "cleo")))
    (made,) = json.loads(invoke("policy", "diff", "--json").stdout)
    assert made["approval"] == approval
    assert [(each["field"], each["frozen"]) for each in made["differences"]] == [
        ("levels[1]", None)
    ]
    assert made["differences"][0]["new"]["ask"] == ["cleo"]


EFFECTS = """\
[[policies]]
name = "never"
when = "tool == 'wipe'"
effect = "deny"
reason = "Nothing is wiped here."
[[policies]]
name = "by night"
when = "tool == 'scan' && now.hour < 6"
time_zone = "Europe/Berlin"
effect = "allow"
at_most = "5/h"
ask = ["mara"]
"""


@pytest.mark.parametrize(
    ("tool", "at", "said"),
    [
        ("wipe", "2026-11-20 12:00", "end: it is denied at once, and the agent reads the reason"),
        ("wipe", "2026-11-20 12:00", "Nothing is wiped here."),
        (
            "scan",
            "2026-11-20 05:59",
            "end: it is allowed at once; above 5/h Mara Lind would be asked",
        ),
        ("scan", "2026-11-20 06:00", "now.hour is 6"),
    ],
)
def test_explain_shows_allowed_and_denied_calls(
    invoke: Invoke, settings_file: Path, tool: str, at: str, said: str
) -> None:
    """Nobody is asked, and the policy's clock is used."""
    settings_file.write_text(settings_file.read_text() + EFFECTS)
    done = invoke("policy", "explain", "--tool", tool, "--user", "riley", *ZONE, "--at", at)
    assert done.exit_code == 0, done.output
    assert said in " ".join(done.stdout.split())


def test_explain_reports_held_calls_only_if_the_policy_holds_them(
    invoke: Invoke, settings_file: Path
) -> None:
    """It says so only if the matching policy does."""
    assert "holds:" not in invoke(*CALL).stdout
    written = settings_file.read_text()
    settings_file.write_text(written.replace("[[policies]]", '[[policies]]\nhold = "siblings"', 1))
    done = invoke(*CALL)
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "holds: calls of the same turn that need no approval wait for this one" in lines


def test_the_clock_of_a_policy_needs_a_zone(invoke: Invoke, settings_file: Path) -> None:
    """`config check` warns if the hours would be in UTC, and names an invalid day."""
    rule = EFFECTS.replace('time_zone = "Europe/Berlin"\n', "")
    settings_file.write_text(settings_file.read_text() + rule)
    assert "counted in UTC" in invoke("config", "check").output
    wrong = EFFECTS.replace("now.hour < 6", "now.weekday == 'Sunday'")
    settings_file.write_text(settings_file.read_text() + wrong)
    assert "which is not a day" in invoke("config", "check").output


LIMITS = """\
[[people]]
id = "nora"
email = "nora@example.com"
manager = "dana"
[[people]]
id = "dana"
name = "Dana Ito"
email = "dana@example.com"
manager = "mara"
limits = { expenses = 500 }
[[queues]]
name = "heads"
members = ["mara"]
limits = { expenses = 5000 }
[[policies]]
name = "trips"
when = "tool == 'trip'"
ask = ["requester.manager"]
until = "limit.expenses >= args.amount"
[[policies]]
name = "contracts"
when = "tool == 'sign'"
[[policies.levels]]
phase = "legal"
ask = ["mara"]
[[policies.levels]]
phase = "gone"
ask = ["requester.manager"]
"""


def test_explain_shows_approvers_for_each_amount(invoke: Invoke, settings_file: Path) -> None:
    """One row for each amount; above all limits the default is asked."""
    settings_file.write_text(settings_file.read_text() + LIMITS)
    call = ("policy", "explain", "--tool", "trip", "--user", "nora")
    vary = ("--vary", "amount=400,4000,40000")
    done = invoke(*call, *vary)
    assert done.exit_code == 0, done.output
    rows = [" ".join(line.split()) for line in done.stdout.splitlines()][1:]
    assert rows == [
        "400 trips Dana Ito approve",
        "4000 trips Dana Ito, then Mara Lind approve",
        "40000 default Cleo Park approve",
    ]
    found = json.loads(invoke(*call, *vary, "--json").stdout)
    assert [one["policy"] for one in found] == ["trips", "trips", "default"]
    assert invoke(*call, "--vary", "amount").exit_code == 2
    settings_file.write_text(settings_file.read_text().replace("limit.exp", "limit.exb"))
    assert "nobody has a limit called 'exbenses'" in invoke("config", "check").output


def test_explain_walks_all_phases_and_a_phase_without_people_asks_the_default(
    invoke: Invoke, settings_file: Path
) -> None:
    """As in the router, a phase without people asks the default and is not rejected."""
    settings_file.write_text(settings_file.read_text() + LIMITS)
    call = ("policy", "explain", "--tool", "sign", "--user", "riley")
    done = invoke(*call, "--approve", "--json")
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    whats = [one["what"] for one in made["steps"]]
    assert (made["end"], whats[-1]) == ("approve", "approved")
    assert any("nobody of the next phase" in one.get("why", "") for one in made["steps"])
    assert "if everybody approves" in invoke(*call, "--approve").stdout


@pytest.mark.parametrize(
    ("at", "within", "told"),
    [
        ("Friday 17:30", "4h", True),
        ("Friday 12:30", "4h", False),
        ("Friday 17:30", "3d", False),
        ("Friday 17:30", "4h business", False),
        ("Saturday 09:00", "1d", True),
    ],
)
def test_explain_says_if_nobody_works_before_the_deadline(
    invoke: Invoke, settings_file: Path, *, at: str, within: str, told: bool
) -> None:
    """A level that passes outside of the hours of everybody in it is named, with the remedy."""
    text = LEVELS.partition("[[queues]]")[0] + (
        f'[[policies]]\nname = "trips"\nwhen = "tool == \'trip\'"\nask = ["tom"]\n'
        f'within = "{within}"\n'
    )
    settings_file.write_text(settings_file.read_text(encoding="utf-8") + text)
    done = invoke("policy", "explain", "--tool", "trip", "--user", "dana", *ZONE, "--at", at)
    assert done.exit_code == 0, done.output
    line = f'none of them works before then: "{within} business" would wait for them'
    assert (line in done.output) is told
