"""The line with which people open a mail, before they say what they have to say.

Skipping a line is only safe where it can say nothing else: "Hi Anna," may go, "Hi, I can't" may
not, and neither may the first half of a sentence that goes on below.
"""

from typing import Final

from signoff.core.salutations import GREETED, GREETING_LINES, GREETINGS
from signoff.core.text import plain_line
from signoff.core.words import (
    APPROVE,
    CONDITIONS,
    HEDGES,
    NEGATIONS,
    QUALIFIERS,
    REJECT,
    REJECT_BRIEF,
)

_LONGEST: Final = 80
_LONGEST_ADDRESSED: Final = 20
_MOST_NAMES: Final = 5
_MOST_NAMES_ALONE: Final = 2
_ENDS: Final = ",!:;"
_MEANINGFUL: Final = (
    APPROVE | REJECT | REJECT_BRIEF | HEDGES | NEGATIONS | frozenset((*CONDITIONS, *QUALIFIERS))
)


def after_greeting(line: str, *, alone: bool) -> str | None:
    """Return what stands on a line after a greeting.

    Args:
        line: The line.
        alone: Whether the line below it is blank.

    Returns:
        The rest of the line, "" where the greeting is all, and None where there is no greeting.
    """
    plain = plain_line(line)
    if len(plain) > _LONGEST:
        return None
    bare = plain.strip(" .,!:;~、。").casefold()
    if bare in GREETING_LINES or _addresses(bare):
        return ""
    opening = _opening(plain)
    if not opening:
        return None
    rest = plain[len(opening) :]
    end = min((at for at in map(rest.find, _ENDS) if at >= 0), default=-1)
    names = (rest if end < 0 else rest[:end]).rstrip(". ").split()
    if not all(_is_name(name) for name in names) or len(names) > _MOST_NAMES:
        return None
    if end >= 0 or rest.endswith("."):
        return rest[end:].strip(_ENDS + " ") if end >= 0 else ""
    # Without a comma it may be the beginning of a sentence that goes on below.
    sure = alone or all(name[0].isupper() and len(name) > 1 for name in names)
    return "" if sure and len(names) <= _MOST_NAMES_ALONE else None


def _opening(plain: str) -> str:
    folded = plain.casefold()
    if len(folded) != len(plain):
        return ""
    found = [word for word in GREETINGS if folded.startswith(word)]
    longest = max(found, key=len, default="")
    after = folded[len(longest) : len(longest) + 1]
    return plain[: len(longest)] if longest and (not after or after in _ENDS + " .") else ""


def _is_name(word: str) -> bool:
    folded = word.casefold().strip(".")
    letters = all(mark.isalpha() or mark in "-.'" for mark in folded)
    return bool(folded) and letters and folded not in _MEANINGFUL


def _addresses(bare: str) -> bool:
    """Say whether a line is a name and an honorific: "田中様", "김 부장님", "王先生您好"."""
    ending = next((ending for ending in GREETED if bare.endswith(ending)), "")
    name = bare.removesuffix(ending)
    if len(bare) > _LONGEST_ADDRESSED or not ending:
        return False
    return not any(word in name for word in _MEANINGFUL if word[0] > "\u2fff")
