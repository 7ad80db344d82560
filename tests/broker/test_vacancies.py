"""The alarm about vacant seats."""

from __future__ import annotations

from datetime import timedelta

from builders import CLEO, MARA, RILEY
from deciding import Decider
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.timers.vacancies import Vacancies
from signoff.core.approvals.events import Event, What
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Fallback, Policy


async def test_each_vacant_seat_is_reported_once(ledger: Ledger) -> None:
    """The first process to see it reports it; it is reported again if it was filled meanwhile."""
    directory = Directory([MARA, CLEO, RILEY])
    decider = Decider(ledger, directory)
    rules = [Policy(name="p", ask=("mara",))], Fallback(ask=("cleo",))
    one, other = (Vacancies(Decider(ledger, directory).roster, *rules) for _ in range(2))
    assert await one.once() == []
    today = MARA.day(await ledger.now())
    absence = Absence(start=today, end=today + timedelta(days=2))
    await decider.people.leave(MARA, absence, by="test", more={})
    assert [found.seat for found in await one.once()] == ["mara"]
    assert await other.once() == []
    await decider.people.come_back(MARA, by="test", more={})
    assert await other.once() == []
    await decider.people.leave(MARA, absence, by="test", more={})
    assert [found.seat for found in await one.once()] == ["mara"]
    events = [Event.model_validate_json(text) async for _, text, _ in audit.entries(ledger.store)]
    told = [event for event in events if event.what is What.VACANT]
    assert [event.more["seat"] for event in told] == ["mara", "mara"]
    assert "Mara Lind is away" in told[0].why
