"""The event loop of a worker process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from signoff.broker.doorbells.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    """A loop that is stopped at the end."""
    loop = LoopThread()
    yield loop
    loop.stop()


async def thread_name() -> str:
    """Return the name of the current thread."""
    return threading.current_thread().name


def test_calls_from_many_threads_run_on_one_loop(loop: LoopThread) -> None:
    """Calls of many threads run on one loop, and each caller gets its result."""
    names = []
    threads = [
        threading.Thread(target=lambda: names.append(loop.run(thread_name()))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == ["signoff-loop"] * 5


def test_a_coroutine_error_is_raised_in_the_calling_thread(loop: LoopThread) -> None:
    """An error of a coroutine is raised in the calling thread."""

    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        loop.run(fail())


def test_stopping_cancels_coroutines_and_releases_callers() -> None:
    """Coroutines are cancelled and may clean up, and waiting callers are released."""
    loop = LoopThread()
    begun, cleaned = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    future = loop.spawn(work())
    begun.wait()
    loop.stop()
    assert cleaned.is_set()
    with pytest.raises(CancelledError):
        future.result()
    assert loop.loop.is_closed()
    loop.stop()


def test_stop_does_not_wait_forever() -> None:
    """A coroutine that ignores its cancellation does not keep the process alive."""
    loop = LoopThread()
    begun = threading.Event()
    ended = threading.Event()

    async def stubborn() -> None:
        begun.set()
        while not ended.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    future = loop.spawn(stubborn())
    begun.wait()
    loop.stop(patience=0.05)
    assert not future.done()
    ended.set()


def test_a_call_after_the_stop_raises_an_error() -> None:
    """A late caller gets an error, and no coroutine is left waiting."""
    loop = LoopThread()
    loop.stop()
    with pytest.raises(RuntimeError, match="has been stopped"):
        loop.run(thread_name())


def test_an_interrupted_wait_ends_the_coroutine(
    loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while a thread waits cancels the coroutine too."""
    ended = threading.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    spawn = loop.spawn

    def interrupted(coroutine: Coroutine[Any, Any, None]) -> Future[None]:
        future = spawn(coroutine)
        spawn(asyncio.sleep(0)).result()

        def result(timeout: float | None = None) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(future, "result", result)
        return future

    monkeypatch.setattr(loop, "spawn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.run(work())
    assert ended.wait(timeout=60)


def test_what_begins_during_the_stop_is_not_left_waiting() -> None:
    """A thread that calls while the loop stops gets an error instead of waiting forever."""
    loop = LoopThread()
    begun, errors = threading.Event(), list[BaseException]()

    def call() -> None:
        try:
            loop.run(asyncio.Event().wait())
        except BaseException as error:  # noqa: BLE001 -- a cancellation is not an Exception
            errors.append(error)

    late = threading.Thread(target=call, daemon=True)

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            late.start()
            await asyncio.to_thread(late.join, 5)

    loop.spawn(work())
    begun.wait()
    loop.stop()
    late.join(timeout=5)
    assert len(errors) == 1
