"""Reads the lists of words and phrases in the `.toml` files beside the modules."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources

from signoff.core.base.text import fold


def word_lists(package: str, name: str) -> Mapping[str, tuple[str, ...]]:
    """Return the lists of a file in a package, by name."""
    text = resources.files(package).joinpath(name).read_text("utf-8")
    return {key: tuple(words) for key, words in tomllib.loads(text).items()}


def folded(words: Iterable[str]) -> tuple[str, ...]:
    """Return the folded words without duplicates."""
    return tuple(dict.fromkeys(fold(word) for word in words))
