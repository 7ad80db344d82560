"""The output of commands: text from agents and other people cannot affect the terminal.

Models, requesters and senders of mails choose text that operators read. Control sequences in it
could clear or rewrite the screen or fill the clipboard, and invisible characters could hide words.
All output goes through this module, which turns such characters into escapes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Write text to standard output, or to standard error."""
    from signoff.core.base.shown_text import visible  # noqa: PLC0415 -- help must not wait for it

    _escape_foreign()
    _write(visible(str(text).replace("\r\n", "\n")), err=err, nl=nl)


def say_json(text: str) -> None:
    """Write JSON to standard output; characters that do not print become JSON escapes."""
    _write(printable_json(text))


def export_json(text: str) -> None:
    """Write JSON unchanged to a file or another program; to a terminal as `say_json` does."""
    _write(printable_json(text) if sys.stdout.isatty() else text, nl=False)


def printable_json(text: str) -> str:
    """Return equivalent JSON in which every character prints; line ends stay."""
    for char in {one for one in text if one != "\n" and not one.isprintable()}:
        text = text.replace(char, json.dumps(char)[1:-1])
    return text


def _escape_foreign() -> None:
    """Let standard output escape characters that its encoding lacks, as standard error does."""
    out = sys.stdout
    if isinstance(out, TextIOWrapper) and not out.encoding.lower().startswith("utf"):
        out.reconfigure(errors="backslashreplace")


def _write(text: str, *, err: bool = False, nl: bool = True) -> None:
    import typer  # noqa: PLC0415 -- a process writes to its log

    typer.echo(text, err=err, nl=nl)


def make_console(**settings: Any) -> Console:  # noqa: ANN401 -- whatever rich takes
    """Return a console with rich's settings that writes text as `say` does; its styles stay."""
    from rich.console import Console, ConsoleOptions, RenderableType  # noqa: PLC0415 -- slow
    from rich.segment import Segment  # noqa: PLC0415

    from signoff.core.base.shown_text import visible  # noqa: PLC0415

    _escape_foreign()

    class Terminal(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for one in super().render(renderable, options):
                text = one.text if one.control else visible(one.text)
                yield one if text == one.text else Segment(text, one.style)

        def on_broken_pipe(self) -> None:
            # Rich would exit with 1, although a reader such as `head` may stop at any time.
            raise BrokenPipeError

    # Without emoji codes: text of agents stays as it is, and rich does not import 3,600 names.
    return Terminal(highlight=False, emoji=False, **settings)
