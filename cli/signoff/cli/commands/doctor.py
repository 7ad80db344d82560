"""`signoff doctor`: checks that everything that Signoff needs exists and works."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from signoff.cli.boundary import REFUSED
from signoff.cli.commands.context import Json, settings_of, write_json
from signoff.cli.doctor.loading import AgentLoading
from signoff.cli.lean import import_lean
from signoff.cli.printing import Output, Text

if TYPE_CHECKING:
    from signoff.cli.doctor.finding import Finding


def doctor(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Check settings, Redis, broker, mail server, agents and processes. No mail is sent."""
    # Loading agents takes longest, so it starts first.
    with AgentLoading() as loading:
        import_lean("celery.app.base", "kombu.serialization")
        from signoff.cli.config.faults import ConfigErrors  # noqa: PLC0415
        from signoff.cli.doctor.diagnosis import diagnose, of_errors  # noqa: PLC0415 -- Celery

        try:
            findings = asyncio.run(diagnose(settings_of(ctx), loading))
        except ConfigErrors as error:
            findings = of_errors(error)
    broken = any(finding.level == "broken" for finding in findings)
    if as_json:
        write_json({"ok": not broken, "findings": [finding.as_json() for finding in findings]})
    else:
        _write(findings)
    if broken:
        raise typer.Exit(REFUSED)


def _write(findings: list[Finding]) -> None:
    marks = {"good": ("✓", "green"), "warning": ("!", "yellow"), "broken": ("✗", "bold red")}
    out = Output()
    for finding in findings:
        mark, style = marks[finding.level]
        head = Text().append(f"{mark} ", style).append(f"{finding.about}: ", "bold")
        out.print(head.append(finding.text))
