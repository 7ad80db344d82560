"""One bad message, card or agent does not stop the others."""

from __future__ import annotations

import contextlib
from pathlib import Path

import aiosmtplib
import pytest

from deciding import over
from promises.plant import MANAGER, ROOT, plant
from signoff.broker.ledger.change import Change
from signoff.cli.demo import dev_mailbox
from signoff.core.approvals.events import What

BOMBS = (
    b"From: " + b"(" * 5000 + b"\r\n\r\napprove\r\n",
    b"\x00\xff\xfe" * 1000,
    b"Content-Type: multipart/mixed; boundary=x\r\n\r\n" + b"--x\r\n\r\na\r\n" * 200,
    b"Subject: =?utf-8?b?" + b"A" * 20_000 + b"?=\r\n\r\n" + b"On " + b"a " * 50_000,
    b"From: mara@example.com\r\nContent-Type: text/plain; charset=no-such\r\n\r\n\xff\xff",
)


@pytest.mark.soak
@pytest.mark.promise
async def test_run_completes_beside_mail_bombs_broken_agents_and_invalid_work(
    tmp_path: Path,
) -> None:
    """A normal run completes beside mail bombs, a broken agent and work without a record."""
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "finance").symlink_to(ROOT / "examples" / "agents" / "finance")
    (agents / "broken").mkdir()
    (agents / "broken" / "agent.py").write_text("raise RuntimeError('no such luck')\n")
    async with plant(tmp_path, "worker", "channels", "gateway", agents=agents) as here:
        decider, ledger = over(here.parts.decisions), here.parts.ledger
        broken = await decider.submit("broken", "go", user="riley@example.com")
        poison = Change()
        for stage in ("run.finance", "resume.finance", "route", "intake", "deliver.email"):
            poison.send_raw(stage, f"poison-{stage}", {"run": "run_none", "approval": "ap_none"})
        await ledger.commit(poison)
        run = await decider.submit("finance", "Reimburse me $2500", user="riley@example.com")
        card = await here.mailbox.wait_for(lambda mail: "+" in str(mail["Reply-To"]))
        for bomb in BOMBS:
            # A message that the gateway refuses does no harm either.
            with contextlib.suppress(aiosmtplib.SMTPDataError):
                await aiosmtplib.send(
                    bomb,
                    sender=MANAGER,
                    recipients=[str(card["Reply-To"])],
                    hostname="127.0.0.1",
                    port=here.inbound,
                    start_tls=False,
                )
        await dev_mailbox.reply(card, "approve", MANAGER, host="127.0.0.1", port=here.inbound)
        ends = await here.ends([run.id, broken.id])
        assert ends[run.id].what is What.COMPLETED
        assert ends[broken.id].what is What.FAILED
        assert "no such luck" in ends[broken.id].why
        assert sum(here.executions().values()) == 1
        later = await decider.submit("finance", "Reimburse me $70", user="riley@example.com")
        assert (await here.ends([later.id]))[later.id].what is What.COMPLETED
