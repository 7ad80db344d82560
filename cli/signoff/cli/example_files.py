"""Where the examples are: in the package once it is built, and beside it in a clone."""

from __future__ import annotations

from pathlib import Path


def examples(name: str) -> Path:
    """Return one of the folders of examples, such as ``agents``."""
    built = Path(__file__).with_name("examples")
    return (built if built.is_dir() else Path(__file__).parents[3] / "examples") / name
