"""Slack with real processes: decisions, kills, and many clicks on one button."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter
from contextlib import suppress
from email.message import EmailMessage
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.slack.office import MARA_AT, click_on, view_submission
from ports import free_port
from promises.plant import MANAGER
from promises.slack_office import HERE, SlackOffice, slack_office
from signoff.broker import stages
from signoff.broker.ledger.follow import follow
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What

CLICKS = 200


@pytest.mark.soak
@pytest.mark.promise
async def test_every_channel_decides_and_updates_all_slack_cards_once(tmp_path: Path) -> None:
    """Buttons, modals, mail and the command line decide; the agent resumes, all copies change."""
    async with slack_office(tmp_path, "worker", "channels", "gateway", socket=True) as office:
        slack, plant = office.slack, office.plant
        await slack.until(lambda: len(slack.sockets) == 2)
        runs: list[str] = []
        cards = []

        run, _, card = await office.asks("finance", "Reimburse me $2500 for one")
        await slack.push(click_on(card, "approve"), envelope="one")
        assert "one" in await office.over(card) or "2500" in await office.over(card)
        runs.append(run)
        cards.append(card)

        run, _, card = await office.asks("finance", "Reimburse me $2600 for two")
        await slack.push(click_on(card, "reject"), envelope="two")
        reason = {"reason": {"type": "plain_text_input", "value": "a train is cheaper"}}
        sent = view_submission(slack.views[-1], reason, MARA_AT)
        await slack.push(sent, envelope="two-modal", at=1)
        # The agent's last message shows that the model has read the reason.
        assert "a train is cheaper" in await office.over(card)
        runs.append(run)
        cards.append(card)

        run, _, card = await office.asks("time_off", "I need 5 days off")
        await slack.push(click_on(card, "approve"), envelope="three")
        for value, errors in (("many", True), ("3", False)):
            days = {"field.0": {"type": "number_input", "value": value}}
            sent = view_submission(slack.views[-1], days, MARA_AT)
            ack = await slack.push(sent, envelope=f"three-{value}")
            assert ("payload" in ack) is errors
        assert "3" in await office.over(card)
        runs.append(run)
        cards.append(card)

        run, approval, card = await office.asks("finance", "Reimburse me $2700 for four")
        mail = await plant.mailbox.wait_for(lambda one: _asks_about(one, approval))
        await dev_mailbox.reply(mail, "approve", MANAGER, host="127.0.0.1", port=plant.inbound)
        await office.over(card)
        runs.append(run)
        cards.append(card)

        run, approval, card = await office.asks("finance", "Reimburse me $2800 for five")
        command = [sys.executable, "-m", "signoff.cli", "approvals", "approve", approval]
        child = await plant.supervisor.start(
            "cli", [*command, "--as", "mara"], env=plant.environment
        )
        await child.ended.wait()
        assert child.code == 0, list(child.tail)
        await office.over(card)
        runs.append(run)
        cards.append(card)

        ends = await plant.ends(runs)
        assert {end.what for end in ends.values()} == {What.COMPLETED}
        assert [card["edits"] for card in cards] == [1] * len(cards)
        assert [len(office.thread(card)) for card in cards] == [1] * len(cards)
        # Each card also went out by mail; an outcome follows each mail.
        asked = [one for one in plant.mailbox.received if "+" in str(one["Reply-To"])]
        for one in asked[:4]:
            await plant.mailbox.wait_for(partial(_answers, one))
        assert sum(plant.executions().values()) == 3
        await _stopped_quietly(office, "gateway", "channels")


def _asks_about(mail: EmailMessage, approval: str) -> bool:
    return "+" in str(mail["Reply-To"]) and approval in mail.as_string()


def _answers(card: EmailMessage, mail: EmailMessage) -> bool:
    return str(mail["In-Reply-To"]) == str(card["Message-ID"])


async def _stopped_quietly(office: SlackOffice, *names: str) -> None:
    supervisor = office.plant.supervisor
    tails = {name: supervisor.children[name].tail for name in names}
    await office.plant.stop(*names)
    for name, tail in tails.items():
        text = "\n".join(tail)
        assert '"stopped"' in text, (name, text)
        for word in ("Unclosed", "Traceback", "never retrieved", "was destroyed"):
            assert word not in text, (name, text)


@pytest.mark.promise
@pytest.mark.soak
async def test_killed_processes_and_many_clicks_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """Kills around a click or between a post and its record lose nothing; 200 clicks count once."""
    async with slack_office(tmp_path, "worker", "channels", "gateway") as office:
        first = await _gateway_dies_before_a_click_counts(office)
        await _gateway_dies_after_a_click_has_counted(office)
        await _channels_die_between_a_post_and_its_record(office)
        # A card from before the kills still gets an answer.
        before = len(office.slack.whispers)
        assert (await office.post(click_on(first, "approve")))[0] == 200
        await office.slack.until(lambda: len(office.slack.whispers) > before)
        await _many_hands(office)
        assert max(office.plant.executions().values()) == 1


async def _gateway_dies_before_a_click_counts(office: SlackOffice) -> dict[str, Any]:
    run, approval, card = await office.asks("finance", "Reimburse me $2500 for before")
    old = {**card}
    office.slack.failures["auth.test"] = ["held"]
    click = click_on(card, "approve")
    pressed = asyncio.create_task(office.post(click))
    await office.slack.until(lambda: office.slack.called("auth.test"))
    await office.plant.kill("gateway")
    with pytest.raises(aiohttp.ClientError):
        await pressed
    office.slack.gate.set()
    assert (await office.approval(approval)).state is State.PENDING
    assert (await office.post(click))[0] == 200
    assert (await office.approval(approval)).state is State.APPROVED
    await office.over(card)
    assert (await office.plant.ends([run]))[run].what is What.COMPLETED
    return old


async def _gateway_dies_after_a_click_has_counted(office: SlackOffice) -> None:
    run, approval, card = await office.asks("finance", "Reimburse me $2500 for after")
    click = click_on(card, "approve")
    before = len(office.slack.whispers)
    pressed = asyncio.create_task(office.post(click))
    async for event in follow(office.plant.parts.ledger.store, subject=approval):
        if event.what is What.APPROVED:
            office.plant.supervisor.children["gateway"].signal(signal.SIGKILL)
            break
    with suppress(aiohttp.ClientError):
        await pressed
    await office.plant.kill("gateway")
    # A user without an answer clicks again: it is the same click, so no notice goes out.
    assert (await office.post(click))[0] == 200
    await office.over(card)
    assert (await office.plant.ends([run]))[run].what is What.COMPLETED
    assert len(office.slack.whispers) == before


async def _channels_die_between_a_post_and_its_record(office: SlackOffice) -> None:
    office.slack.gate.clear()
    office.slack.failures["chat.postMessage"] = ["held"]
    run, approval, card = await office.asks("finance", "Reimburse me $2500 for between")
    assert not (await office.approval(approval)).asked[0].receipt
    await office.plant.kill("channels")
    office.slack.gate.set()
    await office.plant.end_leases(stages.deliver("slack"))
    async for event in follow(office.plant.parts.ledger.store, subject=approval):
        if event.what is What.DELIVERED and event.by == "slack":
            break
    there = (await office.approval(approval)).asked[0]
    assert (there.receipt, there.copy_state) == (f"{HERE}/{card['ts']}", "reconciled")
    posted = [one for one in office.slack.cards(HERE) if approval in str(one.get("metadata"))]
    assert len(posted) == 1
    assert (await office.post(click_on(card, "approve")))[0] == 200
    await office.over(card)
    assert (await office.plant.ends([run]))[run].what is What.COMPLETED


async def _many_hands(office: SlackOffice) -> None:
    plant, slack = office.plant, office.slack
    elsewhere = {"SIGNOFF_EMAIL__INBOUND__PORT": str(free_port())}
    await plant.supervisor.signoff("gateway-2", "gateway", env=plant.environment | elsewhere)
    await plant.supervisor.ready("gateway-2", within=300)
    run, approval, card = await office.asks("finance", "Reimburse me $2500 for many")
    before = len(slack.whispers)
    answers = await asyncio.gather(
        *(
            office.post(
                click_on(card, "approve", at=f"{number}.0"),
                gateway=("gateway", "gateway-2")[number % 2],
            )
            for number in range(CLICKS)
        )
    )
    assert Counter(status for status, _ in answers) == {200: CLICKS}
    await office.over(card)
    await slack.until(lambda: len(slack.whispers) - before >= CLICKS - 1)
    assert len(slack.whispers) - before == CLICKS - 1
    assert all(one["user"] == MARA_AT for one in slack.whispers[before:])
    assert card["edits"] == 1
    assert (await plant.ends([run]))[run].what is What.COMPLETED
    assert (await office.approval(approval)).decision is not None
