"""A browser without scripts for the inbox page, and fixtures for its tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

import httpx
import pyotp
from pydantic import SecretStr

from builders import MARA
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Policy

ORIGIN = "https://approvals.example.com"
SETTINGS = InboxSettings(url=ORIGIN, secret_key=SecretStr("a key of thirty-two characters.."))
COOKIE = "__Host-signoff"
TWO_STEPS = Policy(name="expenses", ask=("mara", "cleo"), within="4h", second_step="true")


class _Forms(HTMLParser):
    """Reads the forms of a page: each action, with the fields and their values."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str]]] = []
        self._open = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect forms and the fields that a browser would send."""
        found = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((found["action"], {}))
            return
        if not self.forms:
            return
        fields = self.forms[-1][1]
        if tag == "input" and (
            found.get("type") not in {"radio", "checkbox"} or "checked" in found
        ):
            fields[found["name"]] = found.get("value", "")
        elif tag in {"select", "textarea"}:
            self._open = found["name"]
            if tag == "textarea":
                fields[self._open] = ""
        elif tag == "option" and self._open and ("selected" in found or self._open not in fields):
            fields[self._open] = found.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        """End a field."""
        if tag in {"select", "textarea"}:
            self._open = ""

    def handle_data(self, data: str) -> None:
        """Collect the text of a field without its first line end, as HTML requires."""
        if self._open and self.forms and self.lasttag == "textarea":
            self.forms[-1][1][self._open] += data.removeprefix("\n")


def forms_of(page: httpx.Response) -> dict[str, dict[str, str]]:
    """Return the fields of the forms of a page, by their actions."""
    parser = _Forms()
    parser.feed(page.text)
    return dict(parser.forms)


def totp_of(uri: str) -> pyotp.TOTP:
    """Return the authenticator app of an enrolment URI."""
    app = pyotp.parse_uri(uri)
    assert isinstance(app, pyotp.TOTP)
    return app


@dataclass
class Browser:
    """A browser on the inbox page; it does not follow redirects."""

    http: httpx.AsyncClient
    apps: dict[str, pyotp.OTP]
    ledger: Ledger
    taken: dict[str, int] = field(default_factory=dict)

    @property
    def session(self) -> str:
        """The session's name in the cookie; setting it makes this another browser."""
        found = (one.value or "" for one in self.http.cookies.jar if one.name == COOKIE)
        return next(found, "")

    @session.setter
    def session(self, name: str) -> None:
        self.http.cookies.clear()
        if name:
            self.http.cookies.set(COOKIE, name, domain="approvals.example.com", path="/")

    async def get(self, path: str) -> httpx.Response:
        """Follow a link."""
        return await self.http.get(path)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form with a browser's headers for this page."""
        usual = {"Origin": ORIGIN, "Sec-Fetch-Site": "same-origin"}
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(path, data=fields, headers=usual | sent)

    async def code(self, person: Person = MARA) -> str:
        """Return an unused code, of the current or the next half minute."""
        present = int((await self.ledger.now()).timestamp()) // 30
        step = max(present, self.taken.get(person.id, 0) + 1)
        self.taken[person.id] = step
        return str(self.apps[person.id].generate_otp(step))

    async def sign_in(self, person: Person = MARA, to: str = "/inbox/") -> httpx.Response:
        """Sign in as a person."""
        code = await self.code(person)
        form = {"next": to, "address": person.email, "code": code}
        answer = await self.post("/inbox/sign-in", form)
        assert answer.status_code == 303, answer.text
        return answer

    async def press(self, path: str, button: str = "approve", **fields: str) -> httpx.Response:
        """Open an approval and press one of its buttons."""
        page = await self.get(path)
        form = forms_of(page)[f"{path}/approve"]
        return await self.post(f"{path}/{button}", form | fields)
