"""A late answer does not count, and two people never decide one request differently."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from deciding import over
from promises.plant import MANAGER, plant
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.submit import submit
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import State
from signoff.core.base.errors import Conflict, DecisionRefused


@pytest.mark.promise
@pytest.mark.soak
async def test_reply_after_the_deadline_is_refused_as_too_late(tmp_path: Path) -> None:
    """After the deadline the run continues without an approval; a reply changes nothing."""
    async with plant(tmp_path, "worker", "channels", "gateway") as here:
        run = await submit(
            here.parts.ledger, "finance", "Reimburse me $2500", user="riley@example.com"
        )
        card = await here.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
        (approval,) = await here.parts.ledger.pending()
        await _at_its_deadline(here.parts.ledger, approval.id)
        ends = await here.ends([run.id])
        assert ends[run.id].what is What.COMPLETED
        await dev_mailbox.reply(card, "approve", MANAGER, host="127.0.0.1", port=here.inbound)
        async for event in follow(here.parts.ledger.store, subject=run.id):
            if event.what is What.REFUSED_ANSWER:
                break
        run = await here.parts.ledger.run(run.id)
        (approval,) = await here.parts.ledger.approvals(run.approvals)
        assert approval.state is State.TIMED_OUT
        assert here.executions() == {}
        assert "nobody answered in time" in run.text


async def _at_its_deadline(ledger: Ledger, approval_id: str) -> None:
    """Move the deadline of an approval to now."""
    while True:
        approval = await ledger.approval(approval_id)
        past = approval.model_copy(update={"deadline": await ledger.now()})
        with suppress(Conflict):
            await ledger.commit(Change().put(past, was=approval))
            return


@pytest.mark.soak
@pytest.mark.promise
async def test_simultaneous_approvals_and_rejections_make_one_decision(tmp_path: Path) -> None:
    """Eight answers by mail and eight by command line arrive together, and one counts."""
    async with plant(tmp_path, "worker", "channels", "gateway") as here:
        run = await submit(
            here.parts.ledger, "finance", "Reimburse me $2500", user="riley@example.com"
        )
        card = await here.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
        (approval,) = await here.parts.ledger.pending()
        mara = here.parts.decisions.directory.get("mara")
        assert mara is not None

        async def by_mail(word: str) -> None:
            await dev_mailbox.reply(card, word, MANAGER, host="127.0.0.1", port=here.inbound)

        async def by_hand(verb: str) -> str:
            try:
                await getattr(over(here.parts.decisions), verb)(approval.id, mara, channel="cli")
            except DecisionRefused:
                return "refused"
            return verb

        _, *hands = await asyncio.gather(
            asyncio.gather(*(by_mail(word) for word in ("approve", "reject") * 4)),
            *(by_hand(verb) for verb in ("approve", "reject") * 4),
        )
        ends = await here.ends([run.id])
        assert ends[run.id].what is What.COMPLETED
        decided = [
            event
            for event in await here.parts.ledger.history(approval.id)
            if event.what in {What.APPROVED, What.REJECTED}
        ]
        assert len(decided) == 1
        assert len(set(hands) - {"refused"}) <= 1
        runs = sum(here.executions().values())
        assert runs == (1 if decided[0].what is What.APPROVED else 0)
