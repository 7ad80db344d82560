"""Dates are read in every notation that can mean only one day."""

from __future__ import annotations

from datetime import date

import pytest

from signoff.core.base.dates import read_date

SEPTEMBERS = ["September", "septembre", "septiembre", "setembro", "settembre", "sept."]


@pytest.mark.parametrize("month", SEPTEMBERS)
def test_a_month_by_name_is_read(month: str) -> None:
    """The longest name of a month is read as well, in every language."""
    assert read_date(f"21 {month} 2026") == date(2026, 9, 21)


@pytest.mark.parametrize("text", ["1.1.99999999999", "99999999999.1.2026", "1 Jan 99999999999"])
def test_a_number_that_no_calendar_has_is_not_a_date(text: str) -> None:
    """Numbers that are too long for a date are not read, and raise no error."""
    assert read_date(text) is None
