"""The nginx example in front of a real gateway process, as people reach it."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ports import free_port
from services import nginx
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.settings import InboxSettings
from signoff.cli.composition.supervisor import Supervisor

EXAMPLE = Path(__file__).parents[2] / "examples" / "deploy" / "nginx" / "signoff.conf"
NAME = "approvals.example.com"
ORIGIN = f"https://{NAME}"
SNI = {"sni_hostname": NAME}
KEY = "k" * 44
SETTINGS = f"""
[inbox]
url = "{ORIGIN}"

[gateway]
port = 0

[email.inbound]
listen = false

[metrics]
enabled = true

[[people]]
id = "mara"
email = "mara@example.com"

[default]
ask = ["mara"]
"""


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a self-signed certificate for the name; return its file and its key's file."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "chain.pem", folder / "key.pem"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return chain, private


class Proxy:
    """An nginx, and browsers that reach it under the name of the example.

    Args:
        port: Its port for TLS.
        chain: Its certificate.
    """

    def __init__(self, port: int, chain: Path) -> None:
        self._url = f"https://127.0.0.1:{port}"
        self._tls = ssl.create_default_context(cafile=chain)

    @asynccontextmanager
    async def browser(self, address: str = "127.0.0.1") -> AsyncIterator[httpx.AsyncClient]:
        """Yield a browser on a machine with this address."""
        transport = httpx.AsyncHTTPTransport(verify=self._tls, local_address=address)
        async with httpx.AsyncClient(
            transport=transport,
            base_url=self._url,
            headers={"Host": NAME, "Origin": ORIGIN},
            timeout=60,
        ) as client:
            yield client


@asynccontextmanager
async def behind_nginx(folder: Path) -> AsyncIterator[tuple[Proxy, Ledger, int]]:
    """Start a gateway and the example's nginx; yield both, the ledger and the plain port."""
    (folder / "signoff.toml").write_text(SETTINGS)
    with EmbeddedRedis(folder / "redis") as redis:
        environment = {
            "SIGNOFF_REDIS__URL": redis.url,
            "SIGNOFF_INBOX__SECRET_KEY": KEY,
            "SIGNOFF_METRICS__TOKEN": "scrape-me",
        }
        ledger = Ledger(Store.open(redis.url))
        try:
            async with Supervisor() as supervisor:
                file = str(folder / "signoff.toml")
                await supervisor.signoff("gateway", "--config", file, "gateway", env=environment)
                await supervisor.ready(within=300)
                behind = supervisor.children["gateway"].report["port"]
                secure, plain = free_port(), free_port()
                chain, private = certificate(folder)
                text = EXAMPLE.read_text()
                for here, there in (
                    ("127.0.0.1:8080", f"127.0.0.1:{behind}"),
                    ("listen 80;", f"listen 127.0.0.1:{plain};"),
                    ("listen 443 ", f"listen 127.0.0.1:{secure} "),
                    (f"/etc/letsencrypt/live/{NAME}/fullchain.pem", str(chain)),
                    (f"/etc/letsencrypt/live/{NAME}/privkey.pem", str(private)),
                ):
                    assert here in text
                    text = text.replace(here, there)
                with nginx(folder, text, secure):
                    yield Proxy(secure, chain), ledger, plain
        finally:
            await ledger.close()


@pytest.mark.soak
async def test_people_reach_the_page_through_the_example_of_nginx(tmp_path: Path) -> None:
    """TLS, secure cookies and the clients' own addresses work; metrics are not reachable."""
    async with behind_nginx(tmp_path) as (proxy, ledger, plain):
        async with proxy.browser() as browser:
            await _page(browser, ledger)
            for path in ("/metrics", "/readyz"):
                assert (await browser.get(path, extensions=SNI)).status_code == 404
            assert (await browser.get("/healthz", extensions=SNI)).status_code == 200
        async with httpx.AsyncClient(timeout=60) as http:
            answer = await http.get(f"http://127.0.0.1:{plain}/inbox/", headers={"Host": NAME})
            assert (answer.status_code, answer.headers["location"]) == (301, f"{ORIGIN}/inbox/")
        await _clients(proxy)


async def _page(browser: httpx.AsyncClient, ledger: Ledger) -> None:
    """Ask for a link, sign in, and watch the page update live."""
    form = {"address": "mara@example.com", "next": "/inbox/"}
    answer = await browser.post("/inbox/sign-in/link", data=form, extensions=SNI)
    assert answer.status_code == 200
    assert "Secure" in answer.headers["set-cookie"]
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert answer.headers["set-cookie"].startswith("__Host-")
    settings = InboxSettings(url=ORIGIN, secret_key=KEY)
    name = await Sessions(ledger, settings).begin("mara", how=How.LINK, also=Change())
    cookie = {"Cookie": f"__Host-signoff={name}"}
    answer = await browser.get("/inbox/", headers=cookie, extensions=SNI)
    assert answer.status_code == 200
    assert "No requests for you." in answer.text
    assert answer.headers["strict-transport-security"]
    live = re.search(r'data-live="([^"]+)"', answer.text)
    path = live[1].replace("&amp;", "&") if live else "/inbox/live"
    async with (
        asyncio.timeout(300),
        browser.stream("GET", path, headers=cookie, extensions=SNI) as stream,
    ):
        # nginx does not hold events back until the stream ends, as it does by default.
        assert "retry: 3000" in await anext(stream.aiter_text())


async def _clients(proxy: Proxy) -> None:
    """Wrong tokens from one address with forged headers block that address only."""
    async with proxy.browser("127.0.0.2") as guesser, proxy.browser("127.0.0.3") as other:
        for number in range(80):
            wrong = {
                "Authorization": f"Bearer wrong-{number}",
                "X-Forwarded-For": f"192.0.2.{number}",
            }
            answer = await guesser.get("/api/v1/approvals", headers=wrong, extensions=SNI)
            if answer.status_code == 429:
                break
        assert "invalid tokens" in answer.text
        wrong = {"Authorization": "Bearer wrong"}
        answer = await other.get("/api/v1/approvals", headers=wrong, extensions=SNI)
        assert answer.status_code == 401
