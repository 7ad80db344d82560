"""Signed JSON, compared with a library for all of JOSE."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from joserfc import jws
from joserfc.jwk import OKPKey

from signoff.broker.ed25519 import ALGORITHM, Key, verified

TYPE = "note+jws"
KEY = Key.generate()
THEIRS = OKPKey.import_key({**KEY.jwk(private=True)})


def theirs(header: dict[str, Any], payload: str = "{}") -> str:
    """Return a text that the library has signed with the same key."""
    signed: str = jws.serialize_compact(header, payload, THEIRS, algorithms=[ALGORITHM])
    return signed


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_receipts_and_jose_libraries_verify_each_other() -> None:
    """Any JOSE library can verify a receipt, and earlier receipts stay valid."""
    signed = KEY.sign('{"said": "yes"}', TYPE)
    found = jws.deserialize_compact(signed, THEIRS, algorithms=[ALGORITHM])
    assert (found.payload, found.headers()["kid"]) == (b'{"said": "yes"}', KEY.kid)
    header = {"alg": ALGORITHM, "kid": THEIRS.thumbprint(), "typ": TYPE}
    assert verified(theirs(header), TYPE, lambda _: KEY) == b"{}"
    assert THEIRS.thumbprint() == KEY.kid


@pytest.mark.filterwarnings("ignore::joserfc.errors.SecurityWarning")
def test_a_token_with_a_wrong_type_or_algorithm_is_refused() -> None:
    """Other types, algorithms, extensions, keys, texts and characters are refused."""
    good = KEY.sign("{}", TYPE)
    head, body, signature = good.split(".")
    none = urlsafe_b64encode(json.dumps({"alg": "none", "typ": TYPE}).encode()).decode()
    texts = (
        KEY.sign("{}", "other+jws"),
        Key.generate().sign("{}", TYPE),
        theirs({"alg": ALGORITHM, "typ": TYPE, "crit": ["b64"], "b64": True}),
        f"{head}.e30x.{signature}",
        f"{head}.{body}.{signature}=",
        f"{head}.{body}.{signature[:-4]}",
        f"{head}.{body}.",
        f"{none.rstrip('=')}.{body}.",
        f"{head}.{body}",
        "é.é.é",
        "",
    )
    assert verified(good, TYPE, lambda _: KEY) == b"{}"
    for text in texts:
        with pytest.raises(ValueError, match=r"."):
            verified(text, TYPE, lambda _: KEY)


@pytest.mark.parametrize(
    "changed",
    [
        {"kty": "EC"},
        {"crv": "X25519"},
        {"x": "AAAA"},
        {"x": None},
        {"d": Key.generate().jwk(private=True)["d"]},
        {"d": "é"},
    ],
)
def test_an_invalid_key_is_refused(changed: dict[str, Any]) -> None:
    """A key of another kind or length, or with a private key that does not match, is refused."""
    with pytest.raises(ValueError, match="it is"):
        Key.read(KEY.jwk(private=True) | changed)
