"""Mail by HTTP: signed, recent, accepted once, and stored before the response."""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
import json
import re
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from pydantic import ValidationError

from builders import Snapshot, present
from channels.conftest import Channels
from channels.test_intake import reply
from ports import free_port
from services import missing
from signoff.broker import stages
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.proof import Proven
from signoff.channels.email.inbound.stored import StoredMail, load
from signoff.channels.email.inbound.webhook import MAILGUN_PATH, PATH, make_mail_router
from signoff.channels.email.parsing.mime import LARGEST_MAIL
from signoff.channels.email.settings import WebhookSettings
from signoff.channels.gateway import make_gateway
from signoff.channels.web.signatures import WINDOW
from signoff.core.approvals.approval import State

MAIL = b"From: mara@example.com\r\nSubject: Re: x\r\n\r\napprove\r\n"
OLD, NEW = ("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
KEY = "mailgun-signing-key-0123456789"
HOW_TO = Path(__file__).parents[3] / "docs/how-to/connect-a-mailbox.md"


def client(ledger: Ledger, **settings: Any) -> httpx.AsyncClient:
    """Return a client of a gateway that takes mail by HTTP."""
    app = make_gateway(ledger)
    app.include_router(
        make_mail_router(WebhookSettings(**(settings or {"secrets": (OLD, NEW)})), ledger)
    )
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway")


def signature(secret: str, name: str, at: str, body: bytes) -> str:
    """Sign as the specification of Standard Webhooks says."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.new(key, f"{name}.{at}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(made).decode()


async def signed(
    ledger: Ledger,
    body: bytes = MAIL,
    *,
    secret: str = NEW,
    name: str = "msg_1",
    late: int = 0,
    **headers: str | None,
) -> dict[str, str]:
    """Return the headers of a post."""
    at = str(int((await ledger.now()).timestamp()) + late)
    made = {
        "webhook-id": name,
        "webhook-timestamp": at,
        "webhook-signature": signature(secret, name, at, body),
        "content-type": "message/rfc822",
    }
    return {key: value for key, value in (made | headers).items() if value is not None}


async def waiting(ledger: Ledger) -> list[StoredMail]:
    """Return the mails that wait for the intake."""
    items = (await ledger.claim(stages.INTAKE)).items
    return [present(await load(ledger, item.body["mail"])) for item in items]


@pytest.mark.parametrize("secret", [OLD, NEW], ids=["old", "new"])
async def test_a_signed_mail_is_stored(ledger: Ledger, secret: str) -> None:
    """It is stored byte for byte without an envelope; during a rotation, both secrets count."""
    async with client(ledger) as http:
        answer = await http.post(PATH, content=MAIL, headers=await signed(ledger, secret=secret))
    assert (answer.status_code, answer.json()) == (200, {"status": "stored"})
    (mail,) = await waiting(ledger)
    assert (mail.raw, mail.traced, mail.sender, mail.recipients) == (MAIL, MAIL, None, ())


@pytest.mark.parametrize("results", [False, True])
async def test_authentication_results_are_trusted_only_if_configured(
    ledger: Ledger, results: bool
) -> None:
    """A sender can write Authentication-Results, and most providers do not remove them."""
    raw = b"Authentication-Results: mx.example; dmarc=pass header.from=example.com\r\n" + MAIL
    async with client(ledger, secrets=(OLD, NEW), results=results) as http:
        await http.post(PATH, content=raw, headers=await signed(ledger, raw))
    (mail,) = await waiting(ledger)
    proof = await Authenticator(
        authserv_id="mx.example", relays=[ipaddress.ip_network("127.0.0.0/8")]
    ).prove(mail.raw, "mara@example.com", peer=mail.peer, now=await ledger.now())
    assert (proof.proven is Proven.DMARC) is results


async def test_one_valid_signature_of_several_is_enough(ledger: Ledger) -> None:
    """A provider that rotates its secret signs with both for a while."""
    headers = await signed(ledger)
    headers["webhook-signature"] = f"v1a,xx v1,AAAA {headers['webhook-signature']}"
    async with client(ledger) as http:
        assert (await http.post(PATH, content=MAIL, headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [
        {"secret": "whsec_" + base64.b64encode(b"x" * 32).decode()},
        {"webhook-id": "msg_2"},
        {"webhook-timestamp": "1000000000"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v2,AAAA"},
        {"webhook-signature": "v1,\u00fc".encode()},
        {"webhook-signature": None},
        {"webhook-id": None},
        {"webhook-id": ""},
        {"body": MAIL + b"x"},
        {"late": -int(WINDOW.total_seconds()) - 2},
        {"late": int(WINDOW.total_seconds()) + 2},
    ],
    ids=str,
)
async def test_an_unsigned_or_late_post_is_refused(ledger: Ledger, wrong: dict[str, Any]) -> None:
    """Nothing is stored, and the response is a problem document."""
    wrong = dict(wrong)
    content = wrong.pop("body", MAIL)
    headers = await signed(ledger, **wrong)
    async with client(ledger) as http:
        answer = await http.post(PATH, content=content, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == 401
    assert await waiting(ledger) == []


async def test_a_repeated_post_is_stored_once(ledger: Ledger) -> None:
    """A repeated post is acknowledged; another mail under the same id is refused."""
    headers = await signed(ledger)
    async with client(ledger) as http:
        for _ in range(3):
            assert (await http.post(PATH, content=MAIL, headers=headers)).status_code == 200
        other = await http.post(
            PATH, content=MAIL + b"x", headers=await signed(ledger, MAIL + b"x")
        )
        again = await http.post(PATH, content=MAIL, headers=await signed(ledger, name="msg_2"))
    assert (other.status_code, other.json()["type"]) == (409, "urn:signoff:problem:id-used")
    assert again.status_code == 200
    assert len(await waiting(ledger)) == 1


async def test_the_id_is_remembered_in_the_commit_that_stores_the_mail(
    ledger: Ledger, snapshot: Snapshot
) -> None:
    """Both are stored or neither, and the id is kept longer than its signature is valid."""
    before = await snapshot()
    async with client(ledger) as http:
        await http.post(PATH, content=MAIL, headers=await signed(ledger))
    new = sorted(set(await snapshot()) - set(before))
    marks = set()
    async with ledger.store.translated_client() as redis:
        for key in (key.decode() for key in new):
            if re.search(r":(mail|webhook):", key):
                marks.add(present(await redis.get(key)).split(" ")[1])
            if ":webhook:" in key:
                assert 2 * WINDOW.total_seconds() * 1000 < await ledger.store.client.pttl(key)
    assert len(marks) == 1


async def test_the_size_is_capped_announced_or_not(ledger: Ledger) -> None:
    """A larger body is refused before it is kept or checked."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * (LARGEST_MAIL // 10)

    async with client(ledger) as http:
        announced = await http.post(PATH, content=b"x" * (LARGEST_MAIL + 1))
        streamed = await http.post(PATH, content=chunks())
        huge = await http.post(PATH, content=b"", headers={"content-length": "999999999999"})
        largest = MAIL + b"x" * (LARGEST_MAIL - len(MAIL))
        fits = await http.post(PATH, content=largest, headers=await signed(ledger, largest))
        empty = await http.post(PATH, content=b"", headers=await signed(ledger, b"", name="e"))
    assert [one.status_code for one in (announced, streamed, huge)] == [413] * 3
    assert (fits.status_code, empty.status_code) == (200, 422)


@pytest.mark.parametrize("line_end", ["\r\n", "\n"])
async def test_only_the_header_of_a_mail_that_is_too_large_is_stored(
    ledger: Ledger, line_end: str
) -> None:
    """Its author is told by it; nobody would hear of it if the provider's post were refused."""
    header = f"From: mara@example.com{line_end}Subject: Re: x{line_end}{line_end}"
    mail = header.encode() + b"approve" + b"x" * LARGEST_MAIL
    async with client(ledger, secrets=(OLD, NEW), mailgun_secrets=(KEY,)) as http:
        for _ in range(2):
            sent = await http.post(PATH, content=mail, headers=await signed(ledger, mail))
            assert sent.status_code == 200
        changed = await signed(ledger, mail[:-1] + b"y", name="msg_2")
        assert (await http.post(PATH, content=mail, headers=changed)).status_code == 413
        fields = await form(ledger) | {"body-mime": mail.decode()}
        assert (await http.post(MAILGUN_PATH, data=fields)).status_code == 200
    stored = await waiting(ledger)
    assert [(one.raw, one.is_cut) for one in stored] == [(header.encode(), True)] * 2


async def test_the_author_of_a_posted_mail_that_is_too_large_is_told(channels: Channels) -> None:
    """The whole way: a yes with a photo is posted, and the person reads that it was not read."""
    approval, token = await channels.ask()
    mail = reply(token, "approve") + b"x" * LARGEST_MAIL
    async with client(channels.ledger) as http:
        headers = await signed(channels.ledger, mail)
        assert (await http.post(PATH, content=mail, headers=headers)).status_code == 200
    await channels.intake.drain()
    channels.channel.delivered.clear()
    await channels.delivery.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    (told,) = channels.channel.delivered
    assert (told.person, told.headline) == (
        "mara",
        "Not read: your mail about reimburse is too large",
    )


async def test_a_post_without_redis_is_not_acknowledged() -> None:
    """A mail that cannot be stored is not acknowledged."""
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{free_port()}/0"))
    at = "1785578400"
    headers = {
        "webhook-id": "m",
        "webhook-timestamp": at,
        "webhook-signature": signature(NEW, "m", at, MAIL),
    }
    async with client(ledger) as http:
        answer = await http.post(PATH, content=MAIL, headers=headers)
    await ledger.close()
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


async def test_each_path_exists_only_with_its_secret(ledger: Ledger) -> None:
    """Each path exists only with its own secret."""
    async with client(ledger, mailgun_secrets=(KEY,)) as http:
        assert (await http.post(PATH, content=MAIL)).status_code == 404
    async with client(ledger) as http:
        assert (await http.post(MAILGUN_PATH, content=MAIL)).status_code == 404
        assert (await http.get(PATH)).status_code == 405


async def form(ledger: Ledger, *, key: str = KEY, late: int = 0, **fields: str) -> dict[str, str]:
    """Return the form of a Mailgun route."""
    at, token = str(int((await ledger.now()).timestamp()) + late), secrets.token_hex(25)
    made = hmac.new(key.encode(), f"{at}{token}".encode(), hashlib.sha256).hexdigest()
    return {
        "timestamp": at,
        "token": token,
        "signature": made,
        "sender": "mara@example.com",
        "recipient": "approvals@signoff.example",
        "body-mime": MAIL.decode(),
    } | fields


@pytest.mark.parametrize("multipart", [False, True])
async def test_a_mailgun_route_is_understood(ledger: Ledger, multipart: bool) -> None:
    """The form has the raw message and the envelope; both encodings of a form are read."""
    fields = await form(ledger)
    parts = {"files": {name: (None, value) for name, value in fields.items()}}
    async with client(ledger, mailgun_secrets=(KEY,)) as http:
        sent = parts if multipart else {"data": fields}
        for _ in range(2):
            assert (await http.post(MAILGUN_PATH + "/mime", **sent)).status_code == 200
    (mail,) = await waiting(ledger)
    assert (mail.raw, mail.sender) == (MAIL, "mara@example.com")
    assert mail.recipients == ("approvals@signoff.example",)


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        ({"key": "another"}, 401),
        ({"late": -400}, 401),
        ({"signature": "no hex"}, 401),
        ({"token": ""}, 401),
        ({"timestamp": "1"}, 401),
        ({"body-mime": ""}, 422),
        ({"key": "another", "body-mime": "x" * (LARGEST_MAIL + 1)}, 413),
    ],
    ids=["key", "late", "hex", "token", "timestamp", "empty", "large"],
)
async def test_a_wrong_form_is_refused(ledger: Ledger, wrong: dict[str, Any], status: int) -> None:
    """Nothing is stored."""
    async with client(ledger, mailgun_secrets=(KEY,)) as http:
        answer = await http.post(MAILGUN_PATH, data=await form(ledger, **wrong))
        garbage = await http.post(
            MAILGUN_PATH, content=b"--x", headers={"content-type": "multipart/form-data"}
        )
    assert (answer.status_code, garbage.status_code) == (status, 422)
    assert await waiting(ledger) == []


@pytest.mark.parametrize("secret", ["", "short", "whsec_", "whsec_AAAA", "whsec_!" + "A" * 60])
def test_an_invalid_secret_is_refused_without_quoting_it(secret: str) -> None:
    """The error says what is wrong without the secret."""
    with pytest.raises(ValidationError, match="openssl rand"):
        WebhookSettings(secrets=(secret,))
    with pytest.raises(ValidationError, match="24 characters"):
        WebhookSettings(mailgun_secrets=(secret[:20],))


async def test_the_example_in_the_docs_works(ledger: Ledger, tmp_path: Path) -> None:
    """The documented openssl and curl commands post a mail to a real server."""
    for program in ("curl", "openssl", "bash"):
        if shutil.which(program) is None:
            missing(program, f"apt-get install {program}")
    example = re.search(r"```sh\n(SECRET=.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert example is not None
    app = make_gateway(ledger)
    app.include_router(make_mail_router(WebhookSettings(secrets=(NEW,)), ledger))
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None, lifespan="off"))
    script = example.group(1).replace("SECRET=whsec_…", f"SECRET={NEW}")
    script = script.replace("https://signoff.example.com", f"http://127.0.0.1:{port}")
    (tmp_path / "reply.eml").write_bytes(MAIL)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 -- no signal announces it
        await asyncio.sleep(0.01)
    done = await asyncio.to_thread(
        subprocess.run, ["bash", "-ec", script], cwd=tmp_path, capture_output=True, check=False
    )
    server.should_exit = True
    await serving
    assert json.loads(done.stdout) == {"status": "stored"}, done.stderr
    assert [mail.raw for mail in await waiting(ledger)] == [MAIL]
