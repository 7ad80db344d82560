"""The OpenAPI document: the bodies, responses and required scopes of the routes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from signoff.channels.rest.auth import Needs
from signoff.client import models

_KEY: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Carries the request out once, even if it is repeated; valid for a day.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}


def document_of(app: FastAPI, path: str) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of the API.

    The scopes of an operation are in its ``security``, as the roles that OpenAPI allows there. A
    token needs only one of them.
    """
    made = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        servers=[{"url": path}],
    )
    schemas = made["components"]["schemas"]
    for model in (models.Problem, models.AuditLine):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= schema.pop("$defs", {})
        schemas[model.__name__] = schema
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for schema in schemas.values():
        _describe(schema)
    scopes = {
        (route.path, method.lower()): list(_scopes(route))
        for route in app.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    (scheme,) = made["components"]["securitySchemes"]
    for place, methods in made["paths"].items():
        for method, operation in methods.items():
            operation["security"] = [{scheme: [one]} for one in scopes[place, method]] or [
                {scheme: []}
            ]
            if method == "post":
                operation.setdefault("parameters", []).append(_KEY)
    return made


def _scopes(route: APIRoute) -> Iterator[str]:
    """Yield the scopes of a route; a token needs one of them."""
    for one in route.dependant.dependencies:
        if isinstance(one.call, Needs):
            yield from one.call.scopes


def _describe(schema: dict[str, Any]) -> None:
    """Move the descriptions of attributes from a model's docstring to its properties."""
    text, _, attributes = inspect.cleandoc(schema.get("description", "")).partition("Attributes:\n")
    schema["description"] = text.strip()
    properties, name = schema.get("properties", {}), ""
    for line in attributes.splitlines():
        if line.startswith(" " * 8) and name:
            properties[name]["description"] += " " + line.strip()
        elif line.startswith("    "):
            name, _, words = line.strip().partition(": ")
            if name not in properties or "description" in properties[name]:
                name = ""
            else:
                properties[name]["description"] = words
