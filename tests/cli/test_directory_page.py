"""The SCIM class in the documentation, unchanged, against an HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from signoff.cli.config.check import check
from signoff.cli.config.faults import ConfigErrors
from signoff.cli.config.settings import load_settings

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-a-directory.md"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"


def user(number: int) -> dict[str, Any]:
    """Return a user in the form of RFC 7643; all but the first report to the first."""
    boss = {ENTERPRISE: {"manager": {"value": "id-0"}}} if number else {}
    return {
        "id": f"id-{number}",
        "userName": f"user{number}@example.com",
        "displayName": f"User {number}",
        "active": number != 448,
        "timezone": "Europe/Berlin",
        "emails": [
            {"value": f"u{number}@example.net"},
            {"value": f"user{number}@example.com", "primary": True},
        ],
        **boss,
    }


class Service(BaseHTTPRequestHandler):
    """Serves 450 users in pages of 200 to clients with the token."""

    users: ClassVar = [user(number) for number in range(450)]

    def do_GET(self) -> None:
        """Answer one page."""
        asked = parse_qs(urlsplit(self.path).query)
        start, count = int(asked["startIndex"][0]), int(asked["count"][0])
        allowed = self.headers["Authorization"] == "Bearer secret"
        found = self.users[start - 1 : start - 1 + count]
        page = {"totalResults": len(self.users), "startIndex": start, "Resources": found}
        self.send_response(200 if allowed else 401)
        self.end_headers()
        self.wfile.write(json.dumps(page if allowed else {}).encode())

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Return the URL of the service."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def settings(folder: Path, url: str, token: str) -> Path:
    """Return settings that name the class of the page."""
    code = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    (folder / "scim_of_the_page.py").write_text(code, encoding="utf-8")
    file = folder / "signoff.toml"
    file.write_text(
        f"""
[agents]
folder = "."
[directory]
factory = "scim_of_the_page:Scim"
options = {{ url = "{url}", token = "{token}" }}
[[policies]]
name = "all"
ask = ["requester.manager"]
[default]
ask = ["user0"]
"""
    )
    return file


def test_the_class_of_the_page_brings_all_people(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three pages with managers and aliases are read; a wrong token is an error."""
    monkeypatch.syspath_prepend(tmp_path)
    found = load_settings(settings(tmp_path, url, "secret"))
    assert check(found) == []
    assert len(found.people) == 450
    last = found.everybody.find("U449@example.net")
    assert last is not None
    assert (last.id, last.manager, last.email) == ("user449", "user0", "user449@example.com")
    assert found.everybody.find("user448@example.com") is None
    assert [one.name for one in found.everybody.inactive] == ["User 448"]
    with pytest.raises(ConfigErrors, match="401"):
        load_settings(settings(tmp_path, url, "wrong"))
