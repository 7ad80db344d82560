"""Messages of the Model Context Protocol: JSON-RPC, read strictly and passed on unchanged.

The server must read the message that the gate has judged. A message with a duplicate key is
refused, because two parsers may read it differently, and a message is passed on as one line. Some
parsers ignore the case of keys, as Go's and .NET's do, so keys that differ only in case are
duplicates, and a key of the protocol in another case is refused
(https://github.com/advisories/GHSA-wvj2-96wp-fq3f).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue

from signoff.channels.aap import wire
from signoff.channels.aap.faults import Fault

CALL: Final = "tools/call"
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602

_LONGEST_NAME: Final = 256
# Valid outside of strings, or escaped in them: the text means the same on one line.
_ONE_LINE: Final = {
    0x0A: " ",
    0x0D: " ",
    0x85: "\\u0085",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
_MEMBERS: Final = frozenset({"jsonrpc", "id", "method", "params", "result", "error"})
_PARAMS: Final = frozenset({"name", "arguments", "_meta", "inputResponses", "requestState", "task"})
_ANSWERS: Final = "inputResponses"
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"

Id = str | int


class BadMessage(Exception):
    """A message that is not passed on.

    Attributes:
        code: The code of the error in JSON-RPC.
        id: The id of the request, None if it has none.
    """

    def __init__(self, problem: str, *, code: int = INVALID_REQUEST, id_: Id | None = None) -> None:
        super().__init__(problem)
        self.code = code
        self.id = id_


@dataclass(frozen=True, slots=True)
class JsonRpcMessage:
    """A message.

    Attributes:
        text: The message, on one line.
        value: The parsed message; fractions are decimals.
    """

    text: str
    value: dict[str, Any]

    @property
    def method(self) -> str:
        """The method, "" for a response."""
        found = self.value.get("method", "")
        return found if isinstance(found, str) else ""

    @property
    def id(self) -> Id | None:
        """The id, None if it has none that can be answered."""
        return id_of(self.value.get("id"))

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return "method" not in self.value

    def answer(self) -> Answer:
        """Return the answer in a response."""
        parts = wire.members(self.text.encode())
        kind = "error" if "error" in parts else "result"
        return Answer(kind, parts.get(kind, "{}"))


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        kind: ``result`` or ``error``.
        text: The member of this name, as JSON.
        receipt: Passed to `Calls.delivered` once the client has the answer, "" for nothing.
    """

    kind: str
    text: str
    receipt: str = ""

    def line(self, id_: Id) -> str:
        """Return the response to a request, on one line."""
        text = self.text.translate(_ONE_LINE)
        return f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"{self.kind}":{text}}}'

    @property
    def value(self) -> dict[str, Any]:
        """The parsed answer; fractions are decimals. An unreadable one is empty."""
        try:
            found = wire.loads(self.text.encode())
        except Fault:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def failed(self) -> bool:
        """Whether the call failed."""
        return self.kind == "error" or self.value.get("isError") is True

    @property
    def words(self) -> str:
        """The texts in it, for people."""
        value = self.value
        if self.kind == "error":
            return str(value.get("message", ""))
        content = value.get("content")
        parts = content if isinstance(content, list) else []
        return "\n".join(
            str(one["text"]) for one in parts if isinstance(one, dict) and "text" in one
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A `tools/call`.

    Attributes:
        id: The id of the request.
        tool: The name of the tool.
        arguments: Its arguments, as people and policies see them. What the client answers to the
            questions of the server is one more, because the tool acts on it as well. The state of
            the server is not, because servers have to seal it.
        params: The members of its params, as JSON.
        meta: Its `_meta`.
    """

    id: Id
    tool: str
    arguments: dict[str, JsonValue]
    params: Mapping[str, str]
    meta: Mapping[str, Any]

    @property
    def token(self) -> Id | None:
        """The progress token of the client, None if it wants no progress."""
        return id_of(self.meta.get("progressToken"))

    @property
    def answers_input(self) -> bool:
        """Whether the client itself answers questions of the server: it says so, or does."""
        declared = self.meta.get(_CAPABILITIES)
        able = isinstance(declared, dict) and "elicitation" in declared
        return able or _ANSWERS in self.params or "requestState" in self.params

    def failure(self, text: str) -> Answer:
        """Return an answer that the model reads: the call has not been made, or has failed."""
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
        if _VERSION in self.meta:
            result["resultType"] = "complete"
        return Answer("result", json.dumps(result))

    def request(self, id_: Id, more: Mapping[str, str]) -> str:
        """Return the request for the server, on one line, with more members (JSON) of params."""
        members = dict(self.params)
        declared = self.meta.get(_CAPABILITIES)
        if isinstance(declared, dict) and not self.answers_input:
            meta = wire.members(members["_meta"].encode())
            able = wire.members(meta[_CAPABILITIES].encode()) | {"elicitation": '{"form":{}}'}
            members["_meta"] = _object(meta | {_CAPABILITIES: _object(able)})
        params = _object(members | dict(more)).translate(_ONE_LINE)
        head = f'"jsonrpc":"2.0","id":{json.dumps(id_)},"method":"{CALL}"'
        return f'{{{head},"params":{params}}}'


def read(data: bytes) -> JsonRpcMessage:
    """Return a message.

    Raises:
        BadMessage: It is not a message, or several.
    """
    try:
        value = wire.loads(data)
    except Fault as fault:
        raise BadMessage(fault.message) from fault
    if not isinstance(value, dict):
        # Batches are gone since 2025-06-18, and would hide calls.
        raise BadMessage("Send one message at a time.")
    return JsonRpcMessage(data.decode().translate(_ONE_LINE).strip(), value)


def id_in(data: bytes) -> Id | None:
    """Return the id in a message that `read` refuses, None if there is none."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return id_of(value.get("id")) if isinstance(value, dict) else None


def id_of(value: object) -> Id | None:
    """Return a value if it is an id, None otherwise."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None


def call_of(message: JsonRpcMessage) -> Call | None:
    """Return the call in a message of a client, None if it has another method.

    Raises:
        BadMessage: The call does not have the form of the protocol, or a server may read another
            one in the message.
    """
    _require_exact(message.value, _MEMBERS, message.id)
    if message.value.get("method") != CALL:
        return None
    id_ = message.id
    if id_ is None:
        raise BadMessage("A tools/call needs an id.")
    params = message.value.get("params")
    if not isinstance(params, dict):
        raise BadMessage("A tools/call needs params.", code=INVALID_PARAMS, id_=id_)
    _require_exact(params, _PARAMS, id_)
    tool, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
    if not isinstance(tool, str) or not 0 < len(tool) <= _LONGEST_NAME or not tool.isprintable():
        raise BadMessage("A tools/call needs the name of a tool.", code=INVALID_PARAMS, id_=id_)
    if not isinstance(arguments, dict | None):
        raise BadMessage("The arguments have to be an object.", code=INVALID_PARAMS, id_=id_)
    answers = {_ANSWERS: params[_ANSWERS]} if _ANSWERS in params else {}
    given = {**(arguments or {}), **answers}
    both = _ANSWERS if answers and _ANSWERS in (arguments or {}) else None
    if (twice := both or _twice(given)) is not None:
        problem = f"The call has {twice!r} twice, in different cases or places."
        raise BadMessage(problem, code=INVALID_PARAMS, id_=id_)
    raw = wire.members(wire.members(message.text.encode())["params"].encode())
    shown = {name: wire.shown(one) for name, one in given.items()}
    return Call(id_, tool, shown, raw, meta if isinstance(meta, dict) else {})


def _require_exact(value: Mapping[str, Any], known: frozenset[str], id_: Id | None) -> None:
    """Refuse keys of the protocol in another case.

    Raises:
        BadMessage: There is one.
    """
    folded = {one.casefold(): one for one in known}
    for name in value:
        exact = folded.get(name.casefold(), name)
        if name != exact:
            raise BadMessage(f"{name!r} is not {exact!r}: case matters.", id_=id_)


def _twice(value: object) -> str | None:
    """Return a key that an object in a value has twice, in different cases; None without one."""
    if isinstance(value, list):
        return next(filter(None, map(_twice, value)), None)
    if not isinstance(value, dict):
        return None
    seen = set[str]()
    for name in map(str, value):
        if name.casefold() in seen:
            return name
        seen.add(name.casefold())
    return _twice([*value.values()])


def error_line(problem: BadMessage) -> str:
    """Return the response to a message that is not passed on."""
    return json.dumps(
        {
            "jsonrpc": "2.0",
            "id": problem.id,
            "error": {"code": problem.code, "message": str(problem)},
        }
    )


def progress_line(token: Id, count: int, text: str) -> str:
    """Return the notification that a call still waits.

    Args:
        token: The token of the client.
        count: How many have been sent.
        text: What the call waits for.
    """
    # Progress has to grow, and the server's own begins when the call does.
    params = {"progressToken": token, "progress": count / 1_000_000, "message": text}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def _object(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"
