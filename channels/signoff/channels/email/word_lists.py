"""Lists of words and phrases of other programs: data, in the `.toml` files beside their modules."""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from importlib import resources


def word_lists(package: str, name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the lists of a file, by name.

    Args:
        package: The package in which the file is.
        name: The file's name.
    """
    text = resources.files(package).joinpath(name).read_text("utf-8")
    return {key: tuple(words) for key, words in tomllib.loads(text).items()}


def fold(text: str) -> str:
    """Return text without case, accents, typographic apostrophes and runs of space."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    bare = "".join(mark for mark in plain if not unicodedata.combining(mark))
    return " ".join(bare.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())


def folded(words: Iterable[str]) -> tuple[str, ...]:
    """Return words folded, each once."""
    return tuple(dict.fromkeys(fold(word) for word in words))
