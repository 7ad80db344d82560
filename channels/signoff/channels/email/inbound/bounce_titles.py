"""The titles and phrases of mail systems and auto-responders, from `titles.toml`."""

from typing import Final

from signoff.channels.email.word_lists import folded, word_lists

_LISTS: Final = {
    name: folded(words) for name, words in word_lists(__package__, "titles.toml").items()
}

AUTO_REPLIES: Final = _LISTS["auto_replies"]
ABSENT: Final = _LISTS["absent"]
FAILED: Final = _LISTS["failed"]
FAILED_IN_REPORT: Final = _LISTS["failed_in_report"]
LATER: Final = _LISTS["later"]
REPORTS: Final = _LISTS["reports"]
STATUSES: Final = _LISTS["statuses"]
GOES_ON: Final = frozenset(_LISTS["goes_on"])
OPENINGS: Final = _LISTS["openings"]
GIVEN_UP: Final = _LISTS["given_up"]
NOT_YET: Final = _LISTS["not_yet"]
ROBOTS: Final = _LISTS["robots"]
REPORTERS: Final = _LISTS["reporters"]
REPLY_FIELDS: Final = _LISTS["reply_fields"]
AUTOMATIC_FIELDS: Final = (*REPLY_FIELDS, *_LISTS["automatic_fields"])
