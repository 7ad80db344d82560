"""The page of metrics: its audience, its limits, and equal values in charts and tables."""

from __future__ import annotations

import re
from datetime import timedelta
from xml.etree import ElementTree as ET

import httpx
import pytest

from browser import Browser
from builders import CLEO, MARA, RILEY, present
from channels.conftest import Channels
from signoff.core.directory.people import Directory, Role
from signoff.core.directory.queues import Queue
from signoff.core.policies.policy import Policy

AUDITOR = CLEO.model_copy(update={"roles": (Role.AUDITOR,)})
FINANCE = Policy(name="finance", ask=("queue:finance",), within="4d")
LEGAL = Policy(name="legal", ask=("queue:legal",), within="4d")


@pytest.fixture
def directory() -> Directory:
    """Mara is in one queue; Cleo is in the other and sees everything."""
    queues = [Queue(name="finance", members=("mara",)), Queue(name="legal", members=("cleo",))]
    return Directory([MARA, AUDITOR, RILEY], queues=queues)


@pytest.fixture
async def office(office: Channels) -> Channels:
    """Return decisions after one, two and three hours in one queue, and after ten in the other."""
    for policy, who, hours, yes in (
        (FINANCE, MARA, 1, True),
        (FINANCE, MARA, 2, True),
        (FINANCE, MARA, 3, False),
        (LEGAL, AUDITOR, 10, True),
    ):
        office.policies = (policy,)
        tool = "reimburse" if policy is FINANCE else "sign"
        approval, _ = await office.ask(tool=tool, amount=hours)
        office.clock.advance(timedelta(hours=hours))
        answer = office.decider.approve if yes else office.decider.reject
        await answer(approval.id, who, channel="email")
    office.policies = (FINANCE,)
    await office.ask(amount=9)
    return office


def rows(page: httpx.Response) -> list[list[str]]:
    """Return the rows of all tables as words."""
    found = re.findall(r"<tr>(.*?)</tr>", page.text, re.DOTALL)
    return [
        [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd].*?</t[hd]>", one)]
        for one in found
    ]


def _float(one: ET.Element, name: str) -> float:
    return float(one.get(name, "none"))


def bars(root: ET.Element) -> list[tuple[str, float]]:
    """Return the kinds and widths of the bars of a chart."""
    return [(present(one.get("class")), _float(one, "width")) for one in root.iter("rect")]


def drawings(page: httpx.Response) -> dict[str, ET.Element]:
    """Return the charts by their titles."""
    found = re.findall(r"<svg.*?</svg>", page.text, re.DOTALL)
    roots = [ET.fromstring(one) for one in found]
    return {root.findtext("title", ""): root for root in roots}


async def test_of_ones_own_queues(browser: Browser, office: Channels) -> None:
    """A member of a queue gets the metrics of that queue."""
    await browser.sign_in()
    page = await browser.get("/inbox/charts")
    found = rows(page)
    assert ["finance", "1", "0", "0"] in found
    assert ["finance", "3", "2h", "3h"] in found
    assert ["2026-03-02", "reimburse", "2", "1", "0", "0", "0"] in found
    assert "covers 3 requests of your queues among the 4 that ended last." in page.text
    assert "legal" not in page.text
    assert "sign<" not in page.text


async def test_of_everything(browser: Browser, office: Channels) -> None:
    """An auditor gets those of all queues."""
    await browser.sign_in(CLEO)
    found = rows(await browser.get("/inbox/charts"))
    assert ["legal", "1", "10h", "10h"] in found
    assert ["finance", "3", "2h", "3h"] in found
    assert ["2026-03-02", "sign", "1", "0", "0", "0", "0"] in found


async def test_charts_match_their_tables(browser: Browser, office: Channels) -> None:
    """Each chart has a name and a description, and its bars are as long as the values."""
    await browser.sign_in(CLEO)
    page = await browser.get("/inbox/charts")
    found = drawings(page)
    assert list(found) == [
        "Pending, by queue",
        "Time to decide, by queue",
        "Outcomes, by tool and week",
    ]
    for root in found.values():
        ids = present(root.get("aria-labelledby")).split()
        assert [present(root.find(f"*[@id='{one}']")).tag for one in ids] == ["title", "desc"]
        assert root.get("role") == "img"
        for rect in root.iter("rect"):
            assert 0 <= _float(rect, "x") + _float(rect, "width") <= 320.1
    took = [
        (one.get("class"), _float(one, "width"))
        for one in found["Time to decide, by queue"].iter("rect")
    ]
    assert took == [("p50", 64.0), ("p90", 96.0), ("p50", 320.0), ("p90", 320.0)]
    came = found["Outcomes, by tool and week"]
    assert [one.text for one in came.iter("text")] == ["02 Mar: reimburse: 3", "02 Mar: sign: 1"]
    assert bars(came) == [
        ("approved", 213.3),
        ("rejected", 106.7),
        ("approved", 106.7),
    ]
    assert " style=" not in page.text


async def test_a_person_without_a_queue_reads_why_metrics_are_missing(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page explains why there are no metrics."""
    queues = {"finance": Queue(name="finance", members=("cleo",))}
    monkeypatch.setattr(office.decider.directory, "queues", queues)
    await browser.sign_in()
    page = await browser.get("/inbox/charts")
    assert "You are in no queue." in page.text
    assert "<svg" not in page.text


async def test_so_many_are_looked_at(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says how many, and that there are older ones."""
    monkeypatch.setattr("signoff.channels.inbox.pages.metrics.LOOKED", 2)
    await browser.sign_in(CLEO)
    page = await browser.get("/inbox/charts")
    assert "covers 2 requests among the 2 that ended last; older ones are left out." in page.text
