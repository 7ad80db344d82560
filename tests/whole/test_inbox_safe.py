"""The inbox page with hostile texts, and with very many requests."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from builders import CLEO, MARA
from running_inbox import NAMED, OLGA, RunningInbox
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval

pytestmark = pytest.mark.asyncio(loop_scope="module")

MANY = 10_000
MOST_BYTES = 100_000
HARM = (
    '"><script>hacked()</script><img src=/hacked onerror=hacked()>'
    "'><svg onload=hacked()></textarea></title></style><iframe src='javascript:hacked()'>"
    "<a href='javascript:hacked()' onfocus=hacked() autofocus>x</a>{{ 7 * 7 }}"
)
"""Texts that would run if a page contained them unescaped."""

TRAP = "window.harm = 0; window.hacked = () => { window.harm += 1; };"
SHOWN = ("/inbox/queues", "/inbox/charts", "/inbox/all", "/inbox/away", f"/inbox/?q={quote(HARM)}")
OURS = """
[...document.querySelectorAll('script, img, iframe, svg, a, [autofocus]')].filter((e) =>
  !(e.matches('script') && e.src.startsWith(location.origin + '/inbox/') && !e.text)
  && !(e.matches('a') && (e.getAttribute('href') || '').startsWith('/inbox/')
       || e.matches('a[href^="#"]'))
  && !e.matches('svg.chart')).map((e) => e.outerHTML)"""
"""An expression that finds elements of other kinds than Signoff's own."""


async def harmful(at: RunningInbox) -> tuple[Approval, Approval]:
    """Return a pending and an ended request with hostile text in every free field."""
    parts = {"tool": HARM[:60], "hint": HARM, "user": "named", HARM: HARM, "amount": 1}
    waits = await at.ask(template={"note": HARM, HARM: HARM}, **parts)
    over = await at.ask(**parts)
    waits, over = await at.amend(waits, said=HARM), await at.amend(over, said=HARM)
    decider = at.office.decider
    await decider.made(waits.id, moves.Comment(text=HARM), NAMED)
    await decider.made(waits.id, moves.AskBack(text=HARM), MARA)
    return waits, await decider.reject(over.id, CLEO, channel="email", reason=HARM)


@pytest.mark.soak
async def test_hostile_text_never_runs_as_a_script(at: RunningInbox) -> None:
    """Each page shows hostile text as text, even without the Content-Security-Policy."""
    await at.tab.do("Page.setBypassCSP", enabled=True)
    await at.tab.do("Page.addScriptToEvaluateOnNewDocument", source=TRAP)
    waits, over = await harmful(at)
    seen = 0
    for person in (MARA, NAMED, OLGA):
        await at.come_in(person)
        for path in (waits, over, "/inbox/", "/inbox/asked", "/inbox/ended", *SHOWN):
            await at.open(path)
            seen += await at.tab.look("document.body.textContent.split('hacked()').length - 1")
            assert await at.tab.look(OURS) == [], path
            assert await at.tab.look("window.harm") == 0, path
    assert seen > 50
    wanted = [one["request"]["url"] for one in at.tab.news("Network.requestWillBeSent")]
    assert not [one for one in wanted if one.endswith("/hacked")]
    assert at.tab.news("Page.javascriptDialogOpening") == []


async def test_the_first_page_is_light_however_much_waits(at: RunningInbox) -> None:
    """With 10,000 requests, the list is under 100 KB with its scripts and styles."""
    await at.heap(await at.ask(amount=2500, purpose="The conference"), MANY - 1)
    await at.come_in(MARA)
    await at.tab.shape(360, 740, dark=False)
    await at.tab.do("Network.setCacheDisabled", cacheDisabled=True)
    at.tab.told.clear()
    await at.open()
    await at.tab.find("p", "10,000 pending for you.")
    loaded = at.tab.news("Network.loadingFinished")
    assert len(loaded) >= len(("page", "style.css", "htmx.min.js", "live.js"))
    assert sum(one["encodedDataLength"] for one in loaded) < MOST_BYTES
    assert await at.tab.look("document.querySelectorAll('.list > li').length") == 25
