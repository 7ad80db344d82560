"""The key by which a tool can make its own effect happen once, also when it is run again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from signoff.core.approvals.parts import Origin
from signoff.worker.verification import key_of

_key: ContextVar[str] = ContextVar("signoff_idempotency_key")


def idempotency_key() -> str:
    """Return a key that is the same each time this very call is run: 32 letters and digits.

    Send it with a payment, or make it a unique column: a call that was in doubt and is run again
    then has its effect once. Only a tool whose call was approved has one.

    Raises:
        LookupError: No approved call runs here.
    """
    return _key.get()


@contextmanager
def running(origin: Origin) -> Iterator[None]:
    """Give the code of a tool its key while this lasts.

    Args:
        origin: Where its call comes from.
    """
    key = key_of(origin.app, origin.user, origin.session, origin.confirmation)
    token = _key.set(key)
    try:
        yield
    finally:
        _key.reset(token)
