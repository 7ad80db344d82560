"""The phrases with which mail programs introduce quotations, from `quotes.toml`."""

from typing import Final

from signoff.channels.email.word_lists import word_lists

_LISTS: Final = word_lists(__package__, "quotes.toml")

WROTE: Final = _LISTS["wrote"]
WROTE_THEN: Final = _LISTS["wrote_then"]
MESSAGE_OF: Final = _LISTS["message_of"]
OPENINGS: Final = _LISTS["openings"]
DAYS: Final = _LISTS["days"]
SEPARATORS: Final = frozenset(_LISTS["separators"])
AUTHOR_LABELS: Final = frozenset(_LISTS["author_labels"])
SUBJECT_LABELS: Final = frozenset(_LISTS["subject_labels"])
HEADER_LABELS: Final = AUTHOR_LABELS | SUBJECT_LABELS | frozenset(_LISTS["header_labels"])
