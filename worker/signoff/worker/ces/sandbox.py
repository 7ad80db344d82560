"""The sandbox: runs code in a separate process, and stops it at each call to the outside."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, Final

import pydantic_monty
import structlog
from pydantic_core import to_jsonable_python
from pydantic_monty import (
    AsyncFunctionSnapshot,
    AsyncMonty,
    AsyncMontySession,
    AsyncNameLookupSnapshot,
    CollectString,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    ResourceLimits,
)

from signoff.worker.ces.delta import pack, unpack
from signoff.worker.ces.errors import CodeFailed, CodeRefused, SnapshotRefused
from signoff.worker.ces.lowering import Code
from signoff.worker.ces.rules import Rules

log = structlog.get_logger(__name__)

ENGINE: Final = f"pydantic-monty {pydantic_monty.__version__}"
"""The engine that can read a snapshot: exactly this version."""

_HOST = "signoff_host"
_VOCABULARY = files("signoff.worker.ces").joinpath("vocabulary.monty").read_text("utf-8")
_USERS_FEED = "<python-input-2>"
"""The vocabulary is fed first, then the context, then the code, then the call."""

_OWN: Final = 1024
"""How many bytes at the end of a base differ between processes: they contain clocks."""

_SLEEPS: Final = frozenset({"system.sleep", "system.async_sleep"})
_LACKS = "NotImplementedError: The monty syntax parser does not yet support "


@dataclass(frozen=True, slots=True)
class SuspendedCall:
    """A call that waits for an approval, and the code that is suspended at it.

    Attributes:
        tool: What would be called: a tool, "ces_requests.post", "set_variable".
        args: The arguments of the call.
        frames: The suspended runs, the outermost first; more than one if a tool of the folder was
            called by another.
        hint: The tool's hint for the approver.
        doubtful: Whether the call waits because it may have been made already.
    """

    tool: str
    args: dict[str, Any]
    frames: tuple[dict[str, Any], ...] = ()
    hint: str = ""
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a run.

    Attributes:
        result: What the function returned, as plain data; objects of the vocabulary are
            dictionaries with their class under "signoff".
        objects: The objects that it was given, in their final state.
    """

    result: Any
    objects: list[Any]


Answer = dict[str, Any]
Host = Callable[[str, dict[str, Any], dict[str, Any]], Awaitable["Answer | SuspendedCall"]]
"""Answers a call to the outside: its kind, its arguments, and the variables of the code."""


class Sandbox:
    """Runs code, each run in a fresh session of a pool of worker processes."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    async def run(
        self,
        code: Code,
        function: str,
        *,
        setup: dict[str, Any],
        args: dict[str, Any],
        host: Host,
        settle: Callable[[], Awaitable[dict[str, Any]]],
    ) -> Done | SuspendedCall:
        """Run a function of some code to its end, or to a call that waits for an approval.

        Args:
            code: The code.
            function: Its function.
            setup: The context, the names of the tools, and objects that the function is given
                first, all as plain data.
            args: Its named arguments.
            host: Answers its calls to the outside.
            settle: Finishes concurrent calls before the code is suspended, and returns the state
                that a later process needs.

        Raises:
            CodeRefused: The code uses a feature that the sandbox lacks.
            CodeFailed: It raised, broke a limit, or crashed.
        """
        waits = "await " if type(code.functions[function]).__name__ == "AsyncFunctionDef" else ""
        base = await _base(self.rules)
        async with self._session(code) as (session, printed):
            await session.load_session(base)
            await session.feed_run(
                "_signoff_objects = _signoff_begin(_signoff_setup)",
                inputs={"_signoff_setup": setup},
            )
            loaded = await session.feed_start(code.text, print_callback=printed)
            if isinstance(await self._drive(loaded, host), tuple):
                raise CodeFailed(f"{code.name}: a call outside of its functions cannot wait.")
            done = f"{waits}{function}(*_signoff_objects, **_signoff_args)"
            call = f"_signoff_end({done}, _signoff_objects)"
            snapshot = await session.feed_start(
                call, inputs={"_signoff_args": args}, print_callback=printed
            )
            return await self._to_end(code, snapshot, base[:-_OWN], host, settle)

    async def resume(
        self,
        code: Code,
        frame: dict[str, Any],
        answer: Answer,
        *,
        host: Host,
        settle: Callable[[], Awaitable[dict[str, Any]]],
    ) -> Done | SuspendedCall:
        """Resume suspended code with the answer to the call at which it is suspended.

        Raises:
            SnapshotRefused: This version of the sandbox cannot read it.
            CodeFailed: The code raised, broke a limit, or crashed.
        """
        require_readable(frame)
        packed = base64.b64decode(frame["state"])
        base = zlib.decompress(base64.b64decode(frame["base"])) if "base" in frame else b""
        # Older frames have no base.
        state = unpack(packed, base) if base else zlib.decompress(packed)
        async with self._session(code) as (session, printed):
            try:
                snapshot = await session.load_snapshot(state, print_callback=printed)
            except (MontyError, RuntimeError, ValueError) as error:
                if isinstance(error, MontyCrashedError):
                    raise
                raise SnapshotRefused(f"{code.name} cannot be resumed: {error}") from error
            if not isinstance(snapshot, AsyncFunctionSnapshot):
                raise SnapshotRefused(f"{code.name} is not suspended at a call.")
            goes_on = await snapshot.resume({"return_value": answer})
            return await self._to_end(code, goes_on, base, host, settle)

    async def _to_end(
        self,
        code: Code,
        snapshot: object,
        base: bytes,
        host: Host,
        settle: Callable[[], Awaitable[dict[str, Any]]],
    ) -> Done | SuspendedCall:
        ended = await self._drive(snapshot, host)
        if isinstance(ended, tuple):
            suspended, held = ended
            kept = await settle()
            frame = {
                "engine": ENGINE,
                "code": code.name,
                "state": base64.b64encode(pack(suspended.dump(), base)).decode(),
                "base": base64.b64encode(zlib.compress(base, 9)).decode(),
                "kept": kept,
            }
            return replace(held, frames=(frame, *held.frames))
        done, state, size = _storable(code, ended.output)
        if size > self.rules.output:
            raise CodeFailed(
                f"{code.name}: its result has more than {self.rules.output} bytes; return less."
            )
        await host("end", {}, state)
        return done

    async def _drive(
        self, snapshot: Any, host: Host
    ) -> MontyComplete | tuple[AsyncFunctionSnapshot, SuspendedCall]:
        left = self.rules.http_seconds
        while not isinstance(snapshot, MontyComplete):
            match snapshot:
                case AsyncFunctionSnapshot(function_name=name, args=(wait, *_)) if name in _SLEEPS:
                    left -= max(float(wait), 0)
                    if left < 0:
                        raise CodeFailed(
                            f"The code sleeps longer than {self.rules.http_seconds:g} seconds."
                        )
                    await asyncio.sleep(max(float(wait), 0))
                    snapshot = await snapshot.resume({"return_value": None})
                case AsyncFunctionSnapshot(is_os_function=True):
                    snapshot = await snapshot.resume_not_handled()
                case AsyncFunctionSnapshot(function_name=name, args=given) if name == _HOST:
                    try:
                        kind, args, state = _plain(given)
                        answer = await host(kind, args, state)
                    except (TypeError, ValueError) as error:
                        snapshot = await snapshot.resume({"exception": error})
                        continue
                    if isinstance(answer, SuspendedCall):
                        return snapshot, answer
                    snapshot = await snapshot.resume({"return_value": answer})
                case AsyncNameLookupSnapshot() | AsyncFunctionSnapshot():
                    snapshot = await snapshot.resume_auto()
                case _:
                    raise CodeFailed("The code awaits what nothing will ever answer.")
        return snapshot

    @asynccontextmanager
    async def _session(self, code: Code) -> AsyncIterator[tuple[AsyncMontySession, CollectString]]:
        printed = CollectString(max_bytes=self.rules.output)
        pool = await _pool()
        try:
            async with pool.checkout(limits=_limits(self.rules)) as session:
                yield session, printed
        except MontyCrashedError as error:
            raise CodeFailed(f"{code.name}: the sandbox crashed, and the call failed.") from error
        except MontyError as error:
            raise _translated(code, error) from error
        finally:
            if printed.output:
                log.info("ces.printed", code=code.name, text=printed.output)


def require_readable(frame: dict[str, Any]) -> None:
    """Refuse a suspended run that this version of the sandbox cannot read.

    Raises:
        SnapshotRefused: Another version has made it.
    """
    if frame["engine"] != ENGINE:
        raise SnapshotRefused(
            f"{frame['code']} was suspended by {frame['engine']}, and this worker has {ENGINE}. It "
            "cannot go on; start it again, or finish it with a worker of that version."
        )


_pools: dict[asyncio.AbstractEventLoop, AsyncMonty] = {}
_bases: dict[Rules, bytes] = {}


async def _pool() -> AsyncMonty:
    loop = asyncio.get_running_loop()
    for other in [one for one in _pools if one.is_closed()]:
        del _pools[other]
    if loop not in _pools:
        _pools[loop] = await AsyncMonty(
            max_processes=8, checkout_timeout=60, max_checkouts_per_worker=1_000
        ).__aenter__()
    return _pools[loop]


async def _base(rules: Rules) -> bytes:
    """Return a session into which the vocabulary is loaded; each run starts from it."""
    if rules not in _bases:
        async with (await _pool()).checkout(limits=_limits(rules)) as session:
            await session.feed_run(_VOCABULARY)
            _bases[rules] = await session.dump()
    return _bases[rules]


def _limits(rules: Rules) -> ResourceLimits:
    return ResourceLimits(
        max_feed_duration_secs=rules.seconds,
        max_memory=rules.memory,
        max_recursion_depth=rules.depth,
        max_suspensions=rules.calls,
    )


def _plain(given: tuple[Any, ...]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call to the outside as plain JSON data, or raise TypeError."""
    if len(given) != len(("kind", "args", "state")):
        raise TypeError("A call to the outside has three arguments.")
    try:
        kind, args, state = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(
            f"only plain data (dict, list, str, int, float, bool, None) can leave the code: {error}"
        ) from None
    if not (isinstance(kind, str) and isinstance(args, dict) and isinstance(state, dict)):
        raise TypeError("A call to the outside has a name and two dictionaries.")
    return kind, args, state


def _storable(code: Code, output: Any) -> tuple[Done, dict[str, Any], int]:
    """Return ended code's result and its variables in the form in which sessions store them.

    A session that cannot store them would fail the run, and not only this call.

    Returns:
        The end of the run, the variables, and the number of bytes of both.

    Raises:
        CodeFailed: A session cannot store them.
    """
    try:
        # ADK stores bytes in a result in base64, and bytes in a variable as UTF-8.
        result = to_jsonable_python(output["result"], bytes_mode="base64")
        state = to_jsonable_python(output["state"], bytes_mode="utf8")
        size = len(json.dumps([result, output["objects"], state], default=str))
        return Done(result, output["objects"]), dict(state), size
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CodeFailed(
            f"{code.name}: the result and the variables have to be plain data (dict, list, str, "
            f"int, float, bool, None): {error}"
        ) from error


def _translated(code: Code, error: MontyError) -> CodeRefused | CodeFailed:
    said = str(error).replace("binascii.Incomplete", "StatusError")
    lines = (
        [one.line for one in error.traceback() if one.filename == _USERS_FEED]
        if isinstance(error, MontyRuntimeError)
        else []
    )
    where = f"{code.name}, line {lines[-1]}" if lines else code.name
    if said.startswith(_LACKS):
        return CodeRefused(f"{where}: the sandbox does not have {said.removeprefix(_LACKS)}.")
    return CodeFailed(f"{where}: {said}")
