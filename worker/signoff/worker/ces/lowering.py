"""Rewrites code of CX Agent Studio for the sandbox's Python; its errors keep their lines.

The sandbox lacks the `del` statement, exceptions with attributes, properties, and generators: a
generator expression is a list there. A construct with a plain equivalent is replaced on the same
line. Code with any other such construct is refused, and the error names the line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from signoff.worker.ces.errors import CodeRefused

MODULES = frozenset(
    {
        "__future__",
        "asyncio",
        "base64",
        "binascii",
        "bisect",
        "collections",
        "copy",
        "dataclasses",
        "datetime",
        "decimal",
        "functools",
        "hashlib",
        "itertools",
        "json",
        "math",
        "random",
        "re",
        "time",
        "typing",
        "unicodedata",
    }
)
"""The modules that code may import: pure modules, and clocks."""

_CONTEXTS = frozenset({"context", "callback_context", "tool_context"})
_TWINS = {"state": "variables", "variables": "state"}
"""Two names of one object: setting one also sets the other."""

_SHORT = frozenset({"any", "all", "next"})
"""The functions that may stop before they reach the end of a generator."""

_GIVEN = frozenset({"ces_public", "ces_requests"})
"""The names that code may import, although they exist without an import."""

_OUTSIDE = frozenset({"tools", "async_tools", "ces_requests"})
_ERROR_ATTRIBUTES = frozenset({"status_code", "reason"})
_LACKING = {
    ast.Yield: "generators (yield)",
    ast.YieldFrom: "generators (yield from)",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
}


@dataclass(frozen=True, slots=True)
class Code:
    """A file of code, ready for the sandbox.

    Attributes:
        name: Its name, for errors.
        text: The text that the sandbox runs.
        functions: Its functions, by name.
    """

    name: str
    text: str
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef]


@dataclass(frozen=True, slots=True)
class _Edit:
    line: int
    start: int
    end: int
    text: str


def lower(source: str, name: str) -> Code:
    """Return code as the sandbox runs it.

    Raises:
        CodeRefused: It is not Python, or uses a feature that the sandbox lacks.
    """
    try:
        tree = ast.parse(source, name)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise CodeRefused(f"{name}, line {line}: this is not Python: {error}") from error
    # Inner nodes come first: of two edits at one place, the outer one ends up in front.
    edits = [edit for node in reversed([*ast.walk(tree)]) for edit in _edits(node, name)]
    return Code(
        name=name,
        text=_applied(source, edits),
        functions={
            node.name: node
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        },
    )


def _edits(node: ast.AST, name: str) -> list[_Edit]:
    _check(node, name)
    match node:
        case ast.Delete(targets=targets):
            text = "; ".join(_deleted(one, name) for one in targets)
            return [_instead(node, text, name)]
        case ast.Attribute(attr=attr, value=ast.Name(id=owner), ctx=ast.Load()) if (
            attr in _ERROR_ATTRIBUTES
        ):
            return [_instead(node, f"_signoff_attribute({owner}, {attr!r})", name)]
        case ast.Call(
            func=ast.Name(id="StatusError")
            | ast.Attribute(value=ast.Name(id="ces_public"), attr="StatusError") as function
        ):
            return [_instead(function, "_signoff_status_error", name)]
        case ast.Import(names=names) | ast.ImportFrom(names=names) if _imports_given(node):
            return [_instead(node, "; ".join(_imported(one) for one in names), name)]
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=owner), attr=attr)]):
            return [*_assigned(node, owner, attr)]
    return [*_generated(node)]


def _imports_given(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "ces_public" and not node.level
    return any(one.name in _GIVEN for one in node.names)


def _imported(given: ast.alias) -> str:
    """Return the replacement for the import of a name that exists without an import."""
    if given.name.partition(".")[0] in MODULES:
        return f"import {ast.unparse(given)}"
    return f"{given.asname} = {given.name}" if given.asname else "pass"


def _assigned(node: ast.Assign, owner: str, attr: str) -> Iterator[_Edit]:
    if owner in _CONTEXTS and attr in _TWINS:
        yield from _around(node, f"{owner}.{_TWINS[attr]} = ", "")
    elif attr in {"data", "raw_data"}:
        yield from _around(node, "", f"; _signoff_sync({owner}, {attr!r})")


def _generated(node: ast.AST) -> Iterator[_Edit]:
    """Turn a generator expression, which is a list in the sandbox, into an iterator."""
    match node:
        case ast.GeneratorExp():
            yield from _around(node, "iter", "")
        case ast.Call(args=[ast.GeneratorExp() as inner], keywords=[]) if (
            inner.end_lineno,
            inner.end_col_offset,
        ) == (node.end_lineno, node.end_col_offset):
            # It has no parentheses of its own, but shares those of the call.
            yield from _around(inner, "(", ")")


def _around(node: ast.stmt | ast.expr, before: str, behind: str) -> Iterator[_Edit]:
    if before:
        yield _Edit(node.lineno, node.col_offset, node.col_offset, before)
    if behind and node.end_lineno is not None and node.end_col_offset is not None:
        yield _Edit(node.end_lineno, node.end_col_offset, node.end_col_offset, behind)


def _check(node: ast.AST, name: str) -> None:
    line = getattr(node, "lineno", 1)
    lacking = _LACKING.get(type(node))
    match node:
        case ast.ClassDef(bases=bases, keywords=keywords) if bases or keywords:
            lacking = "classes that inherit"
        case ast.FunctionDef(decorator_list=decorators) if any(
            isinstance(one, ast.Name) and one.id in {"property", "classmethod", "staticmethod"}
            for one in decorators
        ):
            lacking = "property, classmethod and staticmethod"
        case ast.Call(func=ast.Name(id=function), args=[ast.GeneratorExp() as generator, *_]) if (
            function in _SHORT and _calls_outside(generator)
        ):
            raise CodeRefused(
                f"{name}, line {line}: write this {function}() as a loop. The sandbox runs a "
                "generator to its end, and would make calls that Python does not make."
            )
        case ast.Import(names=names):
            for one in names:
                if one.name not in _GIVEN:
                    _check_import(one.name, line, name)
        case ast.ImportFrom(module=module, level=level) if module != "ces_public":
            _check_import("." * level + (module or ""), line, name)
        case ast.Name(id=used) if used.startswith(("_signoff", "signoff_host")):
            raise CodeRefused(f"{name}, line {line}: the name {used} is Signoff's own.")
    if lacking:
        raise CodeRefused(f"{name}, line {line}: the sandbox does not have {lacking}.")


def _calls_outside(generator: ast.GeneratorExp) -> bool:
    return any(isinstance(one, ast.Name) and one.id in _OUTSIDE for one in ast.walk(generator))


def _check_import(module: str, line: int, name: str) -> None:
    if module.partition(".")[0] not in MODULES:
        raise CodeRefused(
            f"{name}, line {line}: {module} cannot be imported in the sandbox. "
            f"There are: {', '.join(sorted(MODULES - {'__future__'}))}."
        )


def _deleted(target: ast.expr, name: str) -> str:
    match target:
        case ast.Subscript(value=value, slice=ast.Slice()):
            return f"{ast.unparse(value)}[{ast.unparse(target.slice)}] = []"
        case ast.Subscript(value=value):
            return f"{ast.unparse(value)}.pop({ast.unparse(target.slice)})"
    raise CodeRefused(
        f"{name}, line {target.lineno}: the sandbox can delete entries (del x[key]), and no names "
        "or attributes."
    )


def _instead(node: ast.stmt | ast.expr, text: str, name: str) -> _Edit:
    if node.end_lineno != node.lineno or node.end_col_offset is None:
        raise CodeRefused(
            f"{name}, line {node.lineno}: write {ast.unparse(node)} on one line; the sandbox "
            "needs it."
        )
    return _Edit(node.lineno, node.col_offset, node.end_col_offset, text)


def _applied(source: str, edits: list[_Edit]) -> str:
    lines = source.encode().splitlines(keepends=True)
    # Backwards, so that the places of the remaining edits do not change.
    for edit in sorted(edits, key=lambda one: (one.line, one.start), reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.start] + edit.text.encode() + line[edit.end :]
    return b"".join(lines).decode()


def called(code: Code) -> list[tuple[int, str]]:
    """Return the calls to the outside that code makes by name, each with its line.

    Calls under other names cannot be found before the code runs.
    """
    found = []
    for node in ast.walk(ast.parse(code.text)):
        match node:
            case ast.Attribute(value=ast.Name(id="tools" | "async_tools"), attr=name):
                found.append((node.lineno, name))
            case ast.Attribute(value=ast.Name(id="ces_requests"), attr=name):
                found.append((node.lineno, f"ces_requests.{name}"))
            case ast.Call(
                func=ast.Name(id="set_variable" | "remove_variable" as name)
                | ast.Attribute(attr="set_variable" | "remove_variable" as name)
            ):
                found.append((node.lineno, name))
    return sorted(set(found))
