"""A conversation by mail: real processes, and a person who answers the latest mail."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

import pytest

from promises.plant import plant
from signoff.broker.submit import submit
from signoff.core.approvals.events import What


@pytest.mark.soak
async def test_reply_to_the_question_about_an_unclear_answer_decides(tmp_path: Path) -> None:
    """A person answers unclearly twice, each time to the latest mail, and then clearly."""
    async with plant(tmp_path, "worker", "channels", "gateway") as here:
        run = await submit(
            here.parts.ledger, "finance", "Reimburse me $2500 for a desk", user="riley@example.com"
        )
        answered: list[EmailMessage] = []
        for text in ("( ) approve", "perhaps", "approve"):
            latest = await here.mailbox.wait_for(
                lambda mail: "+" in str(mail["Reply-To"]) and mail not in answered
            )
            answered.append(latest)
            await here.answer(latest, text)
        assert (await here.ends([run.id]))[run.id].what is What.COMPLETED
        assert here.executions().total() == 1
