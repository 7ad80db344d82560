"""Second factors: codes by RFC 6238, and secrets that the ledger stores encrypted."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr, ValidationError

from browser import totp_of
from builders import CLEO, MARA, present
from leaks import text_in
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.auth.factors import Factors, enrolled, enrolled_for_others, unenroll
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.approvals.events import What
from signoff.core.base.errors import ConfigError
from signoff.core.directory.people import Person
from signoff.testing import VirtualClock

KEY = SecretStr("a key of thirty-two characters..")


@pytest.fixture
def factors(still_ledger: Ledger) -> Factors:
    """Return the second factors on the virtual clock."""
    return Factors(still_ledger, KEY)


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (20000000000, "353130")],
)
def test_the_codes_of_the_standard(seconds: int, code: str) -> None:
    """The last six digits of the values in RFC 6238, appendix B, match their time step."""
    secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
    now = datetime.fromtimestamp(seconds, UTC)
    assert Factors.step_of(secret, code, now) == seconds // 30
    assert Factors.step_of(secret, f"{code[:3]} {code[3:]}", now) == seconds // 30
    for wrong in ("", code[:5], code + "0", "٠٠٥٩٢٤", "-" * 6):
        assert Factors.step_of(secret, wrong, now) == 0


@pytest.mark.parametrize(("away", "counts"), [(-60, False), (-30, True), (30, True), (60, False)])
async def test_a_step_on_either_side_counts(
    factors: Factors, clock: VirtualClock, away: int, counts: bool
) -> None:
    """A clock may differ by half a minute, and not more."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    code = app.at(clock.now() + timedelta(seconds=away))
    assert await factors.check(MARA, code) is counts


async def test_a_code_is_accepted_once_under_concurrency(
    factors: Factors, clock: VirtualClock
) -> None:
    """Of several uses at the same time, one succeeds."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    code = app.at(clock.now())
    taken = await asyncio.gather(*(factors.check(MARA, code) for _ in range(20)))
    assert len([one for one in taken if one]) == 1


async def test_codes_are_a_person_s_own(
    factors: Factors, still_ledger: Ledger, clock: VirtualClock
) -> None:
    """Another person's code is refused, and so is a record that was copied to another person."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    await factors.enroll(CLEO, by="test")
    assert not await factors.check(CLEO, app.at(clock.now()))
    store = still_ledger.store
    async with store.translated_client() as client:
        stolen = await client.get(f"{store.prefix}factor:mara")
        await client.set(f"{store.prefix}factor:cleo", present(stolen))
    assert not await factors.check(CLEO, app.at(clock.now()))
    assert not await factors.check(None, app.at(clock.now()))


async def test_a_secret_in_the_record_of_another_person_is_worthless(
    factors: Factors, still_ledger: Ledger, clock: VirtualClock
) -> None:
    """A writer of Redis puts Mara's sealed secret into Cleo's record, beside Cleo's address."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    await factors.enroll(CLEO, by="test")
    _, hers = present(await still_ledger.raw("factor:mara"))
    version, his = present(await still_ledger.raw("factor:cleo"))
    forged = json.dumps({**json.loads(his), "sealed": json.loads(hers)["sealed"]})
    await still_ledger.commit(Change().put_raw("factor:cleo", forged, was=version))
    assert not await factors.check(CLEO, app.at(clock.now()))
    assert await factors.check(MARA, app.at(clock.now()))


async def test_the_next_person_with_an_id_does_not_inherit_codes(
    factors: Factors, still_ledger: Ledger, clock: VirtualClock
) -> None:
    """The earlier person's app is refused, until the address is one of the present person's."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    heir = MARA.model_copy(update={"name": "Mara Lind", "email": "mara.lind@example.com"})
    assert not await factors.check(heir, app.at(clock.now()))
    assert not await factors.has(heir)
    assert await enrolled(still_ledger, [heir]) == []
    assert await enrolled_for_others(still_ledger, [heir, CLEO]) == {"mara": MARA.email}
    married = heir.model_copy(update={"aliases": (MARA.email.upper(),)})
    assert await factors.has(married)
    assert await factors.check(married, app.at(clock.now()))
    # The new person is enrolled like anybody who has no second factor.
    own = totp_of(await factors.enroll(heir, by="test"))
    clock.advance(timedelta(minutes=1))
    assert not await factors.check(heir, app.at(clock.now()))
    assert await factors.check(heir, own.at(clock.now()))
    assert await enrolled(still_ledger, [heir]) == ["mara"]
    assert await enrolled_for_others(still_ledger, [heir]) == {}


async def test_an_enrolment_of_an_earlier_release_is_bound_at_its_next_use(
    factors: Factors, still_ledger: Ledger, clock: VirtualClock
) -> None:
    """It names no address: it is accepted, and belongs from then on to the person's address."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    version, text = present(await still_ledger.raw("factor:mara"))
    earlier = {name: one for name, one in json.loads(text).items() if name != "address"}
    await still_ledger.commit(Change().put_raw("factor:mara", json.dumps(earlier), was=version))
    heir = MARA.model_copy(update={"email": "mara.lind@example.com"})
    assert await factors.has(heir)
    assert await factors.check(MARA, app.at(clock.now()))
    assert not await factors.has(heir)


async def test_the_ledger_cannot_make_codes(
    factors: Factors, still_ledger: Ledger, clock: VirtualClock
) -> None:
    """No key of Redis has a secret in plain text, and another key of the settings decrypts none."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    everything = await text_in(still_ledger)
    assert app.secret not in everything
    assert app.byte_secret().hex() not in everything
    other = Factors(still_ledger, SecretStr("another key of thirty-two letters"))
    assert not await other.check(MARA, app.at(clock.now()))


async def test_a_key_is_changed_without_anybody_enrolling_again(
    factors: Factors, still_ledger: Ledger, clock: VirtualClock
) -> None:
    """Both keys decrypt the old secrets; after re-encryption the second key alone does."""
    app = totp_of(await factors.enroll(MARA, by="test"))
    new = SecretStr("the key that comes after the first")
    both = Factors(still_ledger, new, KEY)
    assert await both.check(MARA, app.at(clock.now()))
    # A gateway without the new key can still decrypt it.
    clock.advance(timedelta(seconds=30))
    assert await factors.check(MARA, app.at(clock.now()))
    assert await both.reseal() == (["mara"], [])
    assert await both.reseal() == ([], [])
    clock.advance(timedelta(seconds=30))
    code = app.at(clock.now())
    assert not await factors.check(MARA, code)
    assert await Factors(still_ledger, new).check(MARA, code)
    assert not await both.check(MARA, code)
    stranger = Factors(still_ledger, SecretStr("a key that nobody has ever used.."))
    assert await stranger.reseal() == ([], ["mara"])


async def test_enrolling_is_audited_and_not_done_twice_by_mistake(
    factors: Factors, still_ledger: Ledger
) -> None:
    """Enrolling again needs an explicit option, and then the first secret is void."""
    first = totp_of(await factors.enroll(MARA, by="op"))
    with pytest.raises(ConfigError, match="--replace"):
        await factors.enroll(MARA, by="op")
    second = totp_of(await factors.enroll(MARA, by="op", replace=True))
    now = await still_ledger.now()
    assert first.secret != second.secret
    assert not await factors.check(MARA, first.at(now))
    assert await factors.check(MARA, second.at(now))
    assert await unenroll(still_ledger, "mara", by="op")
    assert not await unenroll(still_ledger, "mara", by="op")
    assert await enrolled(still_ledger, [CLEO, MARA]) == []
    store = still_ledger.store
    async with store.translated_client() as client:
        rows = await client.xrange(f"{store.prefix}audit", "-", "+", count=10)
    whats = [row["e"] for _, row in rows]
    kinds = [What.ENROLLED, What.ENROLLED, What.UNENROLLED]
    assert [f'"what":"{one}"' for one in kinds] == [text.split(",")[0][1:] for text in whats]
    assert all('"person":"mara"' in one and '"by":"op"' in one for one in whats)
    assert second.secret not in str(whats)


async def test_the_address_names_the_person_and_signoff(factors: Factors) -> None:
    """The app shows the person and the service of a code."""
    uri = await factors.enroll(Person(id="x", email="x+y@example.com"), by="test")
    assert uri.startswith("otpauth://totp/Signoff:x%2By%40example.com?secret=")
    assert uri.endswith("&issuer=Signoff")


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://approvals.example.com/", "https://approvals.example.com"),
        ("https://Approvals.example.com:443", "https://approvals.example.com"),
        ("https://a.example:8443", "https://a.example:8443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_the_url_is_normalised_to_a_browser_origin(given: str, url: str) -> None:
    """Otherwise no form would seem to come from this page."""
    assert InboxSettings(url=given, secret_key=KEY).url == url


def test_second_factors_need_a_secret_key(ledger: Ledger) -> None:
    """Data that anybody can decrypt is worse than none; a process may have no key."""
    with pytest.raises(ConfigError, match="SIGNOFF_INBOX__SECRET_KEY"):
        Factors(ledger, SecretStr(""))


@pytest.mark.parametrize(
    ("url", "key", "words"),
    [
        ("http://approvals.example.com", "k" * 32, "unencrypted"),
        ("https://approvals.example.com/x", "k" * 32, "has a path"),
        ("approvals.example.com", "k" * 32, "not a URL"),
        ("https://u:p@approvals.example.com", "k" * 32, "not a URL"),
        ("https://a.example:99999", "k" * 32, "not a URL"),
        ("", "k" * 32, "come together"),
        ("https://approvals.example.com", "short", "less than 32"),
    ],
)
def test_settings_that_would_not_be_safe(url: str, key: str, words: str) -> None:
    """The error gives the reason without the key."""
    with pytest.raises(ValidationError, match=words) as caught:
        InboxSettings(url=url, secret_key=SecretStr(key))
    assert "k" * 32 not in str(caught.value)
