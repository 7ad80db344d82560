"""Each run goes to the runtime of its app."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.worker.dispatch import MixedRuntime
from signoff.worker.port import Fence, TurnResult


class Named:
    """A runtime that answers with its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def start(self, run: Run, fence: Fence) -> TurnResult:
        """Return its name for a start."""
        return TurnResult(text=f"started by {self.name}")

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        """Return its name for a resume."""
        return TurnResult(text=f"resumed by {self.name}")

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Never called."""
        raise NotImplementedError


def run_of(app: str) -> Run:
    """Return a run of an app."""
    noon = datetime(2026, 3, 2, 12, tzinfo=UTC)
    return Run(id="run_1", app=app, user="riley", session="s", message="hi", submitted_at=noon)


async def test_a_run_goes_where_its_app_is() -> None:
    """An agent without an entry runs in this process."""
    mixed = MixedRuntime(Named("us"), {"legal": Named("them")})
    assert (await mixed.start(run_of("finance"), lambda one: one)).text == "started by us"
    assert (await mixed.start(run_of("legal"), lambda one: one)).text == "started by them"
    assert (await mixed.resume(run_of("finance"), [], lambda one: one)).text == "resumed by us"
    assert (await mixed.resume(run_of("legal"), [], lambda one: one)).text == "resumed by them"
