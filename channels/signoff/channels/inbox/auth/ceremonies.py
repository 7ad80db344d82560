"""The ceremonies of WebAuthn, with the library `webauthn`; imported only if a passkey is used.

The library's errors for invalid responses become `ValueError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.authentication.verify_authentication_response import VerifiedAuthentication
from webauthn.helpers import base64url_to_bytes
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    AuthenticatorTransport,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)
from webauthn.registration.verify_registration_response import VerifiedRegistration

from signoff.channels.inbox.auth.passkey_store import Passkey


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """The site to which passkeys are bound: the relying party of WebAuthn.

    Attributes:
        host: The host name.
        origin: Scheme, host and port.
    """

    host: str
    origin: str

    def offer_to_add(
        self,
        challenge: bytes,
        existing: Sequence[Passkey],
        *,
        handle: bytes,
        address: str,
        shown: str,
    ) -> str:
        """Return the options from which a browser creates a passkey, as JSON.

        Args:
            challenge: The challenge that the passkey signs.
            existing: The passkeys of the person.
            handle: The id of the person for the authenticator.
            address: The email address of the person.
            shown: The name of the person.
        """
        options = generate_registration_options(
            rp_id=self.host,
            rp_name="Signoff",
            user_id=handle,
            user_name=address,
            user_display_name=shown,
            challenge=challenge,
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.PREFERRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=_descriptors(existing),
        )
        return options_to_json(options)

    def added(self, challenge: bytes, answer: str) -> VerifiedRegistration:
        """Verify the passkey that a browser has created.

        Raises:
            ValueError: It is not a valid response to this challenge.
        """
        with _translated():
            return verify_registration_response(
                credential=answer,
                expected_challenge=challenge,
                expected_rp_id=self.host,
                expected_origin=self.origin,
                require_user_verification=True,
            )

    def offer_to_sign(self, challenge: bytes, existing: Sequence[Passkey]) -> str:
        """Return the options from which a browser signs a challenge, as JSON.

        Without `existing`, the person may use any of their passkeys.
        """
        options = generate_authentication_options(
            rp_id=self.host,
            challenge=challenge,
            allow_credentials=_descriptors(existing),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return options_to_json(options)

    def signed(self, challenge: bytes, answer: str, by: Passkey) -> VerifiedAuthentication:
        """Verify the signature of a passkey.

        Raises:
            ValueError: It is not for this challenge, or the signature counter did not grow.
        """
        with _translated():
            return verify_authentication_response(
                credential=answer,
                expected_challenge=challenge,
                expected_rp_id=self.host,
                expected_origin=self.origin,
                credential_public_key=base64url_to_bytes(by.public),
                credential_current_sign_count=by.count,
                require_user_verification=True,
            )


def known_transports(found: Iterable[object]) -> tuple[str, ...]:
    """Return the transports that the standard names."""
    known = set(AuthenticatorTransport)
    return tuple(str(way) for way in found if way in known)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except WebAuthnException as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _descriptors(existing: Sequence[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    return [
        PublicKeyCredentialDescriptor(
            id=base64url_to_bytes(one.id),
            transports=[AuthenticatorTransport(way) for way in one.transports] or None,
        )
        for one in existing
    ]
