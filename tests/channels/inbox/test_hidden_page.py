"""The inbox page shows no value that a policy hides."""

from __future__ import annotations

from browser import Browser
from builders import MARA
from channels.conftest import Channels
from deciding import Decider
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.moves import Actor, Approve
from signoff.core.policies.policy import Policy

IBAN = "DE89370400440532013000"


async def test_the_page_hides_hidden_values(browser: Browser, office: Channels) -> None:
    """This holds for its lists and the request's page, before and after the decision."""
    office.policies = (Policy(name="p", ask=("mara",), hide=("iban",), title="Pay {args.to}"),)
    approval, _ = await office.ask(tool="pay", to="Lee", iban=IBAN, hint=f"Pay {IBAN}")
    path = f"/inbox/approvals/{approval.id}"
    await browser.sign_in(to=path)
    for here in (path, "/inbox/"):
        page = await browser.get(here)
        assert page.status_code == 200
        assert IBAN not in page.text
        assert "Pay Lee, asked by Riley Voss" in page.text
    await take(office.decider, approval)
    assert IBAN not in (await browser.get(path)).text


async def take(decider: Decider, approval: Approval) -> None:
    """Approve it as Mara on the command line."""
    (await decider.take(approval.id, Approve(reason="ok"), Actor(MARA, "cli"))).approval_or_raise()
