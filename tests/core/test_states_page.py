"""docs/reference/states.md shows the diagrams that the tables render."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from signoff.core.approvals.approval import HANDOFFS, TRANSITIONS
from signoff.core.approvals.lifecycle import approval_diagram, handoff_diagram
from signoff.core.approvals.run import RUN_TRANSITIONS, run_diagram

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "states.md"
REMEDY = (
    "docs/reference/states.md is out of date: run "
    "`SIGNOFF_WRITE_DOCS=1 .venv/bin/pytest tests/core/test_states_page.py`"
)
DIAGRAMS = {"approval": approval_diagram, "handoff": handoff_diagram, "run": run_diagram}


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_page_shows_the_diagram(name: str) -> None:
    """The diagram between the markers is the one that the table renders."""
    start, end = f"<!-- {name}: rendered from the code -->", f"<!-- {name}: end -->"
    wanted = f"{start}\n\n```mermaid\n{DIAGRAMS[name]()}```\n\n{end}"
    block = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
    page = PAGE.read_text(encoding="utf-8")
    if os.environ.get("SIGNOFF_WRITE_DOCS"):
        page = block.sub(lambda _: wanted, page)
        PAGE.write_text(page, encoding="utf-8")
    assert block.findall(page) == [wanted], REMEDY


def test_every_edge_is_drawn() -> None:
    """Each move of a table is in its diagram."""
    assert approval_diagram().count(" --> ") == 1 + 2 * len(TRANSITIONS)
    for table, diagram in ((HANDOFFS, handoff_diagram()), (RUN_TRANSITIONS, run_diagram())):
        for source, targets in table.items():
            for to in targets:
                assert f"    {source} --> {to}\n" in diagram
            assert (f"    {source} --> [*]\n" in diagram) is (not targets)
