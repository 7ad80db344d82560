"""Some agents run in this process, some behind API servers: each run goes where its app is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from signoff.core.approval import Approval
from signoff.core.run import Run
from signoff.worker.port import Fence, Runtime, Turn


@dataclass(frozen=True, slots=True)
class MixedRuntime:
    """A runtime made of others.

    Attributes:
        usual: For every app that no other is named for.
        others: By app.
    """

    usual: Runtime
    others: Mapping[str, Runtime]

    async def start(self, run: Run, fence: Fence) -> Turn:
        """Start a run in the runtime of its app; see there for the errors."""
        return await self.others.get(run.app, self.usual).start(run, fence)

    async def resumes_each(self, run: Run, approvals: Sequence[Approval]) -> bool:
        """Say whether these approvals of a pause may be answered in parts."""
        return await self.others.get(run.app, self.usual).resumes_each(run, approvals)

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: Fence) -> Turn:
        """Resume a run in the runtime of its app; see there for the errors."""
        return await self.others.get(run.app, self.usual).resume(run, approvals, fence)
