"""An approval counts only if all of the call was shown; a rejection always counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import CLEO, MARA, NOON, ask, make_approval, make_call, people
from signoff.core.approvals.approval import Approval, Asked, Shown, State, ToolCall
from signoff.core.approvals.parts import mark_of
from signoff.core.base.errors import NotShownInFull, SecondStepNeeded
from signoff.core.grants.grant import Grant
from signoff.core.policies.policy import GrantRules

LATER = NOON + timedelta(minutes=5)
LONG = make_call("wire", to="ACME", memo="x" * 500)


def delivered(approval: Approval, *cards: Asked) -> Approval:
    """Return an approval with these delivered cards."""
    return ask(approval, MARA, CLEO).model_copy(update={"asked": cards})


def card(shown: Shown, person: str = "mara", channel: str = "email", address: str = "x") -> Asked:
    """Return a delivered card."""
    return Asked(person=person, channel=channel, address=address, receipt="<1@x>", shown=shown)


def approve(approval: Approval, channel: str, **more: Any) -> Approval:
    """Let Mara approve."""
    return approval.approve(MARA, people(), channel=channel, now=LATER, **more)[0]


@pytest.mark.parametrize("channel", ["email", "slack", "mattermost"])
def test_approval_from_a_cut_card_is_refused_and_names_the_full_view(channel: str) -> None:
    """The message names the call and a place that shows all of it; nothing changes."""
    approval = delivered(make_approval(call=LONG), card(Shown.CUT, channel=channel))
    with pytest.raises(NotShownInFull) as refused:
        approve(approval, channel)
    assert "wire()" in str(refused.value)
    assert f"signoff approvals show {approval.id}" in str(refused.value)
    assert "page" in str(refused.value)


@pytest.mark.parametrize("channel", ["inbox", "cli", "api"])
def test_where_people_look_themselves_all_is_shown(channel: str) -> None:
    """The page, the command line and the API show the whole call, whatever the mail showed."""
    approval = delivered(make_approval(call=LONG), card(Shown.CUT))
    assert approve(approval, channel).state is State.APPROVED


def test_a_no_counts_on_a_cut_card() -> None:
    """A rejection does not need the whole call."""
    approval = delivered(make_approval(call=LONG), card(Shown.CUT))
    after, _ = approval.reject(MARA, people(), channel="email", now=LATER, reason="too long")
    assert after.state is State.REJECTED


def test_a_complete_card_can_be_approved() -> None:
    """The length of a call alone does not prevent an approval."""
    approval = delivered(make_approval(call=LONG), card(Shown.COMPLETE))
    assert approve(approval, "email").state is State.APPROVED


def test_card_of_another_person_or_channel_shows_nothing() -> None:
    """Cleo's card shows Mara nothing, and a card in another channel is another card."""
    cards = card(Shown.COMPLETE, "cleo"), card(Shown.COMPLETE, channel="slack")
    approval = delivered(make_approval(call=LONG), *cards)
    with pytest.raises(NotShownInFull):
        approve(approval, "email")
    assert approve(approval, "slack").state is State.APPROVED


def test_channel_card_counts_for_everybody_asked_there() -> None:
    """A card in a Slack channel does not belong to one person."""
    for shown, counts in ((Shown.COMPLETE, True), (Shown.CUT, False)):
        place = card(shown, "", "slack", "C0123456789")
        approval = delivered(make_approval(call=LONG), place)
        assert (approval.shown_to("mara", "slack") is Shown.COMPLETE) is counts


def test_the_less_complete_of_two_cards_counts() -> None:
    """It is not known which of the two cards the person read."""
    place = card(Shown.COMPLETE, "", "slack", "C0123456789")
    approval = delivered(make_approval(call=LONG), place, card(Shown.CUT, channel="slack"))
    with pytest.raises(NotShownInFull):
        approve(approval, "slack")


@pytest.mark.parametrize(
    ("call", "counts"),
    [
        (make_call("ping", host="a.example"), True),
        (make_call("ping", host="a" * 161), False),
        (make_call("ping", script="ls\nrm -rf /"), False),
        (make_call("x" * 200, a=1), False),
    ],
)
def test_unrecorded_card_shows_only_a_short_call_in_full(call: ToolCall, counts: bool) -> None:
    """Cards of the last release do not record it; it cut at 160 characters and at line ends."""
    approval = delivered(make_approval(call=call), card(Shown.UNKNOWN))
    assert (approval.shown_to("mara", "email") is Shown.COMPLETE) is counts


def test_hint_and_template_count_for_the_length_of_a_call() -> None:
    """A call is short up to 160 characters, with all that a card shows, and on one line."""
    bare = len('["ping", {"host": ""}, null]')
    for hint in ("", "Is it up?"):
        room = 160 - bare - len(hint)
        for size, shown in ((room, Shown.COMPLETE), (room + 1, Shown.UNKNOWN)):
            call = make_call("ping", host="ü" * size)
            approval = delivered(make_approval(call=call, hint=hint), card(Shown.UNKNOWN))
            assert approval.shown_to("mara", "email") is shown, (hint, size)
    call = make_call("ping", host="a")
    other: tuple[dict[str, Any], ...] = ({"hint": "one\ntwo"}, {"template": {"days": "x" * 160}})
    for parts in other:
        approval = delivered(make_approval(call=call, **parts), card(Shown.UNKNOWN))
        assert approval.shown_to("mara", "email") is Shown.UNKNOWN


def test_record_of_the_last_release_is_judged_by_the_length_of_its_call() -> None:
    """It can be read, and the length of the call decides."""
    old = Asked.model_validate({"person": "mara", "channel": "email", "address": "x"})
    assert old.shown is Shown.UNKNOWN


def test_proposal_from_a_cut_card_is_refused() -> None:
    """A proposal approves all other values, so it cannot avoid the rule."""
    approval = delivered(make_approval(call=LONG), card(Shown.CUT))
    with pytest.raises(NotShownInFull):
        approve(approval, "email", values={"to": "ACNE"})


def test_first_step_from_a_cut_card_counts_after_confirmation_on_the_page() -> None:
    """The approval counts on the page, which shows the whole call."""
    approval = ask(make_approval(call=LONG), MARA, second_step=True)
    approval = approval.model_copy(update={"asked": (card(Shown.CUT),)})
    after = approve(approval, "email")
    assert after.state is State.PENDING
    step = after.step_of("mara")
    assert step is not None
    confirmed, _ = after.confirm(MARA, people(), channel="inbox", now=LATER, mark=mark_of(step))
    assert confirmed.state is State.APPROVED
    with pytest.raises(SecondStepNeeded):
        approve(approval, "cli")


def test_a_cut_card_gives_no_grant() -> None:
    """No grant follows from the approval itself, or from one that was given elsewhere."""
    approval = delivered(make_approval(call=LONG), card(Shown.CUT))
    assert approval.terms is not None
    rules = GrantRules(who=("mara",), longest=timedelta(hours=8), vary=("to",))
    terms = approval.terms.model_copy(update={"grants": rules})
    done = approve(approval.model_copy(update={"terms": terms}), "inbox")

    def give(channel: str) -> Grant:
        span = timedelta(hours=1)
        return Grant.give(done, by="mara", channel=channel, now=LATER, span=span)[0]

    with pytest.raises(NotShownInFull):
        give("email")
    assert give("inbox").by == "mara"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["mara", "cleo", ""]),
            st.sampled_from(["email", "slack", "teams"]),
            st.sampled_from(Shown),
        ),
        max_size=5,
    ),
    st.sampled_from(["email", "slack", "teams"]),
    st.text(max_size=400),
)
def test_no_cut_card_is_ever_approved(
    cards: list[tuple[str, str, Shown]], channel: str, memo: str
) -> None:
    """With any cards, an approval needs one that shows everything and none that is cut."""
    asked = [card(shown, person, by) for person, by, shown in cards]
    approval = delivered(make_approval(call=make_call("wire", memo=memo)), *asked)
    mine = {one.shown for one in asked if one.channel == channel and one.person in {"", "mara"}}
    if approval.shown_to("mara", channel) is Shown.COMPLETE:
        assert Shown.CUT not in mine
        assert mine == {Shown.COMPLETE} or len(memo) <= 160
