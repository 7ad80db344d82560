"""People in the settings: managers, absences, queues, schedules, and people from CSV."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.cli.config.check import check
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import load_settings
from signoff.cli.config.sources import CsvPeople
from signoff.core.base.errors import ConfigError
from signoff.core.directory.people import Person

GOOD = """\
[agents]
folder = "."
[slack]
bot_token = "xoxb-1"
app_token = "xapp-1"
[[people]]
id = "riley"
email = "riley@example.com"
manager = "mara@example.com"
[[people]]
id = "mara"
email = "mara@example.com"
manager = "tom"
time_zone = "Europe/Berlin"
hours = ["Mon-Fri 09:00-17:00"]
holidays = "DE-BY"
away = [{ from = 2026-12-24, to = 2027-01-02, delegate = "tom" }]
[[people]]
id = "tom"
email = "tom@example.com"
[[queues]]
name = "finance"
members = ["mara", "tom"]
pick = "round-robin"
claim = "45m"
[[schedules]]
name = "on-call"
time_zone = "Europe/Berlin"
people = ["mara", "tom", "mara"]
start = 2026-01-05T09:00:00
every = "1w"
[[policies]]
name = "all"
[[policies.levels]]
ask = ["requester.manager"]
within = "4h business"
[[policies.levels]]
ask = ["queue:finance", "schedule:on-call", "tom", "slack-group:S012AB3CD"]
[default]
ask = ["tom"]
"""

BAD = {
    "an unknown manager": (
        GOOD.replace('manager = "tom"', 'manager = "tim"'),
        "people[1].manager",
        "'tim' is nobody's id or address. Did you mean 'tom'?",
    ),
    "managers in a circle": (
        GOOD + '[[people]]\nid = "c"\nemail = "c@x.org"\nmanager = "a"\n'
        '[[people]]\nid = "a"\nemail = "a@x.org"\nmanager = "b"\n'
        '[[people]]\nid = "b"\nemail = "b@x.org"\nmanager = "a"\n',
        "people[4].manager",
        "managers of each other: a → b → a",
    ),
    "an unknown delegate": (
        GOOD.replace('delegate = "tom"', 'delegate = "tim"'),
        "people[1].away[0].delegate",
        "'tim' is nobody's id",
    ),
    "delegates in a circle": (
        GOOD.replace(
            'email = "tom@example.com"',
            'email = "tom@example.com"\n'
            'away = [{ from = 2027-01-02, to = 2027-01-05, delegate = "mara" }]',
        ),
        "people[1].away[0].delegate",
        "mara → tom → mara",
    ),
    "an id that means something else": (
        GOOD.replace('id = "riley"', 'id = "requester.manager"'),
        "people[0].id",
        "has another meaning",
    ),
    "an unknown member": (
        GOOD.replace('members = ["mara", "tom"]', 'members = ["mara", "tim"]'),
        "queues[0].members",
        "'tim' is not the id",
    ),
    "a member twice": (
        GOOD.replace('members = ["mara", "tom"]', 'members = ["tom", "tom"]'),
        "queues[0].members",
        "named twice",
    ),
    "two queues of one name": (
        GOOD + '[[queues]]\nname = "finance"\nmembers = ["tom"]\n',
        "queues[1].name",
        "already the name",
    ),
    "somebody unknown on call": (
        GOOD.replace('"mara", "tom", "mara"', '"mara", "tim"'),
        "schedules[0].people",
        "'tim' is not the id",
    ),
    "somebody unknown who takes a shift": (
        GOOD.replace(
            'every = "1w"',
            'every = "1w"\noverrides = [{ from = 2026-11-27T18:00:00, to = 2026-11-27T22:00:00, '
            'person = "tim" }]',
        ),
        "schedules[0].overrides[0].person",
        "'tim' is nobody's id or address",
    ),
    "an unknown queue": (
        GOOD.replace("queue:finance", "queue:finanz"),
        "policies[0].levels[1].ask",
        "'finanz' is not the name of a queue. Did you mean 'finance'?",
    ),
    "an unknown schedule": (
        GOOD.replace("schedule:on-call", "schedule:nobody"),
        "policies[0].levels[1].ask",
        "'nobody' is not the name of a schedule",
    ),
    "a Slack group without Slack": (
        GOOD.replace('[slack]\nbot_token = "xoxb-1"\napp_token = "xapp-1"\n', ""),
        "policies[0].levels[1].ask",
        "Slack is not set up",
    ),
    "managers of whom there are none": (
        GOOD.replace('manager = "tom"', "").replace('manager = "mara@example.com"', ""),
        "policies[0].levels[0].ask",
        "nobody in [[people]] has a manager",
    ),
    "a calendar that is none": (
        GOOD + '[[schedules]]\nname = "ics"\ncalendar = "nothing"\n',
        "schedules[1].calendar",
        "no iCalendar file",
    ),
}

UNREADABLE = {
    "a zone that is none": (GOOD.replace("Europe/Berlin", "Europe/Berln", 1), "Europe/Berlin"),
    "hours that are none": (GOOD.replace("Mon-Fri 09:00-17:00", "9 to 5"), "write them like"),
    "holidays of nowhere": (GOOD.replace('"DE-BY"', '"DE-XX"'), "parts of DE"),
    "an absence that ends before": (GOOD.replace("2027-01-02", "2025-01-02"), "before it begins"),
    "an empty queue": (GOOD.replace('members = ["mara", "tom"]', "members = []"), "at least 1"),
    "a calendar that is not there": (
        GOOD + '[[schedules]]\nname = "ics"\nics = "gone.ics"\n',
        "gone.ics cannot be read",
    ),
    "a CSV file that is not there": (GOOD + '[directory]\ncsv = "gone.csv"\n', "gone.csv cannot"),
    "a source that is not there": (
        GOOD + '[directory]\nfactory = "nothing.at_all:make"\n',
        "nothing.at_all:make cannot be loaded",
    ),
    "a source that fails": (
        GOOD + '[directory]\nfactory = "builtins:dict"\n',
        "builtins:dict returned no people",
    ),
}


def load(folder: Path, text: str, name: str = "signoff.toml") -> Path:
    """Write a file and return it."""
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_valid_people_cause_no_finding(tmp_path: Path) -> None:
    """Managers by address, absences, a queue, a rotation, and levels that ask all of them."""
    settings = load_settings(load(tmp_path, GOOD))
    assert check(settings) == []
    assert settings.everybody.queues["finance"].members == ("mara", "tom")
    assert set(settings.everybody.schedules) == {"on-call"}


@pytest.mark.parametrize(("text", "key", "message"), BAD.values(), ids=BAD)
def test_invalid_person_error_has_key_line_and_suggestion(
    tmp_path: Path, text: str, key: str, message: str
) -> None:
    """The error has the key, the line and a suggestion."""
    found = [one for one in check(load_settings(load(tmp_path, text))) if one.key == key]
    assert found, [str(one) for one in check(load_settings(load(tmp_path, text)))]
    assert message in str(found[0])
    assert "signoff.toml:" in found[0].source
    assert found[0].remedy


@pytest.mark.parametrize(("text", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_people_source_is_reported_first(
    tmp_path: Path, text: str, message: str
) -> None:
    """It is reported before any other check."""
    with pytest.raises(ConfigErrors, match=message.replace(".", r"\.")):
        load_settings(load(tmp_path, text))


CSV = """\
ID,Name,email,aliases,manager,time_zone,hours,holidays,slack,away_from,away_to,delegate
ann,"Ann, the first",ann@example.com,a@example.net|a2@example.net,tom,Europe/Berlin,\
"Mon,Tue 09:00-17:00|Wed 10:00-12:00",DE,U012AB3CD,2026-12-24,2027-01-02,tom

ben,Ben,ben@example.com
"""


def test_people_are_read_from_a_csv_file(tmp_path: Path) -> None:
    """They are added to those of the settings; lists, absences and quoted fields are read."""
    load(tmp_path, "\ufeff" + CSV, "people.csv")
    settings = load_settings(load(tmp_path, GOOD + '[directory]\ncsv = "people.csv"\n'))
    assert check(settings) == []
    ann = settings.everybody.get("ann")
    assert ann == Person(
        id="ann",
        name="Ann, the first",
        email="ann@example.com",
        aliases=("a@example.net", "a2@example.net"),
        slack="U012AB3CD",
        manager="tom",
        time_zone="Europe/Berlin",
        hours=("Mon,Tue 09:00-17:00", "Wed 10:00-12:00"),
        holidays="DE",
        away=[{"from": "2026-12-24", "to": "2027-01-02", "delegate": "tom"}],
    )
    assert [one.id for one in settings.everybody] == ["riley", "mara", "tom", "ann", "ben"]


def test_references_to_people_who_left_are_valid(tmp_path: Path) -> None:
    """A manager, a delegate or an approver of a policy may have left."""
    rows = "id,email,manager,away_from,away_to,delegate,active\nann,ann@x.org,,,,,false\n"
    rows += "ben,ben@x.org,ann,2026-12-24,2026-12-31,ann,true\n"
    load(tmp_path, rows, "people.csv")
    settings = load_settings(load(tmp_path, GOOD + '[directory]\ncsv = "people.csv"\n'))
    assert check(settings) == []
    assert [one.id for one in settings.everybody.inactive] == ["ann"]
    load(tmp_path, rows.replace("false", "maybe"), "people.csv")
    with pytest.raises(ConfigErrors, match="column active"):
        load_settings(tmp_path / "signoff.toml")


def test_faults_of_meaning_name_the_line_of_the_csv_file(tmp_path: Path) -> None:
    """An unknown manager, and an address that a person of the settings already has."""
    load(tmp_path, "id;email;manager\nann;ann@x.org;nobody\nben;tom@example.com;\n", "people.csv")
    settings = load_settings(load(tmp_path, GOOD + '[directory]\ncsv = "people.csv"\n'))
    found = [str(one) for one in check(settings)]
    assert len(found) == 2
    assert any(f"{tmp_path}/people.csv:2" in one and "'nobody' is nobody" in one for one in found)
    assert any(f"{tmp_path}/people.csv:3" in one and "'tom'" in one for one in found)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("id,emial\nann,a@x.org\n", 1, "no column 'emial'. Did you mean 'email'"),
        ("id,name\nann,Ann\n", 1, "'email' is missing"),
        ("id,email,id\n", 1, "there twice"),
        ("id,email\nann,a@x.org\nben\n", 3, "'email' is missing"),
        ("id,email\nann,nonsense\n", 2, "column email"),
        ("id,email,hours\nann,a@x.org,9-17\n", 2, "column hours"),
        ("id,email,away_from,away_to\nann,a@x.org,2026-12-24,later\n", 2, "column away_to"),
        ("id,email\nann,a@x.org,more\n", 2, "3 fields"),
        ('id,email\nann,"a@x.org\n', 2, "not CSV"),
        ("", 0, "no header"),
    ],
)
def test_invalid_csv_rows_are_reported_with_their_line(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    """All errors appear together, each with a suggestion."""
    file = load(tmp_path, text, "people.csv")
    with pytest.raises(ConfigErrors) as caught:
        load_settings(load(tmp_path, '[directory]\ncsv = "people.csv"\n'))
    assert message in str(caught.value)
    assert (f"{file}:{line}" if line else str(file)) in str(caught.value)
    with pytest.raises(ConfigError, match=r"directory\.csv"):
        CsvPeople(file).people()


class Source:
    """A custom source of people."""

    def __init__(self, options: dict[str, str]) -> None:
        self.domain = options["domain"]

    def people(self) -> list[Person]:
        """Return two people."""
        return [Person(id=one, email=f"{one}@{self.domain}") for one in ("ann", "ben")]


def test_people_are_read_from_a_custom_source(tmp_path: Path) -> None:
    """Its factory gets its options, and its people are checked as usual."""
    text = f'[directory]\nfactory = "{__name__}:Source"\noptions = {{ domain = "x.org" }}\n'
    settings = load_settings(load(tmp_path, GOOD + text))
    assert settings.everybody.find("ben@x.org") is not None
    assert check(settings) == []
    clash = load_settings(load(tmp_path, GOOD + text.replace("x.org", "example.com")))
    assert check(clash) == []


def test_ics_file_is_read_beside_the_settings(tmp_path: Path) -> None:
    """It is not a part of the settings file."""
    load(tmp_path, "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nEND:VCALENDAR\r\n", "rota.ics")
    text = GOOD + '[[schedules]]\nname = "ics"\nics = "rota.ics"\n'
    settings = load_settings(load(tmp_path, text))
    assert check(settings) == []
    assert settings.everybody.schedules["ics"].calendar.startswith("BEGIN:VCALENDAR")
