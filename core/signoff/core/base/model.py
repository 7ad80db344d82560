"""The base of all values of the domain: frozen, comparable, strict about unknown keys.

Input from outside may only have known keys. Stored records may have others: a process of a later
version may have written them. Unknown fields of a record are kept when it is written again.
"""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

T = TypeVar("T")

_set: Final = object.__setattr__
"""Sets what a frozen model does not let be set."""


PROGRAMS: Final = 2
"""The number of the last rule of `Needs`."""

Needs = Annotated[int, Field(ge=0, le=PROGRAMS)]
"""The rules that a process has to know to act on a record, as a number.

A release with a new rule that every decision must follow raises the limit, and writes the number
into the records that follow the rule. Earlier releases cannot read these records, so they do not
change them.

1: the digest of an approval also covers the agent, the app, the requester and the declared
   parameters.
2: a program asks, runs the call itself, and waits for the decision for a limited time.
"""


class Value(BaseModel):
    """A frozen pydantic model that refuses unknown keys.

    Its validator is built on first use, because a command uses few of the hundred models. Modules
    of models do not postpone their annotations (PEP 563): pydantic would compile the text of each
    one, again for each subclass.

    Values that depend only on the fields may be a `cached_property`; a copy computes them again.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    _cached: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Collect the names of the cached properties."""
        super().__pydantic_init_subclass__(**kwargs)
        own = (name for name, one in vars(cls).items() if isinstance(one, cached_property))
        cls._cached = (*cls._cached, *own)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields replaced; pydantic would keep the cached properties."""
        # pydantic makes the same copy with three times as many instructions.
        of = super().model_copy(deep=True) if deep else self
        copied, update = self.__new__(type(self)), update or {}
        extra, private = of.__pydantic_extra__, of.__pydantic_private__
        fields = {**of.__dict__, **update}
        for name in self._cached:
            fields.pop(name, None)
        _set(copied, "__dict__", fields)
        _set(copied, "__pydantic_fields_set__", {*self.__pydantic_fields_set__, *update})
        _set(copied, "__pydantic_extra__", None if extra is None else {**extra})
        _set(copied, "__pydantic_private__", None if private is None else {**private})
        return copied


BY_NAME_OR_ALIAS: Final = ConfigDict(
    validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
)
"""For models with fields that have another name in records."""


def checked_by(check: Callable[[str], object]) -> AfterValidator:
    """Return a validator that refuses a text if `check` raises an error, and never changes it."""

    def checked(text: str) -> str:
        check(text)
        return text

    return AfterValidator(checked)


def read_stored(kind: TypeAdapter[T], text: str) -> T:
    """Return the value of a stored record, with unknown fields of later versions.

    This version ignores unknown fields, and `stored_json` writes them again.

    Raises:
        ValidationError: This version cannot read the record.
    """
    try:
        return kind.validate_json(text)
    except ValidationError:
        return kind.validate_json(text, extra="allow")


def stored_json(value: BaseModel | Mapping[str, BaseModel], *, exclude: str = "") -> str:
    """Return a value as it is stored: without defaults, with the unknown fields of its record.

    Args:
        value: A model, or models by name.
        exclude: A field that is stored elsewhere.
    """
    if isinstance(value, BaseModel):
        # Only values that `read_stored` read with unknown fields have any.
        if value.__pydantic_extra__ is None:
            return value.model_dump_json(exclude_defaults=True, exclude={exclude})
        fields: object = _with_unknown(value, _known(value, exclude))
    else:
        fields = {name: _with_unknown(one, _known(one, "")) for name, one in value.items()}
    # Compact, as pydantic writes it, because Lua scripts search for texts in records.
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
