"""A turn that lost its lease and ends after the next turn has begun."""

from __future__ import annotations

from contextlib import ExitStack
from types import SimpleNamespace
from typing import cast

from google.adk.agents.callback_context import CallbackContext

from builders import NOON
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.run import Run
from signoff.worker.adk.guard.journals import Journals


async def test_the_journals_of_the_next_turn_stay(ledger: Ledger) -> None:
    """Each turn removes only its own journals."""
    journals = Journals(ledger)
    run = Run(id="run_1", app="a", user="u", session="s", message="m", submitted_at=NOON)

    def fence(change: Change) -> Change:
        return change

    session = SimpleNamespace(app_name="a", user_id="u", id="s")
    context = cast("CallbackContext", SimpleNamespace(session=session, invocation_id="i"))
    with ExitStack() as late:
        late.enter_context(journals.of(run, fence))
        with journals.of(run, fence):
            late.close()
            assert journals.of_callback(context, "callback") is not None
    assert journals.of_callback(context, "callback") is None
