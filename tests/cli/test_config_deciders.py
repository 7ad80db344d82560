"""The check that the people of each level may decide."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.cli.config.check import check
from signoff.cli.config.deciders import check as deciders_in
from signoff.cli.config.deciders import unmet_levels
from signoff.cli.config.settings import Settings, load_settings
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy

BASE = """\
[agents]
folder = "."
[agents.owners]
finance = "olga"
[[people]]
id = "mara"
name = "Mara Lind"
email = "mara@example.com"
[[people]]
id = "olga"
name = "Olga Hein"
email = "olga@example.com"
[[people]]
id = "left"
name = "Lee Left"
email = "left@example.com"
active = false
[[people]]
id = "nora"
email = "nora@example.com"
manager = "mara"
[[queues]]
name = "all"
members = ["mara", "olga", "left"]
[[policies]]
name = "p"
"""
DAY = datetime(2026, 1, 1, 12, tzinfo=UTC)
END = '[default]\nask = ["mara"]\n'
LEVEL = "[[policies.levels]]\nask = "
APP = "when = \"app == 'finance' && args.amount > 5\"\n"


@pytest.mark.parametrize(
    ("policy", "key", "message"),
    [
        ('ask = ["left"]', "ask", "nobody can be asked: Lee Left is not active"),
        ('ask = ["queue:all"]\nquorum = 3', "ask", "3 of them must approve, and only 2 can be"),
        (APP + 'ask = ["olga"]', "ask", "for calls of finance, nobody can be asked: Olga Hein may"),
        (
            APP + 'ask = ["queue:all"]\nquorum = 2',
            "ask",
            "for calls of finance, 2 of them must approve, and only 1",
        ),
        ('when = "agent == \'finance\'"\nask = ["olga"]', "ask", "for calls of finance, nobody"),
        (
            'when = "user == \'mara@example.com\'"\nask = ["mara"]',
            "ask",
            "for calls of mara@example.com, nobody can be asked: Mara Lind asked for this",
        ),
        (
            "when = \"user in ['nora', 'mara']\"\nask = [\"requester.manager\"]",
            "ask",
            "for calls of mara, nobody can be asked: Mara Lind has no manager",
        ),
        (
            '[[policies.levels]]\nask = ["nora"]\n[[policies.levels]]\nask = ["left"]',
            "levels[1]",
            "nobody can be asked: Lee Left is not active",
        ),
        (
            '[[policies.levels]]\nask = ["mara"]\n[[policies.levels]]\nask = ["asked.manager"]',
            "levels[1]",
            "nobody can be asked: Mara Lind has no manager",
        ),
        (
            'all_of = [{ ask = ["mara"] }, { ask = ["left"] }]',
            "ask",
            "1 of left must approve, and nobody can be asked; Lee Left is not active",
        ),
    ],
)
def test_a_level_that_can_never_approve_is_named(
    tmp_path: Path, policy: str, key: str, message: str
) -> None:
    """The warning names the level, the calls and who is left out."""
    file = tmp_path / "signoff.toml"
    file.write_text(f"{BASE}{policy}\n{END}")
    (fault,) = (one for one in check(load_settings(file)) if "can be asked" in one.message)
    assert (fault.key, fault.severity) == (f"policies[0].{key}", "warning")
    assert fault.message.startswith(message), fault.message
    assert fault.remedy.startswith("Ask somebody else as well")


def test_a_default_that_asks_only_an_owner_is_named(tmp_path: Path) -> None:
    """Calls of that agent would wait for their deadline if no policy matches."""
    file = tmp_path / "signoff.toml"
    file.write_text(f'{BASE}when = "tool == \'x\'"\nask = ["mara"]\n[default]\nask = ["olga"]\n')
    (fault,) = check(load_settings(file))
    assert (fault.key, fault.severity) == ("default.ask", "warning")
    assert fault.message.startswith("for calls of finance, nobody can be asked")


@pytest.mark.parametrize(
    "policy",
    [
        'ask = ["queue:all"]',
        'ask = ["queue:all"]\nquorum = "all"',
        'ask = ["requester.manager"]',
        'when = "tool == \'x\'"\nask = ["olga"]',  # which agent has the tool is not known
        'when = "app == \'other\'"\nask = ["olga"]',
        'when = "user == \'nora\'"\nask = ["requester.manager"]',
        "when = \"app == 'finance' && app == 'other' || app == 'other'\"\nask = [\"olga\"]",
        f'{LEVEL}["requester.manager"]\n{LEVEL}["asked.manager"]',
        f'{LEVEL}["mara"]\n{LEVEL}["olga", "left"]\nquorum = 2\nearlier = "stay"',
        f'{LEVEL}["nora"]\n{LEVEL}["asked.manager"]',
        f'{APP}{LEVEL}["mara"]\n{LEVEL}["olga"]',
    ],
)
def test_levels_that_can_approve_are_not_named(tmp_path: Path, policy: str) -> None:
    """What depends on the requester or the agent is no fault."""
    file = tmp_path / "signoff.toml"
    file.write_text(f"{BASE}{policy}\n{END}")
    found = check(load_settings(file))
    assert not [one for one in found if "can be asked" in one.message]


def test_an_absence_is_no_fault_of_the_settings() -> None:
    """It passes; the check of a moment finds it."""
    away = Absence(start=date(2026, 1, 1), end=date(2026, 1, 2))
    mara = Person(id="mara", email="mara@example.com", away=(away,))
    tom = Person(id="tom", email="tom@example.com")
    both = Policy(name="p", ask=("mara", "tom"), quorum=2)
    settings = Settings(people=(mara, tom), policies=(both,), default=Fallback(ask=("tom",)))
    assert not [*deciders_in(settings)]
    now = DAY
    (found,) = unmet_levels(settings, settings.everybody, now)
    assert found.why.startswith("2 of them must approve, and only 1 can be asked; mara is away")


def test_agents_that_have_the_tool_of_a_policy_are_judged() -> None:
    """A policy that names only a tool is about the agents that have it."""
    olga = Person(id="olga", email="olga@example.com")
    tom = Person(id="tom", email="tom@example.com")
    pay = Policy(name="pay", when="tool == 'pay'", ask=("olga",))
    settings = Settings(
        people=(olga, tom),
        policies=(pay,),
        default=Fallback(ask=("tom",)),
        agents={"owners": {"finance": "olga"}},
    )
    assert not [*unmet_levels(settings, settings.everybody, DAY, {"pay": ["shop"]})]
    (found,) = unmet_levels(settings, settings.everybody, DAY, {"pay": ["shop", "finance"]})
    assert (found.loc, found.calls) == (("policies", 0, "ask"), "finance")


NAMES = ("ada", "bo", "twin", "cy", "dee")
REFERENCES = st.lists(
    st.sampled_from([*NAMES, "queue:q", "queue:one"]), min_size=1, max_size=4, unique=True
)


@st.composite
def set_ups(draw: st.DrawFn) -> dict[str, Any]:
    """Draw people, queues, an owner and a policy that may name the agent and the requester."""
    inactive = draw(st.sets(st.sampled_from(NAMES), max_size=3))
    people = [
        Person(
            id=name,
            email=f"{name}@example.com",
            slack="U0BO" if name in {"bo", "twin"} else "",
            active=name not in inactive,
        )
        for name in NAMES
    ]
    members = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)))
    queues = (
        Queue(name="q", members=members),
        Queue(name="one", members=members, pick=Pick.ROUND_ROBIN),
    )
    levels = tuple(
        Level(
            ask=tuple(draw(REFERENCES)),
            quorum=draw(st.sampled_from([1, 1, 2, 3, "all", "majority"])),
        )
        for _ in range(draw(st.integers(1, 2)))
    )
    some = ["app == 'a'", "user == 'cy'", "args.n > 1"]
    parts = draw(st.lists(st.sampled_from(some), unique=True))
    policy = Policy(name="p", when=" && ".join(parts), levels=levels)
    owner = draw(st.sampled_from(NAMES))
    return {"people": people, "queues": queues, "policy": policy, "owner": owner, "parts": parts}


@given(set_ups())
def test_exactly_the_levels_without_enough_people_are_named(made: dict[str, Any]) -> None:
    """There is no warning where enough people can decide, and one where people are left out."""
    settings = Settings(
        people=tuple(made["people"]),
        queues=made["queues"],
        policies=(made["policy"],),
        agents={"owners": {"a": made["owner"]}},
    )
    found = {loc[3] for loc, _ in deciders_in(settings) if loc[0] == "policies"}
    wanted = set[int]()
    one_person = {"bo": "bo", "twin": "bo"}

    def of(name: str) -> str:
        return one_person.get(name, name)

    never = {of("cy")} if "user == 'cy'" in made["parts"] else set[str]()
    owner = {of(made["owner"])}
    is_owned = "app == 'a'" in made["parts"] or not made["parts"]
    judged = [set[str](), never | owner if is_owned else never]
    active = {one.id for one in made["people"] if one.active}
    for barred in judged:
        here_short = set[int]()
        for index, level in enumerate(made["policy"].levels):
            able, in_turn, meant = set[str](), set[str](), set[str]()
            for one in level.ask:
                members = made["queues"][0].members if one.startswith("queue:") else (one,)
                here = [of(name) for name in members if name in active and of(name) not in barred]
                meant |= {*members}
                if one == "queue:one":
                    in_turn |= {*here[:1]}
                else:
                    able |= {*here}
            able |= in_turn
            clear = {of(name) for name in meant if name in active} - barred
            short = isinstance(level.quorum, int) and level.quorum > len(able)
            if not able or (short and len(clear) < len(meant)):
                here_short.add(index)
        if not barred or len(here_short) == len(made["policy"].levels):
            wanted |= here_short
    assert found <= wanted
    # In a queue that asks one in turn, the members behind that one are not looked at.
    if not any("queue:one" in one.ask for one in made["policy"].levels):
        assert found == wanted
