"""The errors of code of CX Agent Studio.

RunError (signoff.core.base.errors)
└── CodeError               code of CX Agent Studio did not run to its end
    ├── CodeRefused         it uses a feature that the sandbox lacks
    ├── CodeFailed          it raised, broke a limit, or crashed
    └── SnapshotRefused     suspended code cannot be resumed: changed, too large, too old
"""

from __future__ import annotations

from signoff.core.base.errors import RunError


class CodeError(RunError):
    """Code of CX Agent Studio did not run to its end."""


class CodeRefused(CodeError):
    """Code uses a feature that the sandbox lacks; the message names its line."""


class CodeFailed(CodeError):
    """Code raised, broke a limit, or its sandbox crashed; the message names its line."""


class SnapshotRefused(CodeError):
    """Suspended code cannot be resumed: it was changed, is too large, or of another version."""
