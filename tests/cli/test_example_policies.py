"""The example policies: their cases pass in the simulator and with the router."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.routed import World, foreseen, routed
from signoff.channels.forecast import call_facts, timeline_of
from signoff.cli.config.settings import load_settings
from signoff.cli.policy_cases.cases import Case, Cases, read_cases, start_of
from signoff.cli.policy_cases.results import answers_of, people_of, results_of
from signoff.core.approvals.approval import State
from signoff.core.simulation.forecast import End

FOLDER = Path(__file__).parents[2] / "examples" / "policies"
FILES = sorted(one for one in FOLDER.glob("*.toml") if not one.name.endswith(".test.toml"))
ENDS = {State.APPROVED: End.APPROVE, State.PENDING: End.STAY}


def cases_of(file: Path) -> Path:
    """Return the file of cases for a file of policies."""
    return file.with_name(f"{file.stem}.test.toml")


def every_case() -> Iterator[object]:
    """Yield each case of each example."""
    for file in FILES:
        cases, _ = read_cases(cases_of(file), load_settings(file))
        for case in cases.cases:
            yield pytest.param(file, cases, case, id=f"{file.stem}: {case.name}")


@pytest.mark.parametrize("file", FILES, ids=lambda one: one.stem)
def test_example_policy_cases_pass(file: Path) -> None:
    """They run as `signoff policy test` runs them."""
    found = results_of(cases_of(file), load_settings(file))
    assert [(one.case.name, one.failures) for one in found if one.failures] == []


@pytest.mark.parametrize(("file", "cases", "case"), [*every_case()])
def test_router_matches_the_simulated_timeline(
    file: Path, cases: Cases, case: Case, redis_url: str, prefix: str
) -> None:
    """The same events happen in the same order, with the same end at the same time."""
    rules, start = load_settings(file), start_of(case, cases)
    world = World(
        policies=rules.policies,
        default=rules.default,
        everybody=people_of(case, rules, start),
        answers=tuple(answers_of(case, cases)),
        owners=rules.owners,
        channel_names=rules.channel_names,
    )
    facts = call_facts(case.tool, case.args, app=case.app, agent=case.agent, user=case.user)
    timeline = timeline_of(world, facts, start=start, answers=world.answers)
    approval, refused, happened = asyncio.run(routed(world, facts, redis_url, prefix, start=start))
    assert happened == foreseen(timeline)
    assert refused == list(timeline.refused)
    assert ENDS.get(approval.state, End.REJECT) is timeline.end
    assert (approval.decision.at if approval.decision else None) == timeline.end_at
