"""Browser notifications: recipients, content and end."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import SecretStr, ValidationError

from browser import forms_of
from builders import CLEO, MARA, RILEY
from channels.push.conftest import OURS, PAGE, PUSH, Notified
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
    publish_key,
    read_endpoint,
    subscribed,
    subscriptions_of,
    unsubscribe_marked,
)
from signoff.channels.inbox.vapid import public_key
from signoff.channels.pipeline.bundles import BundleRule
from signoff.channels.push.sender import PushSender
from signoff.core.approvals.approval import State
from signoff.core.approvals.moves import Remind
from signoff.core.policies.policy import Policy

MONEY = Policy(
    name="expenses",
    ask=("mara",),
    within="4h",
    title="Reimburse {args.purpose}",
    money={"amount": "EUR"},
    hide=("iban",),
)


async def test_from_the_page_to_the_device(office: Notified, service: PushService) -> None:
    """Only that browser can read title, amount and deadline; a notification cannot decide."""
    device = service.device()
    assert (await office.turn_on(device)).status_code == 303
    assert "A browser" in (await office.browser.get("/inbox/notifications")).text
    office.channels.policies = (MONEY,)
    approval = await office.channels.open(
        amount=2500, purpose="Bern, Friday", iban="CH93 0076", note="private"
    )
    await office.deliver()
    ((headers, told),) = service.to(device)
    assert told == {
        "title": "Reimburse Bern, Friday, asked by Riley Voss",
        "text": "amount: 2,500.00 EUR\nAnswer until Mon 2 Mar 2026, 16:00 UTC",
        "path": page_of(approval.id),
        "tag": approval.id,
        "again": False,
    }
    (_, _, body) = service.got[0]
    assert not any(one in body for one in (b"Bern, Fri", b"2,500.00", b"CH93 0076"))
    key, claims = sender_of(headers)
    assert key == public_key(PUSH)
    now = (await office.channels.ledger.now()).timestamp()
    assert (claims["aud"], claims["sub"]) == (service.origin, PUSH.contact)
    assert now < claims["exp"] <= now + 24 * 3600
    assert headers["content-encoding"] == "aes128gcm"
    assert headers["ttl"] == str(4 * 3600)
    assert len(headers["topic"]) == 32
    assert (await office.channels.ledger.approval(approval.id)).state is State.PENDING


async def test_each_message_has_a_connection_of_its_own(
    office: Notified, service: PushService
) -> None:
    """A push service has to show the certificate of its own name, and not that of a neighbour."""
    await office.turn_on(service.device("first"))
    await office.turn_on(service.device("second"))
    await office.channels.open(amount=1)
    await office.deliver()
    assert [headers["connection"] for _, headers, _ in service.got] == ["close", "close"]


async def test_a_page_subscribes_only_when_something_sends(
    office: Notified, service: PushService
) -> None:
    """Without a sender's key there is no form, and a sent form is refused."""
    ledger, device = office.channels.ledger, service.device()
    page = await office.browser.get("/inbox/notifications")
    form = forms_of(page)["/inbox/notifications/on"]
    await publish_key(ledger, "")
    page = await office.browser.get("/inbox/notifications")
    assert "/inbox/notifications/on" not in forms_of(page)
    assert "nothing has sent them yet" in page.text
    refused = await office.browser.post("/inbox/notifications/on", form | device.form)
    assert refused.status_code == 422
    assert "Nothing sends notifications yet" in refused.text
    await office.sender.announce()
    assert (await office.turn_on(device)).status_code == 303


async def test_without_a_title_no_argument_is_shown(office: Notified, service: PushService) -> None:
    """Other people may see the screen, so it only shows the policy's title or an amount."""
    device = service.device()
    await office.turn_on(device)
    await office.channels.open(amount=2500, purpose="a secret")
    await office.deliver()
    ((_, told),) = service.to(device)
    assert told["title"] == "reimbursement_agent asks to run reimburse"
    assert "secret" not in str(told)
    assert "2500" not in str(told)


async def test_only_subscribed_approvers_are_notified(
    office: Notified, service: PushService
) -> None:
    """Other people get none, and neither does a person who has turned them off."""
    device = service.device()
    await office.turn_on(device)
    office.channels.policies = (Policy(name="cleo", ask=("cleo",), within="4h"),)
    await office.channels.open(amount=1)
    await office.deliver()
    assert service.got == []
    page = await office.browser.get("/inbox/notifications")
    (one,) = await subscriptions_of(office.channels.ledger, MARA, OURS)
    form = forms_of(page)["/inbox/notifications/off"]
    assert form["browser"] == one.id
    await office.browser.post("/inbox/notifications/off", form)
    assert await subscribed(office.channels.ledger, ["mara"]) == frozenset()


async def test_a_reminder_replaces_the_earlier_notification(
    office: Notified, service: PushService
) -> None:
    """It replaces the first one by its tag, and alerts again."""
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
    """Many cards become one message and one notification that leads to the list."""
    device = service.device()
    await office.turn_on(device)
    office.channels.channel = Post(bundles=True)
    office.bundling = BundleRule(over=3, within=timedelta(minutes=5))
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
    """The push service reports it once and is not asked again."""
    gone, other = service.device("gone"), service.device("other")
    await office.turn_on(gone)
    await office.turn_on(other)
    service.statuses["/gone"] = [status]
    await office.channels.open(amount=1)
    await office.deliver()
    (left,) = await subscriptions_of(office.channels.ledger, MARA, OURS)
    assert left.endpoint == other.endpoint
    assert len(service.to(other)) == 1


async def test_a_failed_notification_is_retried_for_its_device_alone(
    office: Notified, service: PushService
) -> None:
    """A busy push service gets it later; the others do not get it twice."""
    busy, other = service.device("busy"), service.device("other")
    await office.turn_on(busy)
    await office.turn_on(other)
    service.statuses["/busy"] = [503, 429]
    await office.channels.open(amount=1)
    for _ in range(4):
        await office.deliver()
        office.channels.clock.advance(timedelta(minutes=1))
    assert (len(service.to(busy)), len(service.to(other))) == (3, 1)


async def test_a_device_does_not_wait_for_the_others(
    office: Notified, service: PushService
) -> None:
    """The service answers the first message only after it got the second one."""
    slow, other = service.device("slow"), service.device("other")
    await office.turn_on(other)
    office.channels.clock.advance(timedelta(seconds=1))
    await office.turn_on(slow)
    service.together = 2
    await office.channels.open(amount=1)
    for _ in range(2):
        await office.deliver()
        office.channels.clock.advance(timedelta(minutes=1))
    assert (len(service.to(slow)), len(service.to(other))) == (1, 1)


@pytest.mark.parametrize("dated", [False, True], ids=["seconds", "a date"])
async def test_a_push_service_gets_nothing_before_its_retry_time(
    office: Notified, service: PushService, dated: bool
) -> None:
    """Until that time it gets nothing; afterwards it gets each message once."""
    device = service.device()
    await office.turn_on(device)
    until = format_datetime(datetime.now(UTC) + timedelta(minutes=20), usegmt=True)
    service.statuses["/laptop"] = [429]
    service.headers = {"Retry-After": until if dated else "1200"}
    for _ in range(2):
        await office.channels.open(amount=1)
        await office.deliver()
    office.channels.clock.advance(timedelta(minutes=10))
    await office.deliver()
    assert len(service.got) == 1
    office.channels.clock.advance(timedelta(minutes=11))
    await office.deliver()
    assert len(service.got) == 3


async def test_an_outdated_notification_is_dropped(office: Notified, service: PushService) -> None:
    """The card itself was delivered long before."""
    await office.turn_on(service.device())
    service.statuses["/laptop"], service.headers = [503], {"Retry-After": "7200"}
    await office.channels.open(amount=1)
    await office.deliver()
    office.channels.clock.advance(timedelta(hours=2, minutes=1))
    await office.deliver()
    assert len(service.got) == 1
    await office.channels.open(amount=2)
    await office.deliver()
    assert len(service.got) == 2


async def test_an_ended_request_causes_no_notification(
    office: Notified, service: PushService
) -> None:
    """After an outage of the push service, ended requests cause no notification."""
    device = service.device()
    await office.turn_on(device)
    service.statuses["/laptop"] = [503]
    approval = await office.channels.open(amount=1)
    await office.deliver()
    await office.channels.decider.approve(approval.id, MARA, channel="email")
    office.channels.clock.advance(timedelta(minutes=10))
    await office.deliver()
    assert len(service.got) == 1


async def test_subscriptions_end_with_the_sessions_or_by_age(
    office: Notified, service: PushService
) -> None:
    """A sign-out everywhere ends them, and so does the age of a subscription."""
    ledger = office.channels.ledger
    await office.turn_on(service.device())
    assert await subscriptions_of(ledger, MARA, OURS)
    other = PUSH.model_copy(update={"private_key": SecretStr(_key(8))})
    assert await subscriptions_of(ledger, MARA, public_key(other)) == []
    await sign_out_everywhere(ledger, "mara", by="ops")
    assert await subscriptions_of(ledger, MARA, OURS) == []
    await office.sign_in()
    await office.turn_on(service.device())
    assert await subscriptions_of(ledger, MARA, OURS)
    office.channels.clock.advance(LASTS)
    assert await subscriptions_of(ledger, MARA, OURS) == []


async def test_a_browser_notifies_the_person_who_signed_in_last(
    office: Notified, service: PushService
) -> None:
    """Notifications outlive a sign-out, and end when another person signs in with the browser."""
    ledger, device = office.channels.ledger, service.device()
    await office.turn_on(device)
    csrf = forms_of(await office.browser.get("/inbox/notifications"))["/inbox/sign-out"]["csrf"]
    await office.browser.post("/inbox/sign-out", {"csrf": csrf})
    office.channels.clock.advance(timedelta(minutes=1))
    await office.sign_in()
    assert len(await subscriptions_of(ledger, MARA, OURS)) == 1
    await office.sign_in(CLEO)
    assert await subscriptions_of(ledger, MARA, OURS) == []
    await office.turn_on(device)
    await office.channels.open(amount=1)
    await office.deliver()
    assert service.got == []
    assert len(await subscriptions_of(ledger, CLEO, OURS)) == 1
    # Turned on again, the browser has another subscription in place of the first.
    await office.turn_on(service.device("again"), again=True)
    (one,) = await subscriptions_of(ledger, CLEO, OURS)
    assert one.endpoint.endswith("/again")


@pytest.mark.parametrize("mark", ["x", f"{'0' * 16}.:key", f"{'0' * 16}.mara", "ü" * 20])
async def test_a_forged_mark_of_a_browser_ends_nothing(
    office: Notified, service: PushService, mark: str
) -> None:
    """Only the subscription that the cookie names ends; anything else in it does nothing."""
    await office.turn_on(service.device())
    await unsubscribe_marked(office.channels.ledger, mark)
    assert len(await subscriptions_of(office.channels.ledger, MARA, OURS)) == 1


async def test_the_next_person_with_an_id_is_not_shown_in_the_browsers_of_the_first(
    office: Notified, service: PushService
) -> None:
    """A subscription is of the person's address, so another person's requests do not go there."""
    await office.turn_on(service.device())
    heir = MARA.model_copy(update={"email": "mara.lind@example.com"})
    assert await subscriptions_of(office.channels.ledger, heir, OURS) == []
    same = heir.model_copy(update={"aliases": (MARA.email,)})
    assert len(await subscriptions_of(office.channels.ledger, same, OURS)) == 1


async def test_a_person_has_at_most_ten(office: Notified, service: PushService) -> None:
    """The oldest subscription is removed."""
    for number in range(11):
        await office.turn_on(service.device(f"d{number}"))
        office.channels.clock.advance(timedelta(seconds=1))
    found = await subscriptions_of(office.channels.ledger, MARA, OURS)
    assert len(found) == 10
    assert service.device("d0").endpoint not in {one.endpoint for one in found}


async def test_an_erased_person_has_no_subscription(
    office: Notified, service: PushService, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No part of the subscription is left."""
    await office.turn_on(service.device())
    files = ArchiveFiles(tmp_path_factory.mktemp("archive"))
    gone = Redaction(MARA.names, "erased-0a1b2c3d", ("Mara",))
    await erase(office.channels.ledger, files, gone, by="ops", why="asked")
    assert await office.channels.ledger.store.keys("push:mara") == []


async def test_an_endpoint_in_a_private_network_is_removed(
    office: Notified, service: PushService
) -> None:
    """A name that resolves to a private network gets no message and is removed."""
    await office.turn_on(service.device())

    async def lookup(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.7"]

    strict = PUSH.model_copy(update={"allow_private": False})
    office.sender = PushSender(office.channels.decider, PAGE, strict, lookup=lookup)
    await office.channels.open(amount=1)
    await office.deliver()
    await office.sender.close()
    assert service.got == []
    assert await subscriptions_of(office.channels.ledger, MARA, OURS) == []


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
    """Other addresses are refused before they are stored."""
    with pytest.raises(SubscriptionRefused):
        read_endpoint(endpoint, allow_private=False)


async def test_a_form_with_something_else_is_refused(
    office: Notified, service: PushService
) -> None:
    """Nothing is stored, and the page says so."""
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
    """The error says how to make a key."""
    with pytest.raises(ValidationError, match="openssl rand -base64 32"):
        PushSettings(private_key=SecretStr(key), contact="mailto:a@example.com")


def test_push_without_an_inbox_url_is_refused() -> None:
    """A notification opens the page, so it needs one."""
    with pytest.raises(ValidationError, match="set url too"):
        InboxSettings(push=PUSH)


def _key(byte: int) -> str:
    return base64.b64encode(bytes([byte]) * 32).decode()
