"""Vacant seats are named with the missing person."""

from __future__ import annotations

from datetime import date, datetime, timedelta

from builders import CLEO, MARA, NOON, RILEY
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.directory.queues import Queue
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.vacancies import vacancies


def away(person: Person, delegate: str = "") -> Person:
    """Return a person who is away for the day."""
    days = Absence(start=date(2026, 3, 2), end=date(2026, 3, 2), delegate=delegate)
    return person.model_copy(update={"away": (days,)})


def found(directory: Directory, *ask: str, ahead: timedelta = timedelta()) -> dict[str, str]:
    """Return the vacant seats of a policy that asks these references, with the reasons."""
    policies = [Policy(name="p", ask=ask)]
    seats = vacancies(policies, Fallback(ask=("cleo",)), directory, now=NOON, ahead=ahead)
    return {one.seat: one.why for one in seats}


def test_no_vacancy_is_reported_while_every_seat_has_a_person() -> None:
    """A delegate fills a seat too."""
    queue = Queue(name="finance", members=("mara",))
    directory = Directory([away(MARA, "cleo"), CLEO, RILEY], queues=[queue])
    assert found(directory, "mara", "queue:finance") == {}


def test_absent_people_and_empty_queues_are_reported_as_vacant() -> None:
    """Absent without a delegate, or unknown; queues that no policy asks are checked too."""
    queue = Queue(name="finance", members=("mara", "long-gone"))
    directory = Directory([away(MARA), CLEO, RILEY], queues=[queue])
    seats = found(directory, "mara")
    assert seats["mara"] == "Mara Lind is away until 2026-03-02"
    assert "long-gone (queue:finance) is not in the directory" in seats["queue:finance"]


def test_a_gap_in_a_schedule_is_seen_ahead() -> None:
    """Its only person is away from tomorrow; the message gives the date."""
    rota = Schedule(
        name="on-call",
        people=("mara",),
        start=datetime(2026, 1, 5, 9),  # noqa: DTZ001 -- as the settings write it
        every=timedelta(days=7),
    )
    later = Absence(start=date(2026, 3, 3), end=date(2026, 3, 4))
    directory = Directory([MARA.model_copy(update={"away": (later,)}), CLEO], schedules=[rota])
    assert found(directory, "schedule:on-call") == {}
    seats = found(directory, "schedule:on-call", ahead=timedelta(days=7))
    assert seats["schedule:on-call"].startswith("from Tue 3 Mar 2026, 00:00 UTC on")


def test_a_gap_of_a_few_minutes_is_seen_ahead() -> None:
    """One event of a calendar ends ten minutes before the next one begins."""
    event = "BEGIN:VEVENT\nUID:{0}\nDTSTART:{0}\nDTEND:{1}\nSUMMARY:mara\nEND:VEVENT\n"
    events = [
        event.format("20260301T000000Z", "20260304T081500Z"),
        event.format("20260304T082500Z", "20260401T000000Z"),
    ]
    text = f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{''.join(events)}END:VCALENDAR\n"
    rota = Schedule(name="on-call", calendar=text)
    directory = Directory([MARA, CLEO], schedules=[rota])
    seats = found(directory, "schedule:on-call", ahead=timedelta(days=7))
    assert seats["schedule:on-call"].startswith("from Wed 4 Mar 2026, 08:15 UTC on nobody")


def test_people_without_a_manager() -> None:
    """The people at the top have no manager and are not named."""
    riley = RILEY.model_copy(update={"manager": "mara"})
    directory = Directory([MARA, CLEO, riley])
    assert found(directory, "requester.manager") == {
        "requester.manager": "Cleo Park has no manager"
    }


def test_role_is_vacant_while_all_its_holders_are_absent() -> None:
    """A role without holders is not named."""
    operator = away(MARA.model_copy(update={"roles": (Role.OPERATOR,)}))
    assert "role operator" in found(Directory([operator, CLEO]), "cleo")
    assert found(Directory([MARA, CLEO]), "cleo") == {}
