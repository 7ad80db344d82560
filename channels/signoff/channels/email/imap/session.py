"""A mailbox connection for asyncio, in a separate thread, that can be cut off at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, Self, TypeVar

from signoff.channels.email.imap.connection import Connection
from signoff.channels.email.imap.settings import ImapSettings
from signoff.core.base.errors import MailboxUnavailable

P = ParamSpec("P")
T = TypeVar("T")

_STEPS: Final = 6
"""A call that takes longer than this many steps of the conversation is stuck."""


class ImapSession:
    """An authenticated connection; leaving its context closes it.

    `call` takes methods of ``mailbox``, the connection.
    """

    def __init__(self, settings: ImapSettings, mailbox: Connection) -> None:
        self._patience = _STEPS * settings.timeout
        self._where = settings.where
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="imap")
        self._is_cut = False
        self.mailbox = mailbox

    @classmethod
    async def open(cls, settings: ImapSettings, *, largest: int, token: str = "") -> Self:
        """Connect and log in.

        Raises:
            MailboxUnavailable, MailboxRefused: See `Connection`.
            ConfigError: The file of certificates cannot be read.
        """
        session = cls(settings, Connection(settings, largest=largest))
        try:
            await session.call(session.mailbox.open, token)
        except BaseException:
            session.cut()
            raise
        return session

    async def call(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Run a blocking function in the thread.

        If it is cancelled or takes too long, the connection is closed immediately.

        Raises:
            MailboxUnavailable, MailboxRefused: See `Connection`.
        """
        return await self.call_for(0, work, *args, **more)

    async def call_for(
        self, seconds: float, work: Callable[P, T], *args: P.args, **more: P.kwargs
    ) -> T:
        """Run a blocking function as `call` does, but allow it this many more seconds.

        Raises:
            MailboxUnavailable: The server does not answer in time.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds + self._patience):
                return await loop.run_in_executor(self._thread, lambda: work(*args, **more))
        except TimeoutError as error:
            self.cut()
            words = f"The IMAP server {self._where} does not answer in time."
            raise MailboxUnavailable(words) from error
        except asyncio.CancelledError:
            self.cut()
            raise

    def cut(self) -> None:
        """Close the connection, interrupt a waiting call, and end the thread."""
        if not self._is_cut:
            self._is_cut = True
            self.mailbox.abort()
            self._thread.submit(self.mailbox.dispose)
            self._thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not self._is_cut:
            await self.call(self.mailbox.close)
        self.cut()
