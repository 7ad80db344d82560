"""Items of the outboxes: each reads back as written, including items of the last release."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import (
    AnnounceMilestone,
    AskElsewhere,
    AskRequester,
    BundleKind,
    Bundling,
    CancelRequests,
    CloseCard,
    CloseLevel,
    DoubtCall,
    Listed,
    NotifyReceiver,
    SendBundle,
    SendCard,
    SendNotice,
    SendPush,
    SendReminder,
    SendStatus,
    StartRun,
    TellMove,
    UpdateBundle,
    Work,
    read_work,
)
from signoff.core.approvals.events import What
from signoff.core.approvals.milestones import Milestone
from signoff.core.base.errors import RecordUnreadable

KINDS = get_args(Work)
NEW = {
    *(AnnounceMilestone, AskElsewhere, SendBundle, SendStatus, UpdateBundle),
    *(CancelRequests, DoubtCall, NotifyReceiver, SendPush),
}
"""Kinds that the last release did not have."""

OLD = json.loads(Path(__file__).with_name("items_of_d388fc7.json").read_text())
"""Items of every kind, recorded from the code of the commit d388fc7 while its tests ran."""

TEXT = st.text(st.characters())
JSON = st.recursive(st.none() | st.booleans() | st.integers() | TEXT, st.lists, max_leaves=5)


def made(kind: type[Any], **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Draw values of a model by field names; `builds` would draw fields with aliases twice."""
    return st.fixed_dictionaries(fields).map(lambda given: kind(**given))


OF_TYPE: dict[object, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(),
    bool: st.booleans(),
    datetime | None: st.none() | st.datetimes(timezones=st.just(UTC)),
    What: st.sampled_from(What),
    Bundling: st.sampled_from(Bundling),
    BundleKind: st.sampled_from(BundleKind),
    tuple[str, ...]: st.lists(TEXT).map(tuple),
    tuple[Listed, ...]: st.lists(made(Listed, approval=TEXT, level_key=TEXT)).map(tuple),
    Milestone: st.sampled_from(Milestone),
}


def fields_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Draw values of one kind."""
    fields = {
        name: OF_TYPE.get(
            field.annotation,
            st.datetimes(timezones=st.just(UTC))
            if name == "asked"
            else st.dictionaries(TEXT, JSON, max_size=3),
        )
        for name, field in kind.model_fields.items()
        if name != "work"
    }
    return made(kind, **fields)


@given(st.one_of([fields_of(kind) for kind in KINDS]))
def test_each_kind_of_item_round_trips(work: Work) -> None:
    """Each kind reads back the same, whatever text it holds, with its stage and its id."""
    assert read_work(work.stage, work.id, json.loads(json.dumps(work.body))) == work


@pytest.mark.parametrize("old", OLD, ids=[f"{one['stage']} {one['id']}" for one in OLD])
def test_items_of_the_last_release_are_read(old: dict[str, Any]) -> None:
    """They keep their stages and ids, so the same cause still adds the same work once."""
    work = read_work(old["stage"], old["id"], old["body"])
    assert (work.stage, work.id) == (old["stage"], old["id"])
    kept = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in work.model_dump().items()
    }
    renamed = {"moved": "move", "why": "reason", "said": "remarks"}
    for name, value in old["body"].items():
        if name in kept and name != "kind":
            assert kept[name] == value, name
        elif name in renamed and renamed[name] in kept:
            assert kept[renamed[name]] == value, name


@pytest.mark.parametrize("old", OLD, ids=[f"{one['stage']} {one['id']}" for one in OLD])
def test_items_keep_the_fields_of_the_last_release(old: dict[str, Any]) -> None:
    """All earlier fields are there: during an upgrade, old processes take new items."""
    kept, written = dict(old["body"]), read_work(old["stage"], old["id"], old["body"]).body
    asked = kept.pop("asked", None)
    assert kept.items() <= written.items()
    assert asked is None or datetime.fromisoformat(asked) == datetime.fromisoformat(
        str(written["asked"])
    )


def test_there_is_an_old_item_of_every_kind() -> None:
    """The recorded items cover all kinds of work that the last release had."""
    found = {type(read_work(one["stage"], one["id"], one["body"])) for one in OLD}
    assert found == {*KINDS} - NEW


def test_each_mark_of_the_last_release_maps_to_one_kind() -> None:
    """Each mark of the last release becomes one kind with the same meaning."""
    found: dict[str, Work] = {
        one["id"]: read_work(one["stage"], one["id"], one["body"]) for one in OLD
    }
    for name, work in found.items():
        match work:
            case CloseLevel():
                assert name.startswith("moved:")
                assert work.corrects == (name[6:] if "update:" in name else "")
            case CloseCard():
                assert work.corrects == (name[8:] if "update:" in name else "")
            case SendReminder():
                assert (work.level_key, work.nth) == ("", "now-5")
            case TellMove():
                assert f":{work.move}:{work.version}" in name
            case SendNotice() | AskRequester():
                assert work.headline
            case SendCard():
                assert work.person == "#C0OPS" or not work.person.startswith("#")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "poem", "approval": "ap_1", "person": "mara"},
        {"kind": "notice", "approval": "ap_1", "person": "mara"},
        {"work": "send_poem"},
        {"work": "send_card", "channel": "slack", "approval": "ap_1", "person": "mara"},
        {"work": "start_run", "app": "finance", "run": "run_1"},
    ],
)
def test_an_invalid_item_is_unreadable_and_named(body: dict[str, Any]) -> None:
    """The error names the item: an unknown kind, a missing field, or another stage's work."""
    with pytest.raises(RecordUnreadable, match=r"items:deliver\.email odd"):
        read_work(stages.deliver("email"), "odd", body)


def test_an_item_keeps_fields_of_a_later_version() -> None:
    """Known fields are used for the work; an item that is put back keeps its whole body."""
    work = SendCard(channel="email", approval="ap_1", person="mara")
    body = {**work.body, "later": {"n": 1}}
    assert read_work(work.stage, work.id, body) == work


async def test_an_item_is_added_once_across_releases(ledger: Ledger) -> None:
    """An item of the last release and its successor are one item, under one id."""
    work = StartRun(app="finance", run="run_1")
    await ledger.commit(Change().send_raw(work.stage, work.id, {"run": "run_1"}))
    await ledger.commit(Change().send(work))
    (item,) = (await ledger.claim(work.stage)).items
    assert item.work == work


async def test_a_postponed_item_keeps_its_attempts(ledger: Ledger) -> None:
    """Work that waits for its turn comes back unchanged, with all its attempts."""
    work = SendCard(channel="email", approval="ap_1", person="mara", token="secret")
    await ledger.commit(Change().send(work))
    (item,) = (await ledger.claim(work.stage)).items
    await ledger.commit(Change().retry(item, after=0, counted=False))
    (again,) = (await ledger.claim(work.stage)).items
    assert (again.work, again.id, again.attempts) == (work, item.id, 1)
