"""One asyncio event loop per process, for the threads of a Celery worker."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """An event loop in its own thread, which runs all coroutines of the process.

    A worker thread that waits for its coroutine needs a stack and no CPU, so one process can have
    hundreds of runs that wait for a model.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._stopped = False
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._main, name="signoff-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result.

        If the waiting is interrupted (Ctrl-C, a time limit), the coroutine is cancelled.
        """
        future = self.spawn(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine and return at once.

        Raises:
            RuntimeError: The loop is stopping or has been stopped.
        """
        with self._starting:
            if not self._stopped:
                return asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        coroutine.close()
        raise RuntimeError("The loop has been stopped.")

    def stop(self, *, patience: float = 10) -> None:
        """Cancel all tasks, wait for them so many seconds, and end the thread."""
        # A coroutine that starts later would never be cancelled, and its caller would wait forever.
        with self._starting:
            self._stopped = True
        if self._thread.is_alive():
            wind_up = asyncio.run_coroutine_threadsafe(self._wind_up(patience), self.loop)
            with contextlib.suppress(TimeoutError):
                wind_up.result(timeout=2 * patience)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(timeout=patience)
        if not self.loop.is_running():
            self.loop.close()

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @staticmethod
    async def _wind_up(patience: float) -> None:
        me = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not me]
        for task in tasks:
            task.cancel()
        if tasks:
            # A task that ignores its cancellation must not keep the process from ending.
            await asyncio.wait(tasks, timeout=patience)
        loop = asyncio.get_running_loop()
        await loop.shutdown_asyncgens()
        await loop.shutdown_default_executor()
