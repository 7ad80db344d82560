"""How mail systems and auto-responders title what they send, from `titles.toml`."""

from typing import Final

from signoff.channels.email.word_lists import word_lists

_LISTS: Final = word_lists(__package__, "titles.toml")

AUTO_REPLIES: Final = _LISTS["auto_replies"]
ABSENT: Final = _LISTS["absent"]
FAILED: Final = _LISTS["failed"]
LATER: Final = _LISTS["later"]
REPORTS: Final = _LISTS["reports"]
STATUSES: Final = _LISTS["statuses"]
GOES_ON: Final = frozenset(_LISTS["goes_on"])
OPENINGS: Final = _LISTS["openings"]
