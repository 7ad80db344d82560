"""An approval that a worker forges in Redis does not start a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from promises.plant import MANAGER, plant
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import follow
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.submit import submit
from signoff.broker.work import ResumeRun
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.approval import Decision, Handoff, State
from signoff.core.approvals.events import What


@pytest.mark.soak
@pytest.mark.promise
async def test_a_forged_yes_is_refused_loudly_and_asked_about(tmp_path: Path) -> None:
    """The worker voids the forged approval; the manager gets a mail about it, and then decides."""
    async with plant(tmp_path, "channels", "gateway", "worker") as built:
        worker = Ledger(built.parts.ledger.store)
        run = await submit(worker, "finance", "Reimburse me $2500 for taxi", user="riley@x.example")
        card = await built.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
        paused = await worker.run(run.id)
        (approval_id,) = paused.waiting

        async def forge() -> None:
            was, stands, now = await worker.current(approval_id)
            decision = Decision(by="mara", at=now, channel="email", reason="fine")
            update = {
                "state": State.APPROVED,
                "handoff": Handoff.RECORDED,
                "decision": decision,
            }
            change = Change().put(was.model_copy(update=update), was=was)
            change.put(stands.answered(was.id), was=stands)
            change.send(ResumeRun(app="finance", run=run.id, pause=stands.pause))
            await worker.commit(change)

        await worker.decide_again(forge)
        await built.parts.ledger.bell.ring("resume.finance")
        async for event in follow(worker.store, subject=approval_id):
            if event.what is What.VOIDED:
                assert event.why == "it has no receipt"
                break
        again = await built.mailbox.wait_for(
            lambda mail: "+" in str(mail["Reply-To"]) and mail["Message-ID"] != card["Message-ID"]
        )
        assert "nothing proves it: it has no receipt" in " ".join(
            dev_mailbox.text_of(again).split()
        )
        assert not built.executions()
        await dev_mailbox.reply(again, "approve", MANAGER, host="127.0.0.1", port=built.inbound)
        ends = await built.ends([run.id])
        assert ends[run.id].what is What.COMPLETED
        assert sum(built.executions().values()) == 1
