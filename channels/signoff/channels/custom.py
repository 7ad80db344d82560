"""Custom channels: loads those that the settings name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from signoff.core.base.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import APIRouter

    from signoff.broker.decisions import Decisions
    from signoff.channels.pipeline.port import Channel

RESERVED_NAMES: Final = frozenset(
    {"email", "slack", "inbox", "cli", "api", "deadline", "settings", "withdrawn", "superseded"}
)
"""Names with a meaning of their own in the audit: an answer on the inbox page, for instance, is
better proven than one of another channel."""


class AddedChannel(BaseModel):
    """A custom channel; all keys except `factory` are its own settings.

    Attributes:
        factory: ``package.module:name``: creates the channel. It is called with the channel's name
            and the other keys of this table, as a dict.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    factory: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")

    @property
    def settings(self) -> dict[str, Any]:
        """The other keys."""
        return dict(self.__pydantic_extra__ or {})


def _free(name: str) -> str:
    if name in RESERVED_NAMES:
        raise ValueError(f"{name!r} is reserved by Signoff: choose another name for the channel")
    return name


ChannelName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{1,31}$"), AfterValidator(_free)]
AddedChannels = dict[ChannelName, AddedChannel]


def added_channels(tables: Mapping[str, AddedChannel]) -> list[Channel]:
    """Return the custom channels of the settings, each made by its factory.

    Raises:
        ConfigError: A channel cannot be loaded, or refuses its settings.
    """
    return [_made(name, table) for name, table in tables.items()]


def added_routes(tables: Mapping[str, AddedChannel], decisions: Decisions) -> Iterable[APIRouter]:
    """Return the routes of the custom channels that take answers, for the gateway.

    Raises:
        ConfigError: See `added_channels`.
    """
    from signoff.channels.pipeline.port import Answering  # noqa: PLC0415 -- settings need no channel

    return [one.routes(decisions) for one in added_channels(tables) if isinstance(one, Answering)]


def _made(name: str, table: AddedChannel) -> Channel:
    key = f"channels.{name}"
    module, _, attribute = table.factory.partition(":")
    try:
        factory = getattr(import_module(module), attribute)
    except Exception as error:
        raise ConfigError(
            f"{table.factory} cannot be loaded: {type(error).__name__}: {error}. It is "
            "`package.module:name`, on the Python path of every process: installed, or PYTHONPATH.",
            key=f"{key}.factory",
        ) from error
    try:
        made = factory(name, table.settings)
    except Exception as error:
        raise ConfigError(
            f"{table.factory} refuses its settings: {type(error).__name__}: {error}. "
            f"Correct the table [{key}].",
            key=key,
        ) from error
    if getattr(made, "name", None) != name or not callable(getattr(made, "deliver", None)):
        raise ConfigError(
            f"{table.factory} did not return a channel: an object with the name {name!r} and a "
            "method `deliver`. docs/how-to/add-a-channel.md shows one.",
            key=f"{key}.factory",
        )
    channel: Channel = made
    return channel
