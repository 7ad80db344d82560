"""The reference of the REST API, made from its OpenAPI document."""
# ruff: noqa: INP001 -- beside a script, and no package

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Json = dict[str, Any]

_INTRO = """\
# The REST API

Under `/api/v1` of the gateway. How it is used, and how tokens are made, is in
[use the REST API](../how-to/use-the-rest-api.md). `signoff api openapi` prints the OpenAPI 3.1
document that this page is made from by `make docs`; a gateway serves it at `/api/v1/openapi.json`.

A token needs any one of the scopes of a request. Every POST takes an `Idempotency-Key`. Every
refusal is a problem document. Each request may be answered with 401 (no token that is known),
403 (not allowed), 422 (the wrong form), 429 (too many requests), 500 (Signoff has failed) and
503 (Redis is away) besides what stands beside it.
"""
_EVERYWHERE = {"401", "403", "422", "429", "500", "503"}


def api_page(document: Json) -> str:
    """Return the page."""
    operations = [
        (method.upper(), path, one)
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    ]
    tags = dict.fromkeys(one["tags"][0] for _, _, one in operations)
    parts = [_INTRO]
    for tag in tags:
        parts.append(f"## {tag.capitalize()}\n")
        parts += [_operation(*one) for one in operations if one[2]["tags"][0] == tag]
    parts.append("## Schemas\n")
    schemas = document["components"]["schemas"]
    parts += [_schema(name, schemas[name]) for name in sorted(schemas)]
    return "\n".join(parts)


def _operation(method: str, path: str, one: Json) -> str:
    lines = [f"### `{method} {path}`", "", *one["description"].splitlines(), ""]
    scopes = [f"`{name}`" for need in one["security"] for names in need.values() for name in names]
    lines += [f"Scope: {' or '.join(scopes) if scopes else 'any'}.", ""]
    rows = [
        (f"`{each['name']}`", each["in"], _type(each["schema"]), each.get("description", ""))
        for each in one.get("parameters", ())
        if each["name"] != "Idempotency-Key"
    ]
    if rows:
        lines += _table(("parameter", "in", "value", "meaning"), rows)
    if "requestBody" in one:
        lines += [f"Body: {_content(one['requestBody'])}.", ""]
    answers = sorted(one["responses"].items())
    good = [f"{status} {_content(answer)}" for status, answer in answers if status[0] == "2"]
    bad = [
        f"{status} ({answer['description']})"
        for status, answer in answers
        if status[0] != "2" and status not in _EVERYWHERE
    ]
    lines += [f"Answer: {'; '.join(good)}.", ""]
    if bad:
        lines += [f"Besides: {'; '.join(bad)}.", ""]
    return "\n".join(lines)


def _content(part: Json) -> str:
    kinds = [
        f"{_type(content.get('schema', {}))}" + ("" if kind == "application/json" else f" ({kind})")
        for kind, content in part.get("content", {}).items()
    ]
    return ", ".join(kinds)


def _schema(name: str, one: Json) -> str:
    lines = [f"### {_title(name)}", ""]
    if one.get("description"):
        lines += [" ".join(one["description"].replace("``", "`").split()), ""]
    if "enum" in one:
        return "\n".join([*lines, "One of " + ", ".join(f"`{each}`" for each in one["enum"]), ""])
    required = set(one.get("required", ()))
    rows = [
        (f"`{key}`", _type(each), "yes" if key in required else "", each.get("description", ""))
        for key, each in one.get("properties", {}).items()
    ]
    return "\n".join([*lines, *_table(("key", "value", "required", "meaning"), rows)])


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for row in rows:
        cells = (" ".join(cell.replace("``", "`").split()).replace("|", "\\|") for cell in row)
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _type(one: Json) -> str:
    """Return what a schema allows, in words."""
    return " or ".join(dict.fromkeys(_types(one)))


def _types(one: Json) -> Iterator[str]:
    if "$ref" in one:
        title = _title(one["$ref"].rpartition("/")[2])
        yield f"[{title}](#{title.lower().replace(' ', '-')})"
    elif "anyOf" in one:
        for each in one["anyOf"]:
            yield from _types(each)
    elif one.get("type") == "array":
        yield f"list of {_type(one['items'])}"
    elif "enum" in one:
        yield ", ".join(f"`{each}`" for each in one["enum"])
    elif "type" in one:
        words = {"string": "text", "integer": "whole number", "object": "object", "null": "null"}
        kind = one.get("format") or words.get(one["type"], one["type"])
        yield str(kind).replace("date-time", "moment")
    else:
        yield "any value"


def _title(name: str) -> str:
    """Return ``Page of Approval`` for ``Page_Approval_``."""
    return " of ".join(part for part in name.split("_") if part)
