"""Every inbox page: accessible, narrow and wide, light and dark, and without other hosts."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from builders import CLEO, MARA, RILEY
from npm import packages
from running_inbox import OLGA, RunningInbox
from signoff.core.approvals.approval import Approval, Decision, State

DOCS = Path(__file__).parents[2] / "docs"
IMAGES = DOCS / "images" / "inbox"
AXE = b'{"dependencies": {"axe-core": "4.14.1"}}'
ALL = "axe.run({resultTypes: ['violations']})"
SEEN = """axe.run({resultTypes: ['violations'], runOnly: [
  'color-contrast', 'link-in-text-block', 'target-size', 'scrollable-region-focusable']})"""
"""The rules about sizes and colours; only these depend on the size and the colour scheme."""
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
SHAPES = {"phone": 360, "phone-dark": 360, "wide": 1280, "wide-dark": 1280}
SMALL = """
[...document.querySelectorAll('a, button, input, select, textarea, summary')]
  .filter((e) => e.checkVisibility() && e.type !== 'hidden' && !e.closest('p, .skip, .plainly'))
  .map((e) => [e.outerHTML.slice(0, 90), e.getBoundingClientRect()])
  .filter(([, box]) => box.height && (box.height < 24 || box.width < 24)).map(([e]) => e)"""
"""Targets of under 24 pixels (WCAG 2.2, 2.5.8), except for links in text."""

MOST_BYTES = 96_000
TALLEST = 1_200
"""The height in pixels of a picture of a long page."""

COMPARED = "I have compared three hotels, and took the one next to the venue. The fee is included."
SAID = (
    "The fair in Lisbon takes place in May. Two colleagues have spoken there before, and the early "
    "booking ends tonight, so I would book the stand now."
)
KEPT = (
    *("sign-in", "list", "approval", "form", "confirm", "over", "batch", "queues", "charts"),
    *("security", "away", "all"),
)
"""The pages that have a picture in the documentation."""


def ago(approval: Approval, hours: int) -> datetime:
    """Return the opening time of an approval that was opened some hours ago."""
    return approval.opened_at - timedelta(hours=hours)


async def history(at: RunningInbox) -> None:
    """Let some requests end."""
    for hours in range(1, 10):
        approval = await at.ask(amount=100 * hours, purpose="taxi")
        approval = await at.amend(approval, opened_at=ago(approval, hours))
        answer = at.office.decider.reject if hours % 4 == 0 else at.office.decider.approve
        await answer(approval.id, CLEO if hours % 2 else MARA, channel="email", reason="as agreed")


async def tour(at: RunningInbox) -> AsyncIterator[str]:
    """Open each page in turn, and yield its name."""
    tab, office = at.tab, at.office
    await at.enrol(MARA)
    await at.open()
    yield "sign-in"
    await at.put("#link-address", MARA.email)
    await at.press("form[action$='/sign-in/link'] button")
    yield "link-sent"
    link = await at.mailed()
    await tab.open(link)
    yield "link"
    await at.press("button.yes")
    yield "list-empty"
    await tab.open(link)
    yield "link-used"

    await history(at)
    big = await at.ask(amount=9000, purpose="A stand at the fair in Lisbon", cost_centre="EU-114")
    await at.amend(big, opened_at=ago(big, 2), said=SAID)
    for customer in ("Hansen & Sons", "Gómez S.L."):
        await at.ask(tool="remind_customer", customer=customer, invoice="2026-0417")
    plain = await at.ask(amount=2500, purpose="The conference of the finance department")
    plain = await at.amend(plain, opened_at=ago(plain, 1), said=COMPARED)
    days = await at.ask(
        tool="request_time_off",
        template={"approved_days": 0, "from": "2026-12-01", "paid": True, "note": ""},
        hint="May this employee take 5 days off? Say how many days you approve.",
        days=5,
    )
    long = await at.ask(tool="send_letter", text="Dear customer, " * 200, key="x" * 300)
    await at.open()
    await tab.find("h1", "Your approvals")
    yield "list"
    await at.open("/inbox/?q=nothing-like-it&sort=due")
    yield "list-nothing-fits"
    await at.open(plain)
    yield "approval"
    await tab.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    yield "approval-unfolded"
    await at.open(days)
    yield "form"
    await at.put("#field-0", "many")
    await at.press("form[aria-label='Your answer'] button.yes")
    yield "form-wrong"
    await at.open(long)
    yield "approval-long"
    await office.decider.approve(big.id, MARA, channel="email", reason="It pays for itself")
    await at.open(big)
    yield "confirm"
    await office.decider.reject(
        big.id, MARA, channel="email", reason="Not before the budget is out"
    )
    await at.open(big)
    yield "over"
    await at.open()
    await tab.look("document.querySelectorAll('.pick input').forEach((e) => { e.checked = true; })")
    await at.press("#batch .buttons button")
    yield "batch"
    await at.press("button.yes")
    yield "batch-done"
    for path in ("queues", "queues/finance", "ended", "away", "charts", "security"):
        await at.open(f"/inbox/{path}")
        yield path.replace("/", "-")
    for path in ("notifications", "offline", f"similar/{plain.id}"):
        await at.open(f"/inbox/{path}")
        yield path.partition("/")[0]
    late = await at.ask(amount=75, purpose="taxi")
    await at.amend(late, state=State.TIMED_OUT, decision=Decision(at=late.opened_at))
    await at.open(late)
    yield "timed-out"
    await at.open("/inbox/approvals/x")
    yield "not-found"
    await at.come_in(RILEY)
    await at.open("/inbox/asked")
    yield "asked"
    await at.open(plain)
    yield "requester"
    await at.come_in(OLGA)
    for path in ("all", "queues", "charts"):
        await at.open(f"/inbox/{path}")
        yield path if path == "all" else f"{path}-operator"
    await at.open(plain)
    yield "operator"


@pytest.mark.soak
@pytest.mark.asyncio(loop_scope="module")
async def test_every_page(at: RunningInbox) -> None:
    """No page breaks a rule of axe, is too small, overflows, or loads from elsewhere.

    SIGNOFF_WRITE_DOCS=1 also takes the pictures of the documentation.
    """
    script = (packages(AXE) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    found: list[tuple[object, ...]] = []
    tab, drawn = at.tab, bool(os.environ.get("SIGNOFF_WRITE_DOCS"))
    await tab.shape(360, 740, dark=False)
    async for name in tour(at):
        await tab.look(script)
        for shape, width in SHAPES.items():
            await tab.shape(width, 740, dark=shape.endswith("dark"))
            if drawn and name in KEPT:
                picture = await tab.picture(most=TALLEST)
                (IMAGES / f"{name}-{shape}.webp").write_bytes(picture)
            report = await tab.look(ALL if shape == "phone" else SEEN)
            # A report without passes means that axe has checked nothing.
            assert len(report["passes"]) > (10 if shape == "phone" else 0), (name, shape)
            for one in report["violations"]:
                places = [node["html"] for node in one["nodes"]]
                found.append((name, shape, one["id"], one["impact"], places))
            if await tab.look(OVERFLOWS):
                found.append((name, shape, "overflows"))
            found += [(name, shape, "small", one) for one in await tab.look(SMALL)]
    assert found == []
    assert blocked(at) == []
    assert fetched_elsewhere(at) == []


def blocked(at: RunningInbox) -> list[str]:
    """Return the errors of the browser, except for the gateway's own error statuses."""
    entries = [one["entry"]["text"] for one in at.tab.news("Log.entryAdded")]
    thrown = [str(one) for one in at.tab.news("Runtime.exceptionThrown")]
    ours = ("status of 404", "status of 410", "status of 422")
    return [one for one in entries if not any(status in one for status in ours)] + thrown


def fetched_elsewhere(at: RunningInbox) -> list[str]:
    """Return the requested addresses of other hosts; Chromium's own icons are data URLs."""
    ours = (f"{at.inbox.url}/inbox", "about:", "data:image/svg+xml;base64,")
    asked = {one["request"]["url"] for one in at.tab.news("Network.requestWillBeSent")}
    return sorted(one for one in asked if not one.startswith(ours))


def test_the_documentation_shows_every_picture() -> None:
    """Each picture is small, described and used in the how-to, in light and dark."""
    text = (DOCS / "how-to" / "use-the-inbox.md").read_text(encoding="utf-8")
    found = re.findall(
        r'<picture><source media="\(prefers-color-scheme: dark\)" '
        r'srcset="../images/inbox/([a-z-]+)-dark.webp">'
        r'<img src="../images/inbox/([a-z-]+).webp" width="\d+" alt="([^"]+)"></picture>',
        text,
    )
    assert all(dark == light for dark, light, _ in found)
    shown = {light for _, light, _ in found}
    assert shown == {f"{name}-{shape}" for name in KEPT for shape in ("phone", "wide")}
    sizes = {one.stem: one.stat().st_size for one in IMAGES.glob("*.webp")}
    assert max(sizes.values()) < MOST_BYTES
    assert set(sizes) == {f"{name}-{shape}" for name in KEPT for shape in SHAPES}
    assert min(len(alt) for _, _, alt in found) > len("A page of the inbox.")
