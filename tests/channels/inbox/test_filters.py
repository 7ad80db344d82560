"""The filters in the address of a list: each is read back, and other text is refused."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl

from hypothesis import given
from hypothesis import strategies as st

from signoff.broker.ledger.listing import Place
from signoff.channels.inbox.forms import BadForm
from signoff.channels.inbox.pages.filters import ListFilters
from signoff.core.approvals.lists.search_terms import Due, Sort, Status

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).map(str.strip)
PLACES = st.builds(
    Place, st.integers(0, 10**16 - 1), st.from_regex(r"ap_[a-z2-7]{16}", fullmatch=True)
)
WANTED = st.builds(
    ListFilters,
    q=TEXT,
    state=st.none() | st.sampled_from(Status),
    queue=TEXT,
    tool=TEXT,
    app=TEXT,
    person=TEXT,
    due=st.none() | st.sampled_from(Due),
    sort=st.sampled_from(Sort),
)
NAMES = st.sampled_from(
    ["q", "state", "queue", "tool", "app", "person", "due", "sort", "after", "x"]
)


@given(WANTED, st.none() | PLACES)
def test_a_filter_round_trips_through_its_url(wanted: ListFilters, place: Place | None) -> None:
    """Any filter, for any page of the list, is read back from its address."""
    query = dict(parse_qsl(wanted.query(place), strict_parsing=True))
    found = ListFilters.of(query, sort=Sort.OLDEST)
    assert found.after == place
    assert found.query() == wanted.query()


@given(st.dictionaries(NAMES, st.text(max_size=300)))
def test_an_invalid_filter_url_raises_only_the_declared_error(query: dict[str, str]) -> None:
    """Invalid text raises only the declared error."""
    with suppress(BadForm):
        assert len(ListFilters.of(query, sort=Sort.OLDEST).q) <= 200
