"""The record of a call, which is kept beside its approvals until the client has the answer."""

import hashlib
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from pydantic import Field, TypeAdapter

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible
from signoff.channels.mcp.messages import Answer, Call
from signoff.core.approvals.moves import Actor
from signoff.core.base.model import Value, stored_json
from signoff.core.payloads.digest import digest

CHANNEL: Final = "mcp"
"""The channel of the moves of the gate, in the audit."""

KEPT: Final = timedelta(days=31)
"""How long a call is kept if the client does not come back: longer than it can be pending."""

_KEY: Final = "mcp:"


@dataclass(frozen=True, slots=True)
class Caller:
    """A client, and the server that it calls.

    Attributes:
        app: The name of the client in policies and grants.
        user: The requester, who never decides.
        session: Equal calls in one session are one call.
        server: The name of the server in policies.
        token: The id of the API token that authenticates it, "" if there is none.
    """

    app: str
    user: str
    session: str
    server: str
    token: str = ""

    @property
    def actor(self) -> Actor:
        """The client as an actor in the audit."""
        return Actor(None, CHANNEL, {"token": self.token} if self.token else {}, known_as=self.app)

    def tool(self, call: Call) -> str:
        """Return how policies name the tool of a call."""
        return f"{self.server}.{call.tool}"

    def key(self, call: Call) -> str:
        """Return the key of a call, which is the same for equal calls.

        Raises:
            NotCanonical: The arguments have no digest.
        """
        own = [self.app, self.user, self.session, digest(self.tool(call), call.arguments)]
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()


class Record(Value):
    """A call whose answer the client does not have yet.

    Attributes:
        approval: The id of the approval that lets it run.
        inputs: The ids of the approvals that ask the questions of the server, by the names of the
            questions.
        state: The state that the server wants back (JSON), "" for none.
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

    def replaced(self, approval: str, question: str) -> Self:
        """Return the record with another approval in place of one of its own."""
        inputs = {name: question if one == approval else one for name, one in self.inputs.items()}
        first = question if self.approval == approval else self.approval
        return self.model_copy(update={"approval": first, "inputs": inputs})

    def answered(self, key: str) -> Answer:
        """Return the answer of a call that has run."""
        return Answer(self.kind, self.answer, receipt_of(key, self))


_RECORD: Final = TypeAdapter[Record | None](Record)


def receipt_of(key: str, record: Record) -> str:
    """Return what releases this version of a record; see `Calls.delivered`."""
    return f"{record.version}:{key}"


async def load(ledger: Ledger, key: str) -> Record | None:
    """Return the record of a call, None if there is none.

    Raises:
        RecordUnreadable: This version cannot read it.
    """
    stored = await ledger.raw(_KEY + key)
    found = legible(_RECORD, _KEY + key, stored, None)
    if stored is None or found is None:
        return None
    return found.model_copy(update={"version": stored[0]})


def put(change: Change, key: str, record: Record, *, was: Record | None) -> Change:
    """Add the write of a record to a change."""
    text = stored_json(record, exclude="version")
    return change.put_raw(_KEY + key, text, was=0 if was is None else was.version, ttl=KEPT)


def release(receipt: str) -> Change:
    """Return the change that forgets a call whose answer the client has."""
    version, _, key = receipt.partition(":")
    return Change().put_raw(_KEY + key, "", was=int(version))
