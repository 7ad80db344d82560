"""What the gate knows of a call beside its approvals, until the client has its answer."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from pydantic import Field, TypeAdapter, ValidationError

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.mcp.messages import Answer, Call
from signoff.core.approvals.moves import Actor
from signoff.core.base.errors import RecordUnreadable
from signoff.core.base.model import Value, read_stored, stored_json
from signoff.core.payloads.digest import digest

CHANNEL: Final = "mcp"
"""How the moves of the gate come, in the audit."""

KEPT: Final = timedelta(days=31)
"""How long a call is known that nobody asks about again: longer than it can be decided."""

_KEY: Final = "mcp:"


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, and the server that it calls.

    Attributes:
        app: What policies and grants name it by.
        user: The requester, who never decides.
        session: The same call of one session is one call.
        server: What policies name the server by.
        token: The id of the API token that proves who it is, "" where none does.
    """

    app: str
    user: str
    session: str
    server: str
    token: str = ""

    @property
    def actor(self) -> Actor:
        """Who it is in the audit."""
        return Actor(None, CHANNEL, {"token": self.token} if self.token else {}, known_as=self.app)

    def tool(self, call: Call) -> str:
        """Return how policies name the tool of a call."""
        return f"{self.server}.{call.tool}"

    def key(self, call: Call) -> str:
        """Return what is the same for the same call.

        Raises:
            NotCanonical: The arguments have no digest.
        """
        own = [self.app, self.user, self.session, digest(self.tool(call), call.arguments)]
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()


class Record(Value):
    """A call whose answer the client does not have yet.

    Attributes:
        approval: The id of the approval that lets it run.
        inputs: The ids of the approvals that ask for what the server wants to know, by the names
            that it gives them.
        state: What the server wants to be given back (JSON), "" for nothing.
        kind: See `Answer`.
        answer: The answer (JSON), "" until the call has run.
        version: Counts the commits.
    """

    approval: str
    inputs: dict[str, str] = Field(default_factory=dict)
    state: str = ""
    kind: str = "result"
    answer: str = ""
    version: int = 0

    @property
    def all(self) -> list[str]:
        """The ids of its approvals, the one that lets it run first."""
        return [self.approval, *self.inputs.values()]

    def answered(self, key: str) -> Answer:
        """Return the answer of a call that has run."""
        return Answer(self.kind, self.answer, receipt_of(key, self))


_RECORD: Final = TypeAdapter(Record)


def receipt_of(key: str, record: Record) -> str:
    """Return what releases a record as it stands; see `delivered`."""
    return f"{record.version}:{key}"


async def load(ledger: Ledger, key: str) -> Record | None:
    """Return the record of a call, None where none is under way.

    Raises:
        RecordUnreadable: It does not hold what this version can read.
    """
    found = await ledger.raw(_KEY + key)
    if found is None:
        return None
    version, text = found
    try:
        return read_stored(_RECORD, text).model_copy(update={"version": version})
    except ValidationError as error:
        raise RecordUnreadable(_KEY + key, str(error)) from error


def put(change: Change, key: str, record: Record, *, was: Record | None) -> Change:
    """Add to a change that a record is written."""
    text = stored_json(record, exclude="version")
    return change.put_raw(_KEY + key, text, was=0 if was is None else was.version, ttl=KEPT)


def release(receipt: str) -> Change:
    """Return the change that forgets a call whose answer the client has."""
    version, _, key = receipt.partition(":")
    return Change().put_raw(_KEY + key, "", was=int(version))
