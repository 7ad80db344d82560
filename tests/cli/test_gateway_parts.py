"""The parts that the gateway serves, depending on its settings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

from ports import free_port
from signoff.broker.monitoring.exposition import Metrics
from signoff.cli.composition.parts import build
from signoff.cli.config.settings import load_settings
from signoff.cli.gateway import assemble

INBOX = """
[inbox]
url = "https://approvals.example.com"
secret_key = "a key of thirty-two characters.."
"""


@pytest.mark.parametrize(("more", "status"), [("", 404), (INBOX, 200)])
async def test_inbox_page_is_served_only_when_configured(
    tmp_path: Path, redis_url: str, prefix: str, more: str, status: int
) -> None:
    """Without [inbox] there is no page; with it, there is a sign-in form."""
    file = tmp_path / "signoff.toml"
    file.write_text(f'[redis]\nurl = "{redis_url}"\nprefix = "{prefix}"\n{more}')
    parts = build(load_settings(file))
    app, _ = assemble(parts)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        assert (await http.get("/inbox/sign-in")).status_code == status
    await parts.ledger.close()


async def test_an_address_that_leads_nowhere_is_a_page_below_the_inbox(
    tmp_path: Path, redis_url: str, prefix: str
) -> None:
    """People get a page with a link back, programs a problem document; a wrong method gets 405."""
    file = tmp_path / "signoff.toml"
    file.write_text(f'[redis]\nurl = "{redis_url}"\nprefix = "{prefix}"\n{INBOX}')
    parts = build(load_settings(file))
    app, _ = assemble(parts)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        page = await http.get("/inbox/approvals/ap_1/2/3")
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert 'href="/inbox/"' in page.text
        assert "ap_1" not in page.text
        for path in ("/inboxes", "/other"):
            other = await http.get(path)
            assert (other.status_code, other.json()["status"]) == (404, 404)
        wrong = await http.put("/inbox/sign-in")
        assert (wrong.status_code, wrong.json()["status"]) == (405, 405)
    await parts.ledger.close()


async def test_a_mailbox_that_cannot_be_read_is_in_the_metrics(
    tmp_path: Path, redis_url: str, prefix: str
) -> None:
    """An alert fires for the way in that receives no answers; the others are ok."""
    file = tmp_path / "signoff.toml"
    file.write_text(
        f"""
        [redis]
        url = "{redis_url}"
        prefix = "{prefix}"
        [email.inbound]
        port = {free_port()}
        [email.imap]
        host = "127.0.0.1"
        port = {free_port()}
        username = "approvals"
        password = "secret"
        """
    )
    parts = build(load_settings(file))
    app, _ = assemble(parts, Metrics("gateway"))
    transport = httpx.ASGITransport(app)
    async with (
        asyncio.timeout(60),
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://gateway") as http,
    ):
        while 'signoff_gateway_ok{check="email.imap"} 0.0' not in (
            text := (await http.get("/metrics")).text
        ):
            pass
    assert 'signoff_gateway_ok{check="email.inbound"} 1.0' in text
    await parts.ledger.close()
