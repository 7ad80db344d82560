"""The ceremonies of WebAuthn, by the library that knows them: imported when somebody has a passkey.

What the library raises for what is no answer of an authenticator is a `ValueError` here.
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
class Page:
    """Where passkeys are used, which is what they are bound to.

    Attributes:
        host: Its name.
        origin: Its address.
    """

    host: str
    origin: str

    def offer_to_add(
        self, challenge: bytes, there: Sequence[Passkey], *, handle: bytes, address: str, shown: str
    ) -> str:
        """Return what a browser is to make a passkey from, as JSON.

        Args:
            challenge: What it has to answer.
            there: The passkeys that the person has.
            handle: What stands for the person in the authenticator.
            address: Their mail address.
            shown: Their name.
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
            exclude_credentials=_named(there),
        )
        return options_to_json(options)

    def added(self, challenge: bytes, answer: str) -> VerifiedRegistration:
        """Return the passkey that a browser has made.

        Raises:
            ValueError: It is no answer to this challenge.
        """
        with _translated():
            return verify_registration_response(
                credential=answer,
                expected_challenge=challenge,
                expected_rp_id=self.host,
                expected_origin=self.origin,
                require_user_verification=True,
            )

    def offer_to_sign(self, challenge: bytes, there: Sequence[Passkey]) -> str:
        """Return what a browser is to sign with one of some passkeys, or any, as JSON."""
        options = generate_authentication_options(
            rp_id=self.host,
            challenge=challenge,
            allow_credentials=_named(there),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        return options_to_json(options)

    def signed(self, challenge: bytes, answer: str, by: Passkey) -> VerifiedAuthentication:
        """Return what a passkey has signed.

        Raises:
            ValueError: It has not signed this challenge, or its count does not grow.
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
    """Return those of the ways to an authenticator that the standard names."""
    known = set(AuthenticatorTransport)
    return tuple(str(way) for way in found if way in known)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except WebAuthnException as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _named(there: Sequence[Passkey]) -> list[PublicKeyCredentialDescriptor]:
    return [
        PublicKeyCredentialDescriptor(
            id=base64url_to_bytes(one.id),
            transports=[AuthenticatorTransport(way) for way in one.transports] or None,
        )
        for one in there
    ]
