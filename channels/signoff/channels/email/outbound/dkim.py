"""Our own DKIM signature (RFC 6376), for installations whose relay does not sign."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import dkim
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from signoff.channels.email.authentication.lookup import Txt
from signoff.channels.email.outbound.settings import DkimSettings
from signoff.core.base.errors import ConfigError

_SMALLEST_KEY: Final = 2048  # the minimum for signers, RFC 8301, section 3.2
_SIGNED: Final = (
    *(b"from", b"to", b"subject", b"date", b"message-id", b"reply-to", b"in-reply-to"),
    *(b"references", b"mime-version", b"content-type", b"auto-submitted", b"x-signoff-loop"),
)
"""The signed fields. A missing field is signed too, so that nobody can add it later."""
_TWICE: Final = (b"from", b"to", b"subject", b"date", b"reply-to")
"""Fields that are signed so that a second one cannot be added on top (RFC 6376, section 8.15)."""


class Signer:
    """Signs mails with the private key in a file.

    Raises:
        ConfigError: The key cannot be read or used.
    """

    def __init__(self, settings: DkimSettings, key: Path) -> None:
        private = _private_key(key)
        self._settings = settings
        public = private.public_key()
        if isinstance(private, RSAPrivateKey):
            self._algorithm, self._kind = b"rsa-sha256", "rsa"
            self._key = private.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
            shown = public.public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        else:
            self._algorithm, self._kind = b"ed25519-sha256", "ed25519"
            self._key = base64.b64encode(private.private_bytes_raw())
            shown = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self._public = base64.b64encode(shown).decode()

    @property
    def name(self) -> str:
        """The DNS name under which the public key must be published."""
        return f"{self._settings.selector}._domainkey.{self._settings.domain}"

    @property
    def record(self) -> str:
        """The TXT record to publish."""
        return f"v=DKIM1; k={self._kind}; p={self._public}"

    def sign(self, mail: bytes) -> bytes:
        """Return a mail with a signature over its whole body and the important fields."""
        signature: bytes = dkim.sign(
            mail,
            self._settings.selector.encode(),
            self._settings.domain.encode(),
            self._key,
            canonicalize=(b"relaxed", b"relaxed"),
            signature_algorithm=self._algorithm,
            include_headers=[*_SIGNED, *_TWICE],
        )
        return signature + mail

    async def problem(self, txt: Txt) -> str | None:
        """Look up the public key, and return its problem, "" if it is correct.

        Returns:
            None if the DNS does not answer.
        """
        records = await txt.records(self.name)
        if records is None:
            return None
        tags = [_tags(one.decode("utf-8", "replace")) for one in records]
        if any(one.get("p") == self._public for one in tags):
            return ""
        found = "has another key" if any("p" in one for one in tags) else "is not there"
        return f"the TXT record {self.name} {found}; it has to be: {self.record}"


def _tags(record: str) -> dict[str, str]:
    pairs = (one.partition("=") for one in record.split(";"))
    return {name.strip(): "".join(value.split()) for name, _, value in pairs}


def _private_key(path: Path) -> RSAPrivateKey | Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(
            f"{path} cannot be read as a private key in PEM: {error}", key="email.dkim.key"
        ) from error
    if isinstance(key, Ed25519PrivateKey):
        return key
    if isinstance(key, RSAPrivateKey) and key.key_size >= _SMALLEST_KEY:
        return key
    raise ConfigError(
        f"{path} has a key that receivers do not take; make one with "
        f"`openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048`",
        key="email.dkim.key",
    )
