"""People with roles for the tests of the inbox page, and their office."""

from __future__ import annotations

from typing import Any

import pyotp

from browser import SETTINGS, Browser, forms_of
from builders import CLEO, MARA, RILEY
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.approval import Approval
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.policies.policy import Policy

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
OLGA = Person(id="olga", name="Olga Hein", email="olga@example.com", roles=(Role.OPERATOR,))
ADA = Person(id="ada", name="Ada Kern", email="ada@example.com", roles=(Role.AUDITOR,))
CROWD = Directory([MARA, CLEO, RILEY, DAN, OLGA, ADA])
PLAIN = Policy(name="plain", ask=("mara", "cleo"), within="4h")
MOVES = (
    *("approve", "reject", "claim", "release", "reassign", "comment", "ask", "answer"),
    *("withdraw", "extend", "remind"),
)


async def enter(browser: Browser, person: Person) -> Browser:
    """Sign a person in, who gets an authenticator app if they have none."""
    if person.id not in browser.apps:
        uri = await Factors(browser.ledger, SETTINGS.secret_key).enroll(person, by="test")
        browser.apps[person.id] = pyotp.parse_uri(uri)
    await browser.sign_in(person)
    return browser


async def send(browser: Browser, approval: Approval, move: str, **fields: str) -> Any:
    """Load the page of an approval and send one of its forms, even one that has no button."""
    path = page_of(approval.id)
    forms = forms_of(await browser.get(path))
    action = "approve" if move == "reject" else move
    form = forms.get(f"{path}/{action}")
    if form is None:
        form = await hidden(browser, approval)
    return await browser.post(f"{path}/{move}", form | fields)


async def hidden(browser: Browser, approval: Approval) -> dict[str, str]:
    """Return the hidden fields of a form about an approval."""
    csrf = forms_of(await browser.get("/inbox/"))["/inbox/sign-out"]["csrf"]
    return {"csrf": csrf, "digest": approval.digest, "once": "A" * 16}
