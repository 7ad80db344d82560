"""The title of a request: its template in the policy, and the resulting text."""

from __future__ import annotations

import unicodedata
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from builders import NOON, make_approval, make_call, people
from core.test_card import NASTY, VALUES
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import NotCanonical
from signoff.core.cards.card import Card, card
from signoff.core.policies.policy import Fallback, Policy, Terms
from signoff.core.policies.titles import LONGEST_TITLE, parse_title, title_of

TITLE = "Reimburse {args.amount:money EUR} for {args.purpose}"


def asked(
    title: str, tool: str = "reimburse", hide: tuple[str, ...] = (), **args: JsonValue
) -> Card:
    """Return the card of a call under a policy with this title."""
    terms = Terms(policy="titled", ask=("mara",), title=title, hide=hide)
    return card(opened(tool, **args).ask(terms, (), now=NOON)[0], people())


def opened(tool: str, **args: JsonValue) -> Approval:
    """Return an approval before it is routed."""
    return make_approval(call=make_call(tool, **args))


def test_title_names_the_request_and_the_requester() -> None:
    """The title comes first on the card; the arguments and the digest do not change."""
    shown = asked(TITLE, amount=2500.0, purpose="the conference")
    assert shown.title == ("Reimburse 2,500.00 EUR for the conference, asked by Riley Voss")
    assert [row.value for row in shown.rows] == ["2500", "the conference"]
    assert shown.digest == opened("reimburse", amount=2500.0, purpose="the conference").digest


def test_first_arguments_distinguish_requests_without_a_title() -> None:
    """As many arguments as fit are shown; a long one is cut and does not hide the next."""
    one = asked("", amount=1, purpose="a " * 90, when="today")
    assert one.title.startswith("reimbursement_agent asks to run reimburse: amount 1, purpose a a")
    assert len(one.title) <= LONGEST_TITLE
    assert one.title != asked("", amount=2, purpose="a " * 90).title


@pytest.mark.parametrize(
    ("template", "args", "title"),
    [
        ("{args.n:number}", {"n": 12500.5}, "12,500.5"),
        ("{args.n:number}", {"n": "12500"}, "12500"),
        ("On {args.day:date}", {"day": "2026-11-21"}, "On 21 Nov 2026"),
        ("On {args.day:date}", {"day": "2026-11-21T09:00:00Z"}, "On 21 Nov 2026"),
        ("On {args.day:date}", {"day": "soon"}, "On soon"),
        ("{args.a.b}", {"a": {"b": "deep"}}, "deep"),
        ("{args.fee:money args.in}", {"fee": 3, "in": "usd"}, "3.00 USD"),
        ("{args.fee:money args.in}", {"fee": 3, "in": "dollars"}, "3"),
        ("{args.fee:money EUR}", {"fee": "a lot"}, "a lot"),
        ("{args.fee:money EUR}", {"fee": True}, "true"),
        ("{args.gone} for {args.b}", {"b": "x"}, "… for x"),
        ("{args.gone} for {args.b}", {"b": " "}, ""),
        ("{args.a.b}", {"a": "text"}, ""),
        ("{{{tool}}} of {agent} in {app}", {}, "{pay} of bot in shop"),
    ],
)
def test_a_placeholder_is_written_in_its_format(
    template: str, args: dict[str, JsonValue], title: str
) -> None:
    """A value that does not fit its format is shown as it is; a missing one is an ellipsis."""
    names = {"tool": "pay", "agent": "bot", "app": "shop", "requester": "Riley"}
    assert title_of(template, args, names) == title


@pytest.mark.parametrize(
    ("template", "named"),
    [
        ("{args.amount:mony EUR}", "{args.amount:mony EUR}"),
        ("{args.amount:money}", "{args.amount:money}"),
        ("{args.amount:money EURO}", "EURO"),
        ("{args.amount:number 2}", "{args.amount:number 2}"),
        ("{user}", "{user}"),
        ("{args}", "{args}"),
        ("{args.__class__.x!r}", "{args.__class__.x!r}"),
        ("{tool:date}", "{tool:date}"),
        ("{}", "{}"),
        ("{args.a", "{"),
        ("two\nlines", "one line"),
        ("turned \u202e round", "one line"),
        ("x" * 400, "300"),
    ],
)
def test_invalid_title_template_is_refused_with_its_placeholder(template: str, named: str) -> None:
    """It is refused when the settings are read; the error names the placeholder."""
    for settings in (Policy, Fallback):
        with pytest.raises(ValidationError) as caught:
            settings.model_validate(
                {"name": "p", "ask": ["mara"], "title": template}
                if settings is Policy
                else {"ask": ["mara"], "title": template}
            )
        assert named in str(caught.value)


def test_title_never_shows_a_hidden_argument() -> None:
    """Such settings are refused, as is such a template in another release's record."""
    with pytest.raises(ValidationError, match=r"\{args.iban\} shows an argument"):
        Policy(name="p", ask=("mara",), title="To {args.iban}", hide=("iban",))
    shown = asked("", "pay", hide=("iban",), iban="DE89370400440532013000", amount=1)
    assert shown.title == "reimbursement_agent asks to run pay: amount 1"


PARTS = st.lists(
    st.sampled_from(["{args.a}", "{args.b:money EUR}", "{args.c.d:date}", "{requester}", "{tool}"])
    | st.text("ab p\u0430y,.", max_size=5),
    max_size=6,
).map("".join)


@given(PARTS, NASTY | VALUES, NASTY | VALUES, NASTY | VALUES, NASTY)
def test_title_stays_on_one_line_whatever_the_arguments(
    template: str, a: JsonValue, b: JsonValue, c: JsonValue, tool: str
) -> None:
    """A title never has a control character, line break or reversed text."""
    titles = [title_of(template, {"a": a, "b": b, "c": c}, {"tool": tool, "requester": "R"})]
    with suppress(NotCanonical):
        titles.append(asked("", a=a, b=b).title)
    for title in titles:
        assert len(title.splitlines()) <= 1
        assert "\u202e" not in title
        assert not [one for one in title if unicodedata.category(one) in {"Cc", "Zl", "Zp"}]


@given(PARTS, st.text(max_size=400))
def test_a_title_is_short(template: str, text: str) -> None:
    """A long argument does not fill a subject."""
    assert len(title_of(template, {"a": text}, {"tool": text, "requester": text})) <= LONGEST_TITLE


def test_letters_that_only_look_alike_are_shown_as_on_the_card() -> None:
    """This also holds if the template and the argument make up one word."""
    assert title_of("To {args.to}", {"to": "p\u0430ypal"}, {}) == "To p\\u0430ypal"
    assert "\u0430" not in title_of("p{args.to}ypal", {"to": "\u0430"}, {})


@given(st.text(max_size=60))
def test_any_text_is_a_template_or_refused(text: str) -> None:
    """The parser either returns a template or refuses the text."""
    try:
        parts = parse_title(text)
    except ValueError:
        return
    assert all(isinstance(one, str) or one.source in text for one in parts)
