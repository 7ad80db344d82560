"""Names a browser from its User-Agent header."""

from __future__ import annotations

from typing import Final

_PROGRAMS: Final = (
    # The order matters: most claim to be others as well.
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("FxiOS/", "Firefox"),
    ("Firefox/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def browser_of(user_agent: str) -> str:
    """Return the name of a browser and its system: ``Firefox on Linux``.

    The name consists of words from this module only, so it is safe in pages and mails.
    """
    program = next((name for mark, name in _PROGRAMS if mark in user_agent), "A browser")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return f"{program} on {system}" if system else program
