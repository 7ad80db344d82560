"""The text of a mail in HTML, as its reader sees it."""

from __future__ import annotations

from signoff.channels.email.parsing.markup import lines_of_html


def text_of_html(markup: str) -> str:
    """Return the lines as text, without the doubts."""
    return "\n".join(line.text for line in lines_of_html(markup)).strip("\n")
