"""Errors in settings have plain words, without Python types, patterns or classes."""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from annotated_types import Ge, Gt
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from signoff.cli.config.faults import ConfigErrors, Fault, faults_of, read_text
from signoff.cli.config.settings import Settings, load_settings
from signoff.core.base.errors import ConfigError
from signoff.core.base.plain import PATTERNS

PYTHON = (
    *("timedelta", "datetime", "Decimal", "pattern", "instance of", "class ", "tuple", "dict"),
    *("String ", "Input", "Tuple", "boolean", "integer", "constrained", "literal[", "[key]"),
)
BAD: tuple[Any, ...] = (
    *(-1, 0, -0.5, 1.5, 10**12, True, None, "", "x" * 2000, "nö !", "1ms", "365d1s", "every x"),
    *([], ["x"] * 60, [1], {}, {"ö !": "x"}, {"a": -1}, datetime(2026, 1, 1)),  # noqa: DTZ001 -- an invalid value
)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Return the models of an annotation, and those of their fields."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
            for one in annotation.model_fields.values():
                yield from models_in(one.annotation)
        return
    for part in typing.get_args(annotation):
        yield from models_in(part)


MODELS = list(dict.fromkeys(models_in(Settings)))
FIELDS = [field for model in MODELS for field in model.model_fields.values()]


def metadata_of(field: FieldInfo) -> Iterator[Any]:
    """Return the constraints of an annotation, also nested ones."""
    yield from field.metadata
    left: list[Any] = [field.annotation]
    while left:
        one = left.pop()
        left += typing.get_args(one)
        for more in getattr(one, "__metadata__", ()):
            yield more
            yield from getattr(more, "metadata", ())


def faults(model: type[BaseModel], name: str, value: object) -> list[Fault]:
    """Return the errors of one value of a model."""
    try:
        model.model_validate({name: value})
    except ValidationError as error:
        return [fault for loc, fault in faults_of(error, model) if loc and loc[0] == name]
    except ConfigError:
        return []  # Signoff's own sentence
    return []


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.__name__))
def test_invalid_setting_is_not_reported_in_python_terms(model: type[BaseModel]) -> None:
    """This holds for any invalid value."""
    for name, value in itertools.product(model.model_fields, BAD):
        for fault in faults(model, name, value):
            said = f"{fault.key}: {fault.message}".replace(repr(value), "")
            # Rules for conditions have their own messages.
            assert not [one for one in PYTHON if one in said], (value, said)


def test_every_pattern_is_explained() -> None:
    """A new pattern needs an explanation."""
    used = {
        found
        for field in FIELDS
        for one in metadata_of(field)
        if (found := getattr(one, "pattern", None)) is not None
    }
    assert used <= set(PATTERNS)
    assert len(used) > 10


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.__name__))
def test_error_for_a_value_below_the_bound_names_the_bound(model: type[BaseModel]) -> None:
    """The error of a value below the bound has the bound."""
    for name, field in model.model_fields.items():
        if any(isinstance(one, Ge | Gt) for one in metadata_of(field)):
            found = [one for value in (-1, "1ms", {"a": -1}) for one in faults(model, name, value)]
            said = [one.message for one in found]
            assert any("at least" in text or "more than" in text for text in said), (name, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[retention]\nafter = "1s"', "it should be at least 1 minute, not '1s'"),
        ('[delivery]\nbundle_within = "1s"', "it should be at least 10 seconds"),
        ('[delivery]\nbundle_within = "2h"', "it should be at most 1 hour"),
        ('[inbox]\nidle = "0s"', "it should be at least 1 millisecond, not '0s'"),
        ("[inbox]\nsign_in = []", "it should have at least 1 entry"),
        ("[email.smtp]\ntimeout = 0", "it should be more than 0"),
        ("[ces]\nseconds = 601.5", "it should be at most 600, not 601.5"),
        ('[receipts]\nunsigned_until = "soon"', "it should be a time like 2026-01-31T09:00:00Z"),
        ("[redis]\nprefix = 3", "it should be text, not 3"),
        ('policies = "none"', "it should be a list, not 'none'"),
        (
            '[[policies]]\nname = "x"\nask = ["mara"]\nquorum = 0',
            "policy 'x': quorum: it should be at least 1, or 'all' or 'majority', not 0",
        ),
        (
            "[policies]\nname = 'x'",
            "it should be a list. Write its header with two brackets: [[policies]]",
        ),
        ('[[policies]]\nname = "x"\nask = []', "policy 'x': ask: it is empty. Name somebody."),
        (
            '[[people]]\nid = "x"\nemail = "x@example.com"\naway = [{ on = 2026-01-01 }]',
            "Known here: delegate, from, second_factor, to.",
        ),
        ('[redis]\nurl = "redis://a"\nurl = "redis://b"', "a key or [table] is set only once"),
        ('[channels.chat]\nfactory = "a.b"', "a function like package.module:function, not 'a.b'"),
    ],
)
def test_error_has_the_setting_the_bound_and_the_value(
    tmp_path: Path, text: str, said: str
) -> None:
    """The message has the setting, the bound and the value."""
    file = tmp_path / "signoff.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(file)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[inbox]\nsign_in = ["password"]', "sign_in[0]: it should be 'link'"),
        ('[[policies]]\nname = "x"\nall_of = ["mara"]', "all_of[0]: it should be a table"),
    ],
)
def test_an_invalid_entry_of_a_list_is_the_only_fault(tmp_path: Path, text: str, said: str) -> None:
    """The list does not count as empty because its only entry is invalid."""
    file = tmp_path / "signoff.toml"
    file.write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        load_settings(file)
    assert said in str(caught.value)
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize(
    "host", ["https://mail.example.com", "mail.example.com:587", "me@mail.example.com", "[::1]"]
)
@pytest.mark.parametrize("table", ["email.smtp", "email.imap"])
def test_a_mail_server_is_named_without_scheme_and_port(
    tmp_path: Path, table: str, host: str
) -> None:
    """The message has the value and the right form; IPv6 addresses are accepted."""
    file = tmp_path / "signoff.toml"
    text = f'[{table}]\nsecurity = "tls"\nusername = "me"\npassword = "pw"\n'
    file.write_text(f'{text}host = "{host}"\n')
    with pytest.raises(ConfigError, match="is not the name of a server"):
        load_settings(file)
    file.write_text(f'{text}host = "2001:db8::1"\n')
    load_settings(file)


def test_a_missing_file_is_named_once(tmp_path: Path) -> None:
    """The message does not repeat the path or have a number of the system."""
    with pytest.raises(ConfigError) as caught:
        read_text(tmp_path / "none.toml")
    said = "none.toml: it cannot be read: No such file or directory. Name a UTF-8 text file."
    assert str(caught.value).endswith(said)
    assert str(caught.value).count("none.toml") == 1
