"""All commands in one tree, as the reference of the command line shows them."""

from __future__ import annotations

from signoff.cli.tree import assemble

app = assemble()
