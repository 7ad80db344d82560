"""What the gateway serves, by its settings."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from signoff.cli.composition.gateway import assemble
from signoff.cli.composition.parts import build
from signoff.cli.config.settings import load_settings

INBOX = """
[inbox]
url = "https://approvals.example.com"
secret_key = "a key of thirty-two characters.."
"""


@pytest.mark.parametrize(("more", "status"), [("", 404), (INBOX, 200)])
async def test_the_inbox_page_is_served_where_it_is_set(
    tmp_path: Path, redis_url: str, prefix: str, more: str, status: int
) -> None:
    """Without [inbox] there is nothing to see; with it there is the form to sign in."""
    file = tmp_path / "signoff.toml"
    file.write_text(f'[redis]\nurl = "{redis_url}"\nprefix = "{prefix}"\n{more}')
    parts = build(load_settings(file))
    app, _ = assemble(parts)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        assert (await http.get("/inbox/sign-in")).status_code == status
    await parts.ledger.close()
