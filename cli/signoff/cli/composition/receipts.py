"""The keys of receipts: in the settings, or in a folder beside the settings file."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from signoff.broker.ed25519 import Key
from signoff.broker.receipts import Receipts, key_text, keys_text, read_key, read_keys
from signoff.broker.server.private import private_folder, private_text, private_text_once
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import ConfigError


def open_receipts(settings: Settings, *, signs: bool = True) -> Receipts:
    """Return the signer and verifier of this process. A worker does not sign: it has no key for it.

    Raises:
        ConfigError: The public keys cannot be read.
    """
    public_keys(settings)  # raises immediately if keys cannot be read
    return Receipts(
        lambda: public_keys(settings),
        cache(lambda: private_key(settings)) if signs else None,
        unsigned_until=settings.receipts.unsigned_until,
    )


def private_file(settings: Settings) -> Path:
    """Return the file of the private key, which is used if the settings have no key."""
    return settings.state_folder / "receipts" / "private" / "key.json"


def public_file(settings: Settings) -> Path:
    """Return the file of the public keys, which is used if the settings have none."""
    return settings.state_folder / "receipts" / "public" / "keys.json"


def private_key(settings: Settings) -> Key:
    """Return the key that signs; create it if there is none.

    Raises:
        ConfigError: It cannot be read or made.
    """
    if text := settings.receipts.private_key.get_secret_value():
        return _private(text, "receipts.private_key")
    file = private_file(settings)
    try:
        if not file.exists():
            _make(settings, file)
        key = _private(file.read_text("ascii", "replace"), str(file))
        _publish(settings, key)
    except OSError as error:
        raise ConfigError(
            f"the key that signs decisions cannot be kept in {error.filename or file}: "
            f"{error.strerror}. Let this user write there, or set SIGNOFF_RECEIPTS__PRIVATE_KEY "
            "and SIGNOFF_RECEIPTS__PUBLIC_KEYS (`signoff receipt new-key` prints both).",
            key="receipts.private_key",
        ) from error
    return key


def public_keys(settings: Settings) -> list[Key]:
    """Return the keys that verify; none before the first key is created.

    Raises:
        ConfigError: They cannot be read.
    """
    text, place = settings.receipts.public_keys, "receipts.public_keys"
    try:
        if not text:
            file = public_file(settings)
            place = str(file)
            text = file.read_text("ascii")
        return read_keys(text) if text else []
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise ConfigError(f"it cannot be read: {error}", key=place) from error


def _publish(settings: Settings, key: Key) -> None:
    """Add a key to the file of public keys, if the settings do not have them.

    Raises:
        OSError: It cannot be written.
    """
    if settings.receipts.public_keys:
        return
    known = public_keys(settings)
    text = keys_text([*known, key])
    if text != keys_text(known):
        file = public_file(settings)
        private_folder(file.parent)
        private_text(file, text)


def rotate(settings: Settings) -> Key:
    """Create a new key in the folder; receipts that the earlier key signed stay verifiable.

    Raises:
        ConfigError: The settings have the key.
        OSError: It cannot be written.
    """
    if settings.receipts.private_key.get_secret_value():
        raise ConfigError(
            "the settings have the key: replace it by one from `signoff receipt new-key`.",
            key="receipts.private_key",
        )
    private_key(settings)
    key = Key.generate()
    _publish(settings, key)
    private_text(private_file(settings), key_text(key, private=True))
    return key


def _make(settings: Settings, file: Path) -> None:
    """Create the key, unless another process has just created it."""
    private_folder(settings.state_folder)
    private_folder(file.parent)
    private_text_once(file, key_text(Key.generate(), private=True))


def _private(text: str, place: str) -> Key:
    try:
        key = read_key(text)
    except ValueError as error:
        raise ConfigError(
            f"{error}. Make one with `signoff receipt new-key`.", key=place
        ) from error
    if not key.is_private:
        raise ConfigError("it is a public key; signing needs the private key", key=place)
    return key
