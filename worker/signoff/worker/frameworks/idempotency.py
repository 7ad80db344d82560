"""The key with which a tool ensures that its effect happens once, even if it runs again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from signoff.core.approvals.parts import Origin
from signoff.worker.verification import key_of

_key: ContextVar[str] = ContextVar("signoff_idempotency_key")


def idempotency_key() -> str:
    """Return a key that is the same each time this call runs: 32 letters and digits.

    Send it with a payment, or store it in a unique column. If a call in doubt runs again, it then
    has its effect only once. Only a tool whose call was approved has a key.

    Raises:
        LookupError: No approved call is running here.
    """
    return _key.get()


@contextmanager
def running(origin: Origin) -> Iterator[None]:
    """Give the code of a tool its key inside the `with` block."""
    key = key_of(origin.app, origin.user, origin.session, origin.confirmation)
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)
