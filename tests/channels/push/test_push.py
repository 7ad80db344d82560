"""Notifications in browsers: who gets which, what they show, and when they end."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import timedelta

import pytest
from pydantic import SecretStr, ValidationError

from builders import MARA, RILEY
from channels.push.conftest import PAGE, PUSH, Notified
from channels.push.device import PushService, sender_of
from channels.writing import Post
from signoff.broker.archive.erasure import erase
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.archive.redaction import Redaction
from signoff.channels.inbox.auth.sessions import sign_out_everywhere
from signoff.channels.inbox.settings import InboxSettings, PushSettings, page_of
from signoff.channels.inbox.subscriptions import (
    LASTS,
    SubscriptionRefused,
    read_endpoint,
    subscribed,
    subscriptions_of,
)
from signoff.channels.inbox.vapid import public_key
from signoff.channels.pipeline.bundles import Bundling
from signoff.channels.push.sender import PushSender
from signoff.core.approvals.approval import State
from signoff.core.approvals.moves import Remind
from signoff.core.policies.policy import Policy
from visitor import forms_of

MONEY = Policy(
    name="expenses",
    ask=("mara",),
    within="4h",
    title="Reimburse {args.purpose}",
    money={"amount": "EUR"},
    hide=("iban",),
)


async def test_from_the_page_to_the_device(office: Notified, service: PushService) -> None:
    """Title, amount and deadline, readable by that browser alone; nothing is decided by it."""
    device = service.device()
    assert (await office.turn_on(device)).status_code == 303
    assert "A browser" in (await office.browser.get("/inbox/notifications")).text
    office.channels.policies = (MONEY,)
    approval = await office.channels.open(amount=2500, purpose="Bern", iban="CH93", note="private")
    await office.deliver()
    ((headers, told),) = service.to(device)
    assert told == {
        "title": "Reimburse Bern, asked by Riley Voss",
        "text": "amount: 2,500.00 EUR\nAnswer until Mon 2 Mar 2026, 16:00 UTC",
        "path": page_of(approval.id),
        "tag": approval.id,
        "again": False,
    }
    (_, _, body) = service.got[0]
    assert not any(one in body for one in (b"Bern", b"2,500", b"CH93"))
    key, claims = sender_of(headers)
    assert key == public_key(PUSH)
    now = (await office.channels.ledger.now()).timestamp()
    assert (claims["aud"], claims["sub"]) == (service.origin, PUSH.contact)
    assert now < claims["exp"] <= now + 24 * 3600
    assert headers["content-encoding"] == "aes128gcm"
    assert headers["ttl"] == str(4 * 3600)
    assert len(headers["topic"]) == 32
    assert (await office.channels.ledger.approval(approval.id)).state is State.PENDING


async def test_without_a_title_no_argument_is_shown(office: Notified, service: PushService) -> None:
    """A device lies on a table: only what the policy calls a title or money is on its screen."""
    device = service.device()
    await office.turn_on(device)
    await office.channels.open(amount=2500, purpose="a secret")
    await office.deliver()
    ((_, told),) = service.to(device)
    assert told["title"] == "reimbursement_agent asks to run reimburse"
    assert "secret" not in str(told)
    assert "2500" not in str(told)


async def test_only_who_is_asked_and_wants_it_is_notified(
    office: Notified, service: PushService
) -> None:
    """Nobody else gets anything, and one who has turned it off gets nothing any more."""
    device = service.device()
    await office.turn_on(device)
    office.channels.policies = (Policy(name="cleo", ask=("cleo",), within="4h"),)
    await office.channels.open(amount=1)
    await office.deliver()
    assert service.got == []
    page = await office.browser.get("/inbox/notifications")
    (one,) = await subscriptions_of(office.channels.ledger, "mara", PUSH)
    form = forms_of(page)["/inbox/notifications/off"]
    assert form["browser"] == one.id
    await office.browser.post("/inbox/notifications/off", form)
    assert await subscribed(office.channels.ledger, ["mara"]) == frozenset()


async def test_a_reminder_is_one_on_the_device_too(office: Notified, service: PushService) -> None:
    """It has the tag of the first, and sounds again."""
    device = service.device()
    await office.turn_on(device)
    approval = await office.channels.open(amount=1)
    await office.deliver()
    office.channels.clock.advance(timedelta(hours=1))
    await office.channels.decider.made(approval.id, Remind(), RILEY, channel="inbox")
    await office.deliver()
    (_, first), (_, again) = service.to(device)
    assert (again["tag"], again["again"]) == (first["tag"], True)
    assert again["title"].startswith("Reminder: ")


async def test_a_bundle_is_one_notification(office: Notified, service: PushService) -> None:
    """Many cards at once become one message, and one notification that leads to the list."""
    device = service.device()
    await office.turn_on(device)
    office.channels.channel = Post(bundles=True)
    office.bundling = Bundling(over=3, within=timedelta(minutes=5))
    for number in range(5):
        await office.channels.open(amount=number)
    for _ in range(4):
        await office.deliver()
        office.channels.clock.advance(timedelta(minutes=5))
    kinds = [told["title"] for _, told in service.to(device)]
    assert "requests wait for you" in kinds[-1]
    assert len(kinds) == len(office.channels.channel.delivered)
    assert service.to(device)[-1][1]["path"] == "/inbox/"


@pytest.mark.parametrize("status", [403, 404, 410])
async def test_a_subscription_that_has_ended_is_forgotten(
    office: Notified, service: PushService, status: int
) -> None:
    """The push service says so once, and is not asked again."""
    gone, other = service.device("gone"), service.device("other")
    await office.turn_on(gone)
    await office.turn_on(other)
    service.statuses["/gone"] = [status]
    await office.channels.open(amount=1)
    await office.deliver()
    (left,) = await subscriptions_of(office.channels.ledger, "mara", PUSH)
    assert left.endpoint == other.endpoint
    assert len(service.to(other)) == 1


async def test_what_failed_for_a_while_is_sent_again_to_those_alone(
    office: Notified, service: PushService
) -> None:
    """A push service that is busy gets it later, another one does not get it twice."""
    busy, other = service.device("busy"), service.device("other")
    await office.turn_on(busy)
    await office.turn_on(other)
    service.statuses["/busy"] = [503, 429]
    await office.channels.open(amount=1)
    for _ in range(4):
        await office.deliver()
        office.channels.clock.advance(timedelta(minutes=1))
    assert (len(service.to(busy)), len(service.to(other))) == (3, 1)


async def test_what_is_decided_meanwhile_is_not_told(
    office: Notified, service: PushService
) -> None:
    """A push service that was away does not make people look at what is over."""
    device = service.device()
    await office.turn_on(device)
    service.statuses["/laptop"] = [503]
    approval = await office.channels.open(amount=1)
    await office.deliver()
    await office.channels.decider.approve(approval.id, MARA, channel="email")
    office.channels.clock.advance(timedelta(minutes=10))
    await office.deliver()
    assert len(service.got) == 1


async def test_it_ends_with_the_sessions_and_with_time(
    office: Notified, service: PushService
) -> None:
    """Signed out everywhere is notified nowhere; so is who has turned it on long ago."""
    ledger = office.channels.ledger
    await office.turn_on(service.device())
    assert await subscriptions_of(ledger, "mara", PUSH)
    other = PUSH.model_copy(update={"private_key": SecretStr(_key(8))})
    assert await subscriptions_of(ledger, "mara", other) == []
    await sign_out_everywhere(ledger, "mara", by="ops")
    assert await subscriptions_of(ledger, "mara", PUSH) == []
    await office.sign_in()
    await office.turn_on(service.device())
    assert await subscriptions_of(ledger, "mara", PUSH)
    office.channels.clock.advance(LASTS)
    assert await subscriptions_of(ledger, "mara", PUSH) == []


async def test_a_person_has_at_most_ten(office: Notified, service: PushService) -> None:
    """The one that was turned on first goes."""
    for number in range(11):
        await office.turn_on(service.device(f"d{number}"))
        office.channels.clock.advance(timedelta(seconds=1))
    found = await subscriptions_of(office.channels.ledger, "mara", PUSH)
    assert len(found) == 10
    assert service.device("d0").endpoint not in {one.endpoint for one in found}


async def test_who_is_erased_is_notified_nowhere(
    office: Notified, service: PushService, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing of the subscription is left."""
    await office.turn_on(service.device())
    files = ArchiveFiles(tmp_path_factory.mktemp("archive"))
    gone = Redaction(MARA.names, "erased-0a1b2c3d", ("Mara",))
    await erase(office.channels.ledger, files, gone, by="ops", why="asked")
    assert await office.channels.ledger.store.keys("push:") == []


async def test_no_endpoint_leads_behind_us(office: Notified, service: PushService) -> None:
    """A name that resolves to a private network is not posted to, and forgotten."""
    await office.turn_on(service.device())

    async def lookup(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.7"]

    strict = PUSH.model_copy(update={"allow_private": False})
    office.sender = PushSender(office.channels.decider, PAGE, strict, lookup=lookup)
    await office.channels.open(amount=1)
    await office.deliver()
    await office.sender.close()
    assert service.got == []
    assert await subscriptions_of(office.channels.ledger, "mara", PUSH) == []


@pytest.mark.parametrize(
    "endpoint",
    [
        *("", "x", "http://push.example/1", "https://127.0.0.1/1", "https://[::1]/1"),
        *("https://localhost/1", "https://a@push.example/1", "https://push.example/1#x"),
        *("ftp://push.example/1", "https://push.example/ 1", "https://push.example:x/1"),
        *("https://push.example/\u00e4", f"https://push.example/{'x' * 1000}", "https://10.1.1.1"),
    ],
)
def test_an_endpoint_is_a_push_service_of_the_internet(endpoint: str) -> None:
    """Anything else is refused before it is kept."""
    with pytest.raises(SubscriptionRefused):
        read_endpoint(endpoint, allow_private=False)


async def test_a_form_with_something_else_is_refused(
    office: Notified, service: PushService
) -> None:
    """Nothing is kept, and the page says so."""
    device = service.device()
    page = await office.browser.get("/inbox/notifications")
    form = forms_of(page)["/inbox/notifications/on"] | device.form
    for wrong in (
        *({"key": "x"}, {"key": "A" * 87}, {"key": ""}, {"auth": "AA"}, {"auth": "*"}),
        *({"endpoint": "ftp://x/"}, {"endpoint": ""}),
    ):
        answer = await office.browser.post("/inbox/notifications/on", form | wrong)
        assert answer.status_code == 422, wrong
        assert "Nothing was turned on." in answer.text
    forged = await office.browser.post("/inbox/notifications/on", form | {"csrf": "x"})
    assert forged.status_code == 403
    assert await subscribed(office.channels.ledger, ["mara"]) == frozenset()


@pytest.mark.parametrize("key", ["x", "AAAA", base64.b64encode(b"\xff" * 32).decode()])
def test_a_key_is_32_bytes_of_the_curve(key: str) -> None:
    """The error says how to make one."""
    with pytest.raises(ValidationError, match="openssl rand -base64 32"):
        PushSettings(private_key=SecretStr(key), contact="mailto:a@example.com")


def test_without_a_page_there_is_nothing_to_notify_of() -> None:
    """A notification opens the page."""
    with pytest.raises(ValidationError, match="set url too"):
        InboxSettings(push=PUSH)


def _key(byte: int) -> str:
    return base64.b64encode(bytes([byte]) * 32).decode()
