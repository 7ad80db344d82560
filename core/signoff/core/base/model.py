"""What all values of the domain have in common: frozen, strict about extra keys, comparable.

Input from outside is held to the keys that this version knows. Stored records are not: a process of
a later version may have written them, and its fields are carried along until it reads them again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

T = TypeVar("T")


PROGRAMS: Final = 2
"""The number of the last rule below."""

Needs = Annotated[int, Field(ge=0, le=PROGRAMS)]
"""Which rules a process has to know to act on a record.

A release with a rule that no earlier one may decide without raises the limit, and writes the number
into the records that follow the rule. Earlier releases then leave those alone, as unreadable.

1: the digest of an approval is over agent, app, requester and declared parameters too.
2: a program asks, runs the call itself, and waits only so long for the decision.
"""


class Value(BaseModel):
    """A frozen pydantic model that refuses keys it does not know.

    Its validator is built when it is first used: of the hundred models few are used by a command,
    and most of the others only as parts of one that is.

    What follows from the fields may be a `cached_property`; a copy computes it anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    _cached: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Note which properties are cached."""
        super().__pydantic_init_subclass__(**kwargs)
        own = (name for name, one in vars(cls).items() if isinstance(one, cached_property))
        cls._cached = (*cls._cached, *own)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields replaced; pydantic would keep what is cached."""
        copied = super().model_copy(update=update, deep=deep)
        for name in self._cached:
            copied.__dict__.pop(name, None)
        return copied


BY_NAME_OR_ALIAS: Final = ConfigDict(
    validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
)
"""For models with fields that are called otherwise in records."""


def held_to(check: Callable[[str], object]) -> AfterValidator:
    """Return a validator that refuses a text for which a check raises, and changes none."""

    def checked(text: str) -> str:
        check(text)
        return text

    return AfterValidator(checked)


def read_stored(kind: TypeAdapter[T], text: str) -> T:
    """Return what a stored record holds, with the fields that a later version has added to it.

    No property or comparison of this version looks at them, and `stored_json` writes them again.

    Raises:
        ValidationError: It does not hold what this version can read.
    """
    try:
        return kind.validate_json(text)
    except ValidationError:
        return kind.validate_json(text, extra="allow")


def stored_json(value: BaseModel | Mapping[str, BaseModel], *, exclude: str = "") -> str:
    """Return a value as it is stored: without defaults, with all fields that it was read with.

    Args:
        value: A model, or models by name.
        exclude: A field that is kept elsewhere.
    """
    if isinstance(value, BaseModel):
        # What was read without unknown fields, or was made here, has none anywhere.
        if value.__pydantic_extra__ is None:
            return value.model_dump_json(exclude_defaults=True, exclude={exclude})
        fields: object = _with_unknown(value, _known(value, exclude))
    else:
        fields = {name: _with_unknown(one, _known(one, "")) for name, one in value.items()}
    # Compact, as pydantic writes it: scripts look for texts in records.
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _known(value: BaseModel, exclude: str) -> dict[str, Any]:
    return value.model_dump(mode="json", exclude_defaults=True, exclude={exclude})


def _with_unknown(value: object, dumped: Any) -> Any:  # noqa: ANN401 -- JSON
    """Return a dumped value with the unknown fields at every depth; pydantic leaves them out."""
    match value, dumped:
        case BaseModel(), dict():
            known = {
                name: _with_unknown(getattr(value, name), dumped[name])
                for name in type(value).model_fields
                if name in dumped
            }
            return {**dumped, **known, **(value.__pydantic_extra__ or {})}
        case tuple() | list(), list() if len(value) == len(dumped):
            return [_with_unknown(*pair) for pair in zip(value, dumped, strict=True)]
        case Mapping(), dict() if value.keys() == dumped.keys():
            return {name: _with_unknown(value[name], one) for name, one in dumped.items()}
    return dumped
