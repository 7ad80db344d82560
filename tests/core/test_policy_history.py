"""Policy versions: each text is a version, and the history lists the changes."""

from __future__ import annotations

from datetime import timedelta

from builders import NOON
from signoff.core.policies.history import DEFAULT, ORDER, changed, fresh_versions
from signoff.core.policies.policy import Fallback, Policy

SMALL = Policy(name="small", when="args.amount < 100", ask=("mara",))
LARGE = Policy(name="large", ask=("mara", "cleo"))
REST = Fallback(ask=("cleo",))


def test_unchanged_policies_make_no_new_version() -> None:
    """Loading the same text again does not make a new version."""
    first = fresh_versions([], [SMALL, LARGE], REST, now=NOON, by="ann (h1)")
    assert {one.policy: one.version for one in first} == {
        "small": SMALL.version,
        "large": LARGE.version,
        DEFAULT: REST.version,
        ORDER: first[-1].version,
    }
    assert fresh_versions(first, [SMALL, LARGE], REST, now=NOON, by="bob (h2)") == ()


def test_a_change_a_new_order_and_a_removal_are_noted() -> None:
    """Each entry names its differences; a return to an earlier text is a change too."""
    first = fresh_versions([], [SMALL, LARGE], REST, now=NOON, by="ann (h1)")
    wider = SMALL.model_copy(update={"when": "args.amount < 500", "repeat": 1})
    later = NOON + timedelta(hours=1)
    second = fresh_versions(first, [wider, LARGE], REST, now=later, by="bob (h2)")
    (noted,) = second
    assert (noted.policy, noted.at, noted.by) == ("small", later, "bob (h2)")
    assert sorted(changed(first[0], noted)) == ["repeat", "when"]
    third = fresh_versions([*first, *second], [LARGE], REST, now=later, by="bob (h2)")
    assert [(one.policy, bool(one.version)) for one in third] == [(ORDER, True), ("small", False)]
    back = fresh_versions([*first, *second, *third], [SMALL, LARGE], REST, now=later, by="x")
    assert [one.policy for one in back] == ["small", ORDER]
    swapped = fresh_versions(first, [LARGE, SMALL], REST, now=later, by="x")
    assert [one.policy for one in swapped] == [ORDER]
