"""What sandboxed code may do: the section ``[ces]`` of the settings."""

import re
import secrets
from collections.abc import Mapping
from typing import Final

from pydantic import Field, JsonValue, SecretStr, ValidationInfo, field_validator

from signoff.core.base.errors import ConditionError
from signoff.core.base.model import Value
from signoff.core.policies.conditions import check, value
from signoff.worker.ces.hosts import canonical, pattern

_QUOTED: Final = re.compile(r"""'[^']*'|"[^"]*\"""")
_COMPARED: Final = re.compile(
    r"""args\.host\s*(?:==|!=|in)\s*(?:'[^']*'|"[^"]*"|\[[^\]]*\])"""
    r"""|(?:'[^']*'|"[^"]*")\s*(?:==|!=)\s*args\.host"""
    r"""|args\.host\.(?:startsWith|endsWith|contains)\(\s*(?:'[^']*'|"[^"]*")"""
)
_SHORTEST_KEY = 32
_OWN_KEY = SecretStr(secrets.token_hex(32))


class Rules(Value):
    """[ces]: what CX Agent Studio code may do, and which of its calls need an approval."""

    hosts: tuple[str, ...] = Field(
        (),
        description="The hosts that `ces_requests` may reach: `api.example.com`, or "
        "`*.example.com` for all below it, but never private addresses. Case, a "
        "trailing dot and the form of international names do not matter.",
    )
    internal_hosts: tuple[str, ...] = Field(
        (),
        description="Hosts with private addresses that it may reach: HOST, or HOST:PORT for that "
        "port only.",
    )
    needs_approval: tuple[str, ...] = Field(
        (),
        description="CEL conditions, like the `when` of a policy. A call in the code needs an "
        "approval if one of them is true, or fails because an argument is missing. "
        "`tool` is the name of the called tool, `ces_requests.post`, `set_variable` or"
        " `remove_variable`.",
    )
    key: SecretStr = Field(
        SecretStr(""),
        description="Signs suspended code: at least 32 characters, the same for all workers. "
        "Without one only the process that suspended the code can resume it.",
    )
    seconds: float = Field(
        5.0,
        gt=0,
        le=600,
        description="The computing time of the code, in seconds, without waiting.",
    )
    memory: int = Field(
        64 << 20, ge=1 << 20, le=1 << 32, description="The memory of the code, in bytes."
    )
    depth: int = Field(200, ge=10, le=10_000, description="The depth of calls in the code.")
    calls: int = Field(1_000, ge=1, le=100_000, description="The outside calls of a run.")
    output: int = Field(
        256 << 10,
        ge=1,
        le=16 << 20,
        description="The printed output of a run, and its result, in bytes each.",
    )
    http_seconds: float = Field(
        20.0,
        gt=0,
        le=600,
        description="The duration of an HTTP request (each redirect is one), and of sleep, in "
        "seconds.",
    )
    http_bytes: int = Field(
        1 << 20,
        ge=1,
        le=64 << 20,
        description="The size of a request or response, in bytes.",
    )
    snapshot: int = Field(
        256 << 10, ge=1 << 10, le=8 << 20, description="The size of suspended code, in bytes."
    )

    @field_validator("key")
    @classmethod
    def _long_enough(cls, key: SecretStr) -> SecretStr:
        if 0 < len(key.get_secret_value()) < _SHORTEST_KEY:
            raise ValueError(f"a key has at least {_SHORTEST_KEY} characters")
        return key

    @field_validator("hosts", "internal_hosts")
    @classmethod
    def _in_one_form(cls, hosts: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(pattern(one, ports=info.field_name == "internal_hosts") for one in hosts)

    @field_validator("needs_approval")
    @classmethod
    def _conditions(cls, conditions: tuple[str, ...]) -> tuple[str, ...]:
        for one in conditions:
            check(one)
            _require_hosts_in_one_form(one)
        return conditions

    def secret(self) -> bytes:
        """Return the key that snapshots are signed with."""
        key = self.key.get_secret_value() or current().key.get_secret_value()
        return (key or _OWN_KEY.get_secret_value()).encode()

    def asks(self, facts: Mapping[str, JsonValue]) -> bool:
        """Return whether a call needs an approval; it does if a condition cannot be evaluated.

        A condition on an argument that the call omits cannot be evaluated, because the tool may
        have a default for it.
        """
        return any(_may_hold(one, facts) for one in self.needs_approval)

    def may_ask_about(self, *tools: str) -> bool:
        """Return whether any call of one of these tools, by any agent, may need an approval."""
        return any(
            self.asks({"app": "", "agent": "", "user": "", "tool": tool, "args": {}})
            for tool in tools
        )


def _may_hold(condition: str, facts: Mapping[str, JsonValue]) -> bool:
    try:
        return value(condition, facts) is not False
    except (KeyError, ConditionError):
        return True


def _require_hosts_in_one_form(condition: str) -> None:
    """Refuse a condition that is never true, because its host is not in canonical form.

    Raises:
        ValueError: `args.host` is compared to a value that it never has.
    """
    for compared in _COMPARED.findall(condition):
        for quoted in _QUOTED.findall(compared):
            text = quoted[1:-1]
            whole = "args.host." not in compared
            try:
                # A part of a host may begin or end with a dot.
                form = canonical(text) if whole else _part(text)
            except ValueError:
                form = text.lower()
            if form != text:
                raise ValueError(f"args.host is never like {text!r}; write {form!r}")


def _part(text: str) -> str:
    lead = "." if text.startswith(".") else ""
    return text.lower() if text.isascii() else lead + canonical(text.strip("."))


_current: list[Rules] = [Rules.model_construct()]
_brought: set[bytes] = set()


def bring(rules: Rules) -> None:
    """Accept snapshots that are signed with the key of these rules, which an agent brings."""
    if rules.key.get_secret_value():
        _brought.add(rules.secret())


def secrets_in_use() -> set[bytes]:
    """Return the keys with which snapshots of this process may be signed."""
    return {current().secret(), *_brought}


def use(rules: Rules) -> None:
    """Make these the rules of this process, for agents without rules of their own."""
    _current[0] = rules


def current() -> Rules:
    """Return the rules of this process."""
    return _current[0]
