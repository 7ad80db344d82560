"""Errors about requests have plain words, without patterns or types of Python."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from signoff.channels.aap import wire
from signoff.channels.rest import bodies
from signoff.core.approvals import run
from signoff.core.base.plain import PATTERNS, plainly


def patterns(module: ModuleType) -> set[str]:
    """Return the patterns of the models that a module defines."""
    models = [
        one
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, BaseModel) and one.__module__ == module.__name__
    ]
    return {
        found
        for model in models
        for field in model.model_fields.values()
        for one in field.metadata
        if (found := getattr(one, "pattern", None)) is not None
    }


@pytest.mark.parametrize("module", [bodies, wire, run], ids=lambda one: str(one.__name__))
def test_every_pattern_of_a_request_is_explained(module: ModuleType) -> None:
    """A new pattern needs an explanation."""
    used = patterns(module)
    assert used
    assert used <= set(PATTERNS)


def test_a_mapping_has_the_name_that_its_source_uses() -> None:
    """It is an object in JSON, and a table in TOML."""
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(dict[str, int]).validate_python([])
    (error,) = caught.value.errors()
    assert plainly(error) == "it should be an object"
    assert plainly(error, table="a table") == "it should be a table"
