"""A client of LMTP (RFC 2033): the SMTP variant that mail servers use for delivery."""

from __future__ import annotations

from typing import Any

import aiosmtplib


class Lmtp(aiosmtplib.SMTP):
    """The client of aiosmtplib, with LHLO instead of EHLO.

    With one recipient the rest is the same; with several, there would be a reply for each.
    """

    async def execute_command(self, *args: bytes, **options: Any) -> aiosmtplib.SMTPResponse:
        """Send a command and return the answer."""
        if args[0] == b"EHLO":
            args = (b"LHLO", *args[1:])
        return await super().execute_command(*args, **options)


async def deliver(
    port: int, recipient: str, raw: bytes, *, sender: str = "mara@example.com", times: int = 1
) -> None:
    """Deliver a mail to one recipient, as a mail server on this machine would."""
    async with Lmtp(hostname="127.0.0.1", port=port, start_tls=False) as client:
        for _ in range(times):
            await client.sendmail(sender, [recipient], raw)
