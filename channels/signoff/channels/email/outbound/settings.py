"""The table `[email.dkim]`: Signoff's own signature."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, model_validator

from signoff.channels.web.settings import SettingsTable


def _label(text: str) -> str:
    allowed = set("abcdefghijklmnopqrstuvwxyz0123456789-._")
    if not set(text.lower()) <= allowed or text.startswith(".") or text.endswith("."):
        raise ValueError(f"{text!r} is not a name in the DNS")
    return text.lower()


Label = Annotated[str, AfterValidator(_label)]


class DkimSettings(SettingsTable):
    """Signoff's own DKIM signature, if no relay signs.

    Attributes:
        domain: The signing domain: that of ``sender``, or a parent of it. If empty, Signoff does
            not sign.
        selector: The selector of the public key in the DNS: ``SELECTOR._domainkey``.
        key: A file with the private key in PEM: RSA with at least 2048 bits, or Ed25519.
    """

    domain: Label = ""
    selector: Label = ""
    key: Path | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if len({bool(self.domain), bool(self.selector), self.key is not None}) > 1:
            raise ValueError("domain, selector and key come together: set all or none")
        return self
