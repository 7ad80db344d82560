"""Sends each run to the runtime of its app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.worker.port import Fence, Runtime, TurnResult


@dataclass(frozen=True, slots=True)
class MixedRuntime:
    """A runtime that uses a different runtime for each app.

    Attributes:
        usual: The runtime of all apps that are not in `others`.
        others: Runtimes by app.
    """

    usual: Runtime
    others: Mapping[str, Runtime]

    async def start(self, run: Run, fence: Fence) -> TurnResult:
        """Start a run; the runtime of its app documents the errors."""
        return await self.others.get(run.app, self.usual).start(run, fence)

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Return whether these approvals of a pause may be answered separately."""
        return await self.others.get(run.app, self.usual).resumes_each(run, approvals)

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> TurnResult:
        """Resume a run; the runtime of its app documents the errors."""
        return await self.others.get(run.app, self.usual).resume(run, approvals, fence)
