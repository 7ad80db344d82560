"""What people are told with several requests at once."""

from __future__ import annotations

from signoff.broker.work import BundleKind
from signoff.channels.words.phrases import Words
from signoff.core.cards.card import Card

_OPEN = (
    "Open a request to read it in full and to decide it. An answer to this message decides nothing."
)


def bundle(kind: BundleKind, *, waiting: int, listed: int) -> Words:
    """Return what stands above a list of requests.

    Args:
        kind: What the message stands for.
        waiting: How many of them wait for the reader.
        listed: How many there are in the list.
    """
    many = f"{waiting} requests wait" if waiting != 1 else "1 request waits"
    if kind is BundleKind.ANSWER:
        if not waiting:
            return Words(
                "Nothing was decided: your message answers a list of requests",
                "None of them waits for you any more.",
            )
        return Words(
            "Which request do you mean? Nothing was decided",
            f"Your message answers a list of requests, and does not say which one. {many} for you. "
            "Open the one that you mean, and decide it on its page.",
        )
    if kind is BundleKind.REMINDERS:
        return Words(f"A reminder: {many} for your decision", _OPEN)
    if waiting < listed:
        return Words(f"{waiting} of {listed} requests wait for your decision", _OPEN)
    return Words(f"{many} for your decision", _OPEN)


def blank(bundle: str) -> Card:
    """Return the card of a message that is about several approvals, and so about none.

    Args:
        bundle: The id of the bundle, which stands for that of an approval.
    """
    return Card(
        approval=bundle,
        title="",
        app="",
        agent="",
        tool="",
        rows=(),
        hint="",
        requester="",
        policy="",
        deadline=None,
        digest="",
    )
