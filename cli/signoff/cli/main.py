"""The `signoff` command with all its subcommands, for its reference and for tests."""

from __future__ import annotations

from signoff.cli.tree import assemble

app = assemble()
