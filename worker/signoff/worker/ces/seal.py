"""Snapshots of suspended code, sealed: bounded, bound to their call, and signed."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from google.adk.agents.context import Context
from pydantic import SecretStr

from signoff.broker.server.private import private_folder, private_text_once
from signoff.core.base.errors import ConfigError
from signoff.worker.ces.errors import SnapshotRefused
from signoff.worker.ces.rules import Rules, secrets_in_use
from signoff.worker.suspended import Suspended

_FORM: Final = 2
_FORMS: Final = frozenset({1, _FORM})


class Stopped(Protocol):
    """Code or an agent that has stopped at an inner call of a tool; see `SuspendedCall`."""

    @property
    def tool(self) -> str:
        """The call that would be made."""

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of the call."""

    @property
    def frames(self) -> Sequence[dict[str, Any]]:
        """The data that is needed to resume."""

    @property
    def doubtful(self) -> bool:
        """Whether the call may have been made already."""


def seal(rules: Rules, held: Stopped, context: Context) -> str:
    """Return suspended code as a text that only holders of the key can create.

    The first line is specific to this code. The other lines are the base snapshots for the delta
    compression: they are the same for all code that workers of one version suspend, so they need to
    be stored only once.

    Args:
        rules: The key and the maximum size.
        held: The code, and the call at which it is suspended.
        context: The tool call that contains it.

    Raises:
        SnapshotRefused: The snapshot is larger than the rules allow.
    """
    bases: dict[str, str] = {}

    def taken_out(base: str) -> str:
        name = _name(base)
        bases[name] = base
        return name

    frames = _with_bases(list(held.frames), taken_out)
    body = json.dumps(
        {
            "form": _FORM,
            # Equal snapshots must differ, because each is deleted separately.
            "nonce": secrets.token_hex(8),
            "where": _where(context),
            "call": [held.tool, held.args],
            "doubtful": held.doubtful,
            "frames": frames,
        },
        sort_keys=True,
    )
    if len(body) > rules.snapshot:
        raise SnapshotRefused(
            f"The code is suspended at {held.tool} with {len(body)} bytes, and {rules.snapshot} "
            "are allowed ([ces] snapshot). Keep less in its variables."
        )
    return "\n".join([_mac(rules.secret(), body) + body, *bases.values()])


def unseal(
    rules: Rules, sealed: str, context: Context, call: tuple[str, dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """Return the frames of suspended code.

    Raises:
        SnapshotRefused: The snapshot was changed, belongs to another call, or is missing.
    """
    own, *bases = sealed.split("\n")
    if not own[64:]:
        raise SnapshotRefused("The snapshot of this code is gone; it has to be started again.")
    if not _is_signed(own, rules.secret()):
        raise SnapshotRefused(
            "The snapshot of this code was changed, or signed with another key ([ces] key). "
            "It was not resumed."
        )
    said = json.loads(own[64:])
    if said["form"] not in _FORMS:
        raise SnapshotRefused(
            f"The snapshot of this code has form {said['form']}, and this worker reads {_FORM}."
        )
    if said["where"] != _where(context) or (call is not None and said["call"] != list(call)):
        raise SnapshotRefused("The snapshot of this code belongs to another call.")
    named = {_name(one): one for one in bases}
    try:
        frames: list[dict[str, Any]] = _with_bases(said["frames"], named.__getitem__)
    except KeyError:
        raise SnapshotRefused(
            "The snapshot of this code is not whole; it has to be started again."
        ) from None
    return frames


def suspended_at(sealed: str, where: Sequence[str]) -> Suspended | None:
    """Return the call at which code is suspended; None without a valid seal.

    Args:
        sealed: The text that `seal` returned, or any other text.
        where: The app, user, session and function call that it must belong to.
    """
    own = sealed.partition("\n")[0]
    if not any(_is_signed(own, secret) for secret in secrets_in_use()):
        return None
    said = json.loads(own[64:])
    if said["form"] not in _FORMS or said["where"] != list(where):
        return None
    tool, args = said["call"]
    return Suspended(tool, args, sealed, doubtful=said.get("doubtful") is True)


def own_key(rules: Rules, folder: Path) -> Rules:
    """Return rules with a key: their own, or the key of this machine, created if it is missing.

    Args:
        rules: The rules of the settings.
        folder: The folder of Signoff's state on this machine.

    Raises:
        ConfigError: The key of this machine cannot be stored there.
    """
    if rules.key.get_secret_value():
        return rules
    file = private_folder(folder) / "ces.key"
    try:
        if not file.exists():
            private_text_once(file, secrets.token_hex(32))
    except OSError as error:
        raise ConfigError(
            f"the key for suspended code cannot be written to {file}: {error.strerror}. Let this "
            "user write to that folder, or set SIGNOFF_CES__KEY.",
            key="ces.key",
        ) from error
    return rules.model_copy(update={"key": SecretStr(file.read_text("ascii"))})


def _with_bases(value: Any, change: Callable[[str], str]) -> Any:
    """Return frames with their base snapshots replaced."""
    if isinstance(value, list | tuple):
        return [_with_bases(one, change) for one in value]
    if not isinstance(value, dict):
        return value
    made = {key: _with_bases(one, change) for key, one in value.items()}
    # This is a frame; concurrent calls that have stopped too contain frames of their own.
    if "engine" in made and isinstance(made.get("base"), str):
        made["base"] = change(made["base"])
    return made


def _name(base: str) -> str:
    return hashlib.sha256(base.encode("utf-8", "surrogatepass")).hexdigest()


def _where(context: Context) -> list[str]:
    session = context.session
    return [session.app_name, session.user_id, session.id, context.function_call_id or ""]


def _mac(secret: bytes, body: str) -> str:
    return hmac.new(secret, _bytes(body), "sha256").hexdigest()


def _is_signed(own: str, secret: bytes) -> bool:
    return hmac.compare_digest(_bytes(own[:64]), _bytes(_mac(secret, own[64:])))


def _bytes(text: str) -> bytes:
    # The ledger may contain any text: lone surrogates must not raise, but fail the signature.
    return text.encode("utf-8", "surrogatepass")
