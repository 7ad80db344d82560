"""Declares a Python tool to the model by its signature and docstring, without running it."""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from google.genai import types

from signoff.worker.ces.errors import CodeRefused
from signoff.worker.ces.lowering import Code

_KINDS: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "dict": "object",
    "Dict": "object",
    "Mapping": "object",
    "list": "array",
    "List": "array",
    "tuple": "array",
    "set": "array",
    "Sequence": "array",
}
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")


def declaration(code: Code, name: str) -> types.FunctionDeclaration:
    """Return the declaration of a function.

    Raises:
        CodeRefused: It has parameters that a model cannot pass by name.
    """
    function = code.functions[name]
    given = function.args
    if given.posonlyargs or given.vararg or given.kwarg:
        raise CodeRefused(
            f"{code.name}, line {function.lineno}: a tool takes named arguments only, no *args, "
            "no **kwargs, and no / in its signature."
        )
    words = ast.get_docstring(function) or ""
    told = dict(_arguments(words))
    properties: dict[str, Any] = {}
    required: list[str] = []
    for argument, default in _with_defaults(given):
        schema = _schema(argument.annotation)
        if argument.arg in told:
            schema = {**schema, "description": told[argument.arg]}
        if default is None:
            required.append(argument.arg)
        else:
            schema = _with_default(schema, default)
        properties[argument.arg] = schema
    return types.FunctionDeclaration(
        name=name,
        description=words or name.replace("_", " "),
        parameters_json_schema={
            "type": "object",
            "properties": properties,
            "required": required,
        },
    )


def _with_defaults(given: ast.arguments) -> list[tuple[ast.arg, ast.expr | None]]:
    missing: list[ast.expr | None] = [None] * (len(given.args) - len(given.defaults))
    return [
        *zip(given.args, [*missing, *given.defaults], strict=True),
        *zip(given.kwonlyargs, given.kw_defaults, strict=True),
    ]


def _with_default(schema: dict[str, Any], default: ast.expr) -> dict[str, Any]:
    try:
        value = ast.literal_eval(default)
    except ValueError:
        return schema
    return schema if value is None else {**schema, "default": value}


def _schema(annotation: ast.expr | None) -> dict[str, Any]:
    match annotation:
        case ast.Constant(value=str() as written):
            try:
                return _schema(ast.parse(written, mode="eval").body)
            except SyntaxError:
                return {}
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {"type": _KINDS[name]} if name in _KINDS else {}
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([left, right])
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inside):
            several = inside.elts if isinstance(inside, ast.Tuple) else [inside]
            return _subscripted(name, several)
    return {}


def _subscripted(name: str, inside: list[ast.expr]) -> dict[str, Any]:
    match name:
        case "Optional":
            return _union([*inside, ast.Constant(value=None)])
        case "Union":
            return _union(inside)
        case "Annotated":
            return _schema(inside[0])
        case "Literal":
            values = [one.value for one in inside if isinstance(one, ast.Constant)]
            return {"enum": values} | (
                {"type": "string"} if all(isinstance(one, str) for one in values) else {}
            )
    kind = _KINDS.get(name)
    items = {"items": _schema(inside[0])} if kind == "array" else {}
    return {"type": kind, **items} if kind else {}


def _union(members: list[ast.expr]) -> dict[str, Any]:
    real = [one for one in members if not (isinstance(one, ast.Constant) and one.value is None)]
    if len(real) == 1:
        nullable = {"nullable": True} if len(real) < len(members) else {}
        return {**_schema(real[0]), **nullable}
    return {"anyOf": [_schema(one) for one in real]}


def _arguments(words: str) -> list[tuple[str, str]]:
    """Return the description of each argument in the section "Args:" of a docstring."""
    found: list[tuple[str, str]] = []
    inside = False
    for line in words.splitlines():
        if not line.startswith(" ") and line.strip():
            inside = line.strip() in {"Args:", "Arguments:", "Parameters:"}
        elif inside and (match := _ARGUMENT.match(line)):
            found.append((match[1], match[2].strip()))
    return found
