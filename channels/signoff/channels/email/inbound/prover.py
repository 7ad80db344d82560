"""The process in which a mail's author is authenticated.

`readers.py` starts it as ``python -m signoff.channels.email.inbound.prover SECONDS BYTES``. It asks
its parent process for DNS records. It is not the process that reads mails: a mail that exploits the
HTML parser there cannot forge a proof here.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from datetime import datetime
from typing import Any

from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.inbound.reader import Ask, serve


class _AskedTxt:
    """Gets TXT records from the parent process."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def records(self, name: str) -> tuple[bytes, ...] | None:
        """Return the records of a name; see `Txt.records`."""
        found = self._ask({"txt": name})
        return None if found is None else tuple(one.encode("latin-1") for one in found)


def prove(request: bytes, ask: Ask) -> dict[str, Any]:
    """Answer a request of `Provers.prove`."""
    head, _, raw = request.partition(b"\n")
    wanted = json.loads(head)
    authenticator = Authenticator(**wanted["trust"], txt=_AskedTxt(ask))
    now = datetime.fromisoformat(wanted["now"])
    proof = asyncio.run(authenticator.prove(raw, wanted["sender"], peer=wanted["peer"], now=now))
    return {"proof": dataclasses.asdict(proof)}


if __name__ == "__main__":
    serve(prove, int(sys.argv[1]), int(sys.argv[2]))
