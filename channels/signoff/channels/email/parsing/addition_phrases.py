"""The words of warnings, notices and disclaimers that mail systems add, from `additions.toml`."""

from typing import Final

from signoff.channels.email.word_lists import folded, word_lists

_LISTS: Final = {
    name: folded(words) for name, words in word_lists(__package__, "additions.toml").items()
}

BANNER_TAGS: Final = frozenset(_LISTS["banner_tags"])
BANNER_OPENINGS: Final = _LISTS["banner_openings"]
BANNER_REASONS: Final = _LISTS["banner_reasons"]
BANNER_LINES: Final = frozenset(_LISTS["banner_lines"])
BANNER_SENTENCES: Final = (_LISTS["banner_sentences"], _LISTS["banner_sentence_ends"])
BANNER_ENDS: Final = _LISTS["banner_ends"]
NOTICE_OPENINGS: Final = _LISTS["notice_openings"]
NOTICE_LINES: Final = frozenset(_LISTS["notice_lines"])
DISCLAIMER_LINES: Final = frozenset(_LISTS["disclaimer_lines"])
DISCLAIMER_OPENINGS: Final = _LISTS["disclaimer_openings"]
DISCLAIMER_WORDS: Final = _LISTS["disclaimer_words"]
POSTSCRIPT_WORDS: Final = frozenset(_LISTS["postscript_words"])
MARKED_POSTSCRIPT_WORDS: Final = frozenset(_LISTS["marked_postscript_words"])
AFTERTHOUGHTS: Final = _LISTS["afterthoughts"]
