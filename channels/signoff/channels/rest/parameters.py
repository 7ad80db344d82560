"""Refuses unknown query parameters: a misspelt filter would match everything."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, JsonValue

from signoff.channels.web.problems import Problem


async def require_known(request: Request) -> None:
    """Refuse query parameters that the route does not have, or that are given twice.

    Raises:
        Problem: 422; it names the parameters that the route has.
    """
    given = [name for name, _ in request.query_params.multi_items()]
    if not given:
        return
    route: APIRoute = request.scope["route"]
    known = list(dict.fromkeys(_names(route.dependant)))
    faults: dict[str, str] = {}
    for name in given:
        if name not in known:
            faults[name] = "This request has no such parameter."
        elif given.count(name) > 1:
            faults[name] = "It is given more than once."
    if not faults:
        return
    has = f"The parameters are {', '.join(known)}." if known else "This request has no parameters."
    first = list(faults.items())[:20]
    words = "; ".join(f"{name!r}: {why.rstrip('.')}" for name, why in first)
    errors: list[JsonValue] = [{"pointer": name, "detail": why} for name, why in first]
    raise Problem(422, "invalid", "The query has the wrong form", f"{words}. {has}", errors=errors)


def _names(dependant: Dependant) -> Iterator[str]:
    for one in dependant.query_params:
        kind = one.field_info.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from (field.alias or name for name, field in kind.model_fields.items())
        else:
            yield one.alias
    for other in dependant.dependencies:
        yield from _names(other)
