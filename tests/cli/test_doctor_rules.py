"""The doctor compares the policies with the tools of the agents and with who is present."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.cli.config.settings import Settings
from signoff.cli.doctor.loading import AgentLoading
from signoff.cli.doctor.rules import Tools, about_rules
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Person
from signoff.core.policies.conditions import value
from signoff.core.policies.policy import Fallback, Policy

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
TOM, OLGA = (Person(id=one, email=f"{one}@example.com") for one in ("tom", "olga"))
TOOLS: Tools = {
    "finance": {"reimburse": ["amount", "purpose"], "report": []},
    "shop": {"refund": ["amount", "order"]},
}
OPEN: Tools = {**TOOLS, "gate": None}
"""An agent whose tools are only known when it runs."""


def told(*whens: str, tools: Tools = TOOLS, **more: Any) -> list[str]:
    """Return the texts of the findings about policies with these conditions."""
    policies = [Policy(name=f"p{at}", when=when, ask=("tom",)) for at, when in enumerate(whens)]
    settings = Settings(
        people=(TOM, OLGA),
        policies=more.pop("policies", tuple(policies)),
        default=more.pop("default", Fallback(ask=("tom",))),
        **more,
    )
    return [one.text for one in about_rules(settings, tools, settings.everybody, NOW)]


@pytest.mark.parametrize(
    ("when", "what", "remedy"),
    [
        (
            "tool == 'reimbruse'",
            "names the tool 'reimbruse', which no agent here has",
            "Did you mean 'reimburse'?",
        ),
        (
            "app == 'finance' && tool == 'refund'",
            "names the tool 'refund', which finance does not have",
            "Known here: reimburse, report.",
        ),
        (
            "tool == 'refund' && args.amont > 5",
            "compares args.amont, which refund does not take, so it matches no call",
            "Did you mean 'amount'?",
        ),
        (
            "tool in ['refund', 'reimburse'] && args.total > 5 && args.amount > 1",
            "compares args.total, which refund or reimburse does not take, so it matches no call",
            "Known here: amount, order, purpose.",
        ),
        (
            "app == 'shop' && tool == 'refund' && args.purpose == 'x'",
            "compares args.purpose, which refund does not take, so it matches no call",
            "Known here: amount, order.",
        ),
    ],
)
def test_misspelt_tools_and_arguments_are_found(when: str, what: str, remedy: str) -> None:
    """The policy would match no call, and its calls would fall to a later one."""
    assert told(when) == [f"policy 'p0' {what}. {remedy}"]


@pytest.mark.parametrize(
    ("whens", "tools"),
    [
        (["tool == 'deploy'"], TOOLS),  # of another machine, an MCP server or a program
        (["tool == 'reimburse'", "tool == 'reimburse2'"], TOOLS),
        (["app == 'gate' && tool == 'refund'"], OPEN),
        (["tool == 'refund' && args.total > 5"], OPEN),
        (["app == 'else' && tool == 'refund' && args.total > 5"], TOOLS),
        (["tool == 'refund' && (args.total > 5 || args.amount > 5)"], TOOLS),
        (["tool == 'refund' && !has(args.total)"], TOOLS),
        (["args.total > 5"], TOOLS),
        (["tool.startsWith('re') && args.total > 5"], TOOLS),
        (["tool in ['refund', 'reimburse'] && args.order == 'x'"], TOOLS),
        (["tool == 'refund'"], {}),
    ],
)
def test_what_other_agents_may_have_is_no_finding(whens: list[str], tools: Tools) -> None:
    """Only what surely matches no call of the agents here is told."""
    assert told(*whens, tools=tools) == []


@pytest.mark.parametrize(
    ("parts", "what", "remedy"),
    [
        ({"title": "Refund {args.amont:money EUR}"}, "args.amont in `title`", "'amount'?"),
        ({"title": "{args.amount:money args.curency}"}, "args.curency in `title`", "order."),
        ({"money": {"amonut": "EUR"}}, "args.amonut in `money`", "'amount'?"),
        ({"money": {"amount": "args.ordr"}}, "args.ordr in `money`", "'order'?"),
        ({"hide": ["ordr"]}, "args.ordr in `hide`", "'order'?"),
    ],
)
def test_misspelt_arguments_of_a_card_are_found(
    parts: dict[str, Any], what: str, remedy: str
) -> None:
    """A title would show nothing, and a secret would not be hidden."""
    policy = Policy(name="p", when="tool == 'refund'", ask=("tom",), **parts)
    (text,) = told(policies=(policy,))
    assert text.startswith(f"policy 'p' names {what}, which its tools do not take. ")
    assert text.endswith(remedy)
    assert told(policies=(policy,), tools=OPEN) == []


def test_fields_inside_of_arguments_can_be_hidden() -> None:
    """They are not known, so only what looks like an argument counts as misspelt."""
    hide = ("iban", "order.customer", "amount")
    policy = Policy(name="p", when="tool == 'refund'", ask=("tom",), hide=hide)
    assert told(policies=(policy,)) == []


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        (
            {"agents": {"owners": {"shopping": "olga", "shop_agent": "olga", "finnance": "olga"}}},
            (
                "[agents.owners] names the agent 'finnance', which is not here. Did you mean "
                "'finance'?"
            ),
        ),
        (
            {"long_running": [{"tool": "reports"}, {"tool": "wait_for_it"}]},
            "[[long_running]] names the tool 'reports', which is not here. Did you mean 'report'?",
        ),
        (
            {"inputs": [{"app": "finance"}, {"app": "shopp", "yes": True}]},
            "[[inputs]] names the agent 'shopp', which is not here. Did you mean 'shop'?",
        ),
        (
            {"default": Fallback(ask=("tom",), hide=("ammount", "iban"))},
            (
                "[default] hide names the argument 'ammount', which is not here. Did you mean "
                "'amount'?"
            ),
        ),
    ],
)
def test_misspelt_names_outside_of_policies_are_found(parts: dict[str, Any], text: str) -> None:
    """An owner could decide, and a call would wait for nobody; other machines have other agents."""
    assert told(**parts) == [text]


def test_similar_names_of_two_things_are_no_misspelling() -> None:
    """If the settings name both, or programs may have the name, nothing is told."""
    owners = {"finance": "olga", "finance2": "olga"}
    assert told(agents={"owners": owners}) == []
    assert told(agents={"owners": {"finance2": "olga"}}, aap={"enabled": True}) == []


def test_the_owner_of_the_only_agent_with_the_tool_is_found() -> None:
    """The policy names no agent, but only finance has the tool."""
    pay = Policy(name="pay", when="tool == 'reimburse'", ask=("olga",))
    owners = {"owners": {"finance": "olga"}}
    (text,) = told(policies=(pay,), agents=owners)
    assert text.startswith("policy 'pay': ask: for calls of finance, nobody can be asked: olga may")
    assert told(policies=(pay,), agents=owners, tools={}) == []


def test_a_quorum_that_absences_break_is_found() -> None:
    """Two have to approve, and one of them is away today."""
    away = Absence(start=date(2026, 11, 20), end=date(2026, 11, 20))
    both = Policy(name="both", ask=("tom", "olga"), quorum=2)
    settings = Settings(people=(TOM, OLGA), policies=(both,), default=Fallback(ask=("tom",)))
    absent = settings.everybody.changed([OLGA.model_copy(update={"away": (away,)})])
    (found,) = about_rules(settings, {}, absent, NOW)
    assert "2 of them must approve, and only 1 can be asked; olga is away until" in found.text
    assert not [*about_rules(settings, {}, settings.everybody, NOW)]


ARGUMENTS = st.sampled_from(["amount", "order", "purpose", "total"])


@given(
    st.lists(
        st.tuples(st.sampled_from(["refund", "reimburse", "report"]), ARGUMENTS, st.booleans()),
        min_size=1,
        max_size=3,
    )
)
def test_a_policy_that_can_match_a_tool_here_is_no_finding(
    ways: list[tuple[str, str, bool]],
) -> None:
    """If some call of a tool here fulfils the condition, nothing is told."""
    when = " || ".join(
        f"tool == '{tool}' && args.{name} {'> 5' if above else '<= 5'}"
        for tool, name, above in ways
    )
    calls = [
        {"tool": tool, "args": dict.fromkeys(names, number)}
        for known in TOOLS.values()
        for tool, names in (known or {}).items()
        for number in (1, 9)
    ]

    def matches(call: dict[str, Any]) -> bool:
        try:
            return value(when, call) is True
        except KeyError:
            return False

    assert bool(told(when)) is not any(map(matches, calls))


def test_the_tools_of_agents_are_known_after_loading(tmp_path: Path) -> None:
    """With their arguments; those of an agent with a toolset are not."""
    for name, tools in (("plain", "[pay]"), ("open", "[pay, Some()]")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("from . import agent\n")
        (tmp_path / name / "agent.py").write_text(AGENT.format(tools=tools))
    with AgentLoading() as loading:
        found = loading.load(tmp_path, {})
    assert {name: one.tools for name, one in found.items()} == {
        "plain": {"pay": ["amount", "note"]},
        "open": None,
    }


AGENT = '''
from google.adk.agents import Agent
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext


class Some(BaseToolset):
    async def get_tools(self, readonly_context=None):
        return []


def pay(amount: float, tool_context: ToolContext, note: str = "") -> dict:
    """Pay."""
    return {{}}


root_agent = Agent(name="desk", model="m", tools={tools})
'''
