"""Reads settings from environment variables: ``SIGNOFF_REDIS__URL`` is `url` of [redis].

A command imports this module only if there is such a variable, because pydantic-settings takes a
while to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic_settings import EnvSettingsSource, SettingsError

from signoff.cli.composition.credentials import NESTED, PREFIX
from signoff.cli.config.faults import ConfigErrors, Fault


def read_environment(model: type[BaseModel], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in environment variables, in the form of a settings file.

    The model says which values are JSON. Names of variables may have any case.

    Raises:
        ConfigErrors: The value of a list or a table is not JSON.
    """
    try:
        return _Source(model, variables)()
    except SettingsError as error:
        name = str(error).partition('"')[2].partition('"')[0]
        message = "the value of the variable is not JSON"
        remedy = "Lists and tables in the environment are written as JSON."
        raise ConfigErrors([Fault(name, message, remedy, f"{PREFIX}{name.upper()}")]) from error


class _Source(EnvSettingsSource):
    """A source of pydantic-settings for a model that is not one of its own."""

    def __init__(self, model: type[BaseModel], variables: Mapping[str, str]) -> None:
        self._variables = variables
        super().__init__(
            model,  # type: ignore[arg-type] # it needs no more than a model
            case_sensitive=False,
            env_prefix=PREFIX,
            env_nested_delimiter=NESTED,
        )

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in self._variables.items()}
