"""Signatures of webhooks: what is signed, by which key, and when."""

from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.channels.web import signatures
from signoff.channels.web.signatures import WINDOW, Signed, is_signed, is_timely, key_of, sign

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
KEYS = st.lists(st.binary(min_size=1, max_size=32), min_size=1, max_size=3)


def received(headers: dict[str, str], body: bytes) -> Signed | None:
    """Return the signed message as a server receives it."""
    return signatures.standard({name.lower(): one for name, one in headers.items()}, body)


@given(KEYS, st.binary(max_size=60), st.binary(min_size=1, max_size=32))
def test_exactly_what_one_of_the_keys_signed_counts(
    keys: list[bytes], body: bytes, other: bytes
) -> None:
    """Each key alone verifies it; another key, body, id or time does not."""
    headers = sign(keys, "msg_1", NOW, body)
    signed = received(headers, body)
    assert signed is not None
    assert all(is_signed(signed, [key]) for key in keys)
    assert is_signed(signed, [b"unknown", keys[-1]])
    same_hmac = {key.ljust(64, b"\0") for key in keys}
    assert is_signed(signed, [other]) is (other.ljust(64, b"\0") in same_hmac)
    assert not is_signed(signed, [])
    for changed in (
        received(headers, body + b"x"),
        received({**headers, "Webhook-Id": "msg_2"}, body),
        received({**headers, "Webhook-Timestamp": str(SECONDS + 1)}, body),
    ):
        assert changed is not None
        assert not is_signed(changed, keys)


@pytest.mark.parametrize(
    "change",
    [
        {"Webhook-Id": ""},
        {"Webhook-Id": "x" * 257},
        {"Webhook-Signature": ""},
        {"Webhook-Signature": "v1a,AAAA"},
        {"Webhook-Signature": "v2,AAAA v0,AAAA"},
        {"Webhook-Signature": "AAAA"},
    ],
)
def test_a_request_without_a_usable_signature_is_not_signed(change: dict[str, str]) -> None:
    """An id is at most 256 characters long; only version 1 of a signature is known."""
    good = sign([b"k"], "x" * 256, NOW, b"{}")
    assert received(good, b"{}") is not None
    assert received({**good, **change}, b"{}") is None


def test_a_signature_that_cannot_be_read_matches_nothing() -> None:
    """One of another version is passed over; only the first ten are looked at."""
    good = sign([b"k"], "msg_1", NOW, b"{}")
    (mine,) = good["Webhook-Signature"].split()
    for sent, counts in (
        (f"v1,!! {mine}", True),
        (mine.replace("v1", "v2"), False),
        ("v1,!!", False),
        ("v1,", False),
        (" ".join(["v1,AAAA"] * 9 + [mine]), True),
        (" ".join(["v1,AAAA"] * 10 + [mine]), False),
    ):
        signed = received({**good, "Webhook-Signature": sent}, b"{}")
        assert (signed is not None and is_signed(signed, [b"k"])) is counts, sent


def test_a_mailgun_form_is_signed_over_its_token_and_time() -> None:
    """Nothing else of it is, so the token must not be empty, or it could be any text."""
    at = str(SECONDS)
    code = hmac.digest(b"k", f"{at}t0k".encode(), hashlib.sha256).hex()
    good = {"token": "t0k", "timestamp": at, "signature": code}
    signed = signatures.mailgun(good)
    assert signed is not None
    assert is_signed(signed, [b"k"])
    assert (signed.id, signed.timestamp) == ("t0k", at)
    moved = signatures.mailgun({**good, "timestamp": str(SECONDS + 1)})
    assert moved is not None
    assert not is_signed(moved, [b"k"])
    for change in (
        {"token": ""},
        {"token": "x" * 257},
        {"signature": ""},
        {"signature": "no hex"},
    ):
        assert signatures.mailgun({**good, **change}) is None
    assert signatures.mailgun({**good, "token": "x" * 256}) is not None


@pytest.mark.parametrize(
    ("at", "timely"),
    [
        (str(SECONDS), True),
        (str(SECONDS - 300), True),
        (str(SECONDS + 300), True),
        (str(SECONDS - 301), False),
        (str(SECONDS + 301), False),
        ("", False),
        ("-1", False),
        ("1e9", False),
        (f"{SECONDS}.0", False),
        (f" {SECONDS}", False),
        (f"00{SECONDS}", False),
        ("".join(chr(0x660 + int(digit)) for digit in str(SECONDS)), False),
        ("9" * 5_000, False),
    ],
)
def test_an_old_or_unreadable_time_is_refused(at: str, *, timely: bool) -> None:
    """Five minutes in both directions, as whole seconds in plain digits."""
    assert timedelta(minutes=5) == WINDOW
    assert is_timely(Signed("id", at, b"", ()), NOW) is timely


def test_a_secret_has_its_prefix_and_is_base64() -> None:
    """Any other text has no key."""
    text = base64.b64encode(b"secret").decode()
    assert key_of(f"whsec_{text}") == b"secret"
    for other in (text, f"whsek_{text}", "whsec_!!", "whsec_é", "whsec_abc"):
        assert key_of(other) is None
