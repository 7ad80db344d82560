"""The page's secret key rotates with an overlap: enrolments and sessions stay valid."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pyotp
import pytest
from pydantic import SecretStr, ValidationError

from authenticator import Authenticator
from browser import ORIGIN, SETTINGS, Browser, forms_of
from channels.conftest import Channels
from signoff.broker.ledger.change import Change
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.auth.links import make_link
from signoff.channels.inbox.auth.passkey_store import invite
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings, page_of
from signoff.core.approvals.approval import State
from signoff.core.policies.policy import Policy

NEW = SecretStr("the key that comes after the old one")
ROTATING = SETTINGS.model_copy(
    update={"secret_key": NEW, "secret_key_previous": SETTINGS.secret_key}
)
ROTATED = SETTINGS.model_copy(update={"secret_key": NEW})


@pytest.fixture(params=[ROTATING, ROTATED], ids=["both keys", "the new key"])
async def later(
    request: pytest.FixtureRequest, office: Channels, apps: dict[str, pyotp.OTP]
) -> AsyncIterator[Browser]:
    """Return a browser at a gateway that has restarted with the new key."""
    if request.param is ROTATED:
        factors = Factors(office.ledger, NEW, SETTINGS.secret_key)
        assert await factors.reseal() == (["cleo", "mara"], [])
    app = make_gateway(office.ledger)
    app.include_router(make_inbox_router(office.decider, request.param))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as http:
        yield Browser(http, apps, office.ledger)


async def test_a_session_and_its_forms_stay_good(
    browser: Browser, later: Browser, office: Channels
) -> None:
    """A form that was shown before the rotation decides after it."""
    office.policies = (Policy(name="free", ask=("mara",), within="4h"),)
    approval, _ = await office.ask()
    path = page_of(approval.id)
    sessions = Sessions(office.ledger, SETTINGS)
    browser.session = await sessions.begin("mara", how=How.LINK, also=Change())
    form = forms_of(await browser.get(path))[f"{path}/approve"]
    later.session = browser.session
    decided = await later.post(f"{path}/approve", form)
    assert decided.status_code == 303, decided.text
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_people_sign_in_as_before(later: Browser, office: Channels) -> None:
    """The app's codes and an older link still work."""
    path, _ = await make_link(office.ledger, "mara", how=How.LOCAL, to="/inbox/")
    assert (await later.sign_in()).status_code == 303
    later.session = ""
    form = forms_of(await later.get(path))["/inbox/sign-in/link/use"]
    assert (await later.post("/inbox/sign-in/link/use", form)).status_code == 303


async def test_a_passkey_stays_good(browser: Browser, later: Browser, office: Channels) -> None:
    """It is bound to the host; the key only computes the person's name on devices."""
    device = Authenticator(ORIGIN, "approvals.example.com")
    session = await Sessions(office.ledger, SETTINGS).begin("mara", how=How.LINK, also=Change())
    browser.session = session
    csrf = forms_of(await browser.get("/inbox/security"))["/inbox/sign-out"]["csrf"]
    code = await invite(office.ledger, "mara", by="op")
    offer = await browser.post("/inbox/security/passkeys/offer", {"csrf": csrf, "invitation": code})
    made = {"csrf": csrf, "credential": device.make(offer.json()), "name": "key"}
    assert (await browser.post("/inbox/security/passkeys/add", made)).status_code == 303
    offer = await later.post("/inbox/sign-in/passkey/offer", {"next": ""})
    signed = {"credential": device.sign(offer.json())}
    assert (await later.post("/inbox/sign-in/passkey", signed)).status_code == 303


def test_invalid_encryption_keys_are_refused() -> None:
    """The old key alone encrypts nothing, and a short key is not safe."""
    with pytest.raises(ValidationError, match="set secret_key too"):
        InboxSettings(url=ORIGIN, secret_key_previous=NEW)
    with pytest.raises(ValidationError, match="secret_key_previous has less than"):
        InboxSettings(url=ORIGIN, secret_key=NEW, secret_key_previous=SecretStr("short"))
