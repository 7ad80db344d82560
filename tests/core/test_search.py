"""A search that skips records finds the same as a search that reads them all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import NOON, RILEY, asked_approval, make_origin, people
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lists.search import Search, words_of
from signoff.core.approvals.parts import ToolCall
from signoff.core.base.model import stored_json

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=3,
)


def _stored(approval: Approval) -> str:
    return stored_json(approval, exclude="version")


def _approval(args: dict[str, JsonValue], user: str, hide: tuple[str, ...] = ()) -> Approval:
    made = asked_approval(
        call=ToolCall(id="fc-1", name="reimburse", args=args), origin=make_origin(user=user)
    )
    assert made.terms is not None
    return made.model_copy(update={"terms": made.terms.model_copy(update={"hide": hide})})


@given(
    st.dictionaries(_TEXT, _VALUES, max_size=3),
    st.sampled_from([RILEY.id, RILEY.email, "stranger@example.com"]),
    st.data(),
)
def test_record_filter_never_skips_a_match(
    args: dict[str, JsonValue], user: str, data: st.DataObject
) -> None:
    """Any part of a searchable text passes the filter: numbers, quotes, names, scripts."""
    hide = tuple(data.draw(st.sets(st.sampled_from(sorted(args)), max_size=1))) if args else ()
    try:
        approval = _approval(args, user, hide)
    except ValueError:
        return  # values without a canonical form, or that cannot be hidden by that name
    words = words_of(approval, people())
    start = data.draw(st.integers(0, len(words) - 1))
    q = words[start : start + data.draw(st.integers(1, 8))]
    wanted = Search(q=q, tool=approval.call.name, app=approval.origin.app)
    assert wanted.fits(approval, people(), NOON)
    assert wanted.filter_of_records(people())(_stored(approval))


def test_record_filter_skips_records_without_the_words() -> None:
    """Such a record is skipped, because reading it takes the time."""
    record = _stored(_approval({"purpose": "conference"}, "riley"))
    assert not Search(q="nothing").filter_of_records(people())(record)
    assert not Search(tool="transfer").filter_of_records(people())(record)
    assert Search(q="Conference VOSS").filter_of_records(people())(record)


def test_the_mark_in_the_subject_of_a_mail_finds_its_request() -> None:
    """Somebody copies it from the mail; the same characters in a text are still found."""
    approval = _approval({"purpose": "room #abcd, order #17"}, "riley")
    for q in (f"#{approval.id[-4:]}", f"#{approval.id[-4:].upper()}", "#abcd", "#17"):
        assert Search(q=q).fits(approval, people(), NOON), q
        assert Search(q=q).filter_of_records(people())(_stored(approval)), q
    assert not Search(q="#zzzz").fits(approval, people(), NOON)
    assert not Search(q="#18").fits(approval, people(), NOON)
