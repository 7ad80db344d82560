"""Finds the folders of examples, in an installed package or in a clone."""

from __future__ import annotations

from pathlib import Path


def examples(name: str) -> Path:
    """Return one of the folders of examples, such as ``agents``."""
    installed = Path(__file__).with_name("examples")
    return (installed if installed.is_dir() else Path(__file__).parents[3] / "examples") / name
