"""Sealed snapshots: a changed or misplaced one is not opened."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.worker.ces.delta import pack, unpack
from signoff.worker.ces.errors import SnapshotRefused
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.sandbox import SuspendedCall
from signoff.worker.ces.seal import seal, unseal

RULES = Rules(key="k" * 32)
HELD = SuspendedCall("refund", {"order": "o1"}, ({"engine": "e", "state": "abc", "kept": {}},))
CALL = ("refund", {"order": "o1"})


def at(app: str = "shop", user: str = "riley", session: str = "s1", call: str = "c1") -> Any:
    """The context of a tool call."""
    where = SimpleNamespace(app_name=app, user_id=user, id=session)
    return SimpleNamespace(session=where, function_call_id=call)


SEALED = seal(RULES, HELD, at())


def test_sealed_frames_open_for_the_same_call() -> None:
    """The same call in the same session gets its frames back."""
    assert unseal(RULES, SEALED, at(), CALL) == list(HELD.frames)


@pytest.mark.parametrize(
    "context", [at(app="other"), at(user="mallory"), at(session="s2"), at(call="c2")]
)
def test_a_snapshot_of_another_place_is_refused(context: Any) -> None:
    """Code of another session, user, app or call cannot continue."""
    with pytest.raises(SnapshotRefused, match="belongs to another call"):
        unseal(RULES, SEALED, context, CALL)


@pytest.mark.parametrize("call", [("refund", {"order": "o2"}), ("pay", {"order": "o1"})])
def test_a_snapshot_at_another_call_is_refused(call: tuple[str, dict[str, Any]]) -> None:
    """The approval is for the call at which the code is suspended."""
    with pytest.raises(SnapshotRefused, match="belongs to another call"):
        unseal(RULES, SEALED, at(), call)


@given(st.integers(0, len(SEALED) - 1), st.characters(codec="ascii"))
def test_no_character_can_be_changed(place: int, other: str) -> None:
    """A change anywhere, in the signature or after it, prevents the opening."""
    if SEALED[place] == other:
        return
    with pytest.raises(SnapshotRefused):
        unseal(RULES, SEALED[:place] + other + SEALED[place + 1 :], at(), CALL)


@given(st.text(min_size=60, max_size=200) | st.just("é" * 100) | st.just("\ud800" * 100))
def test_unsealed_snapshot_is_refused(text: str) -> None:
    """Any other text is refused with a message."""
    with pytest.raises(SnapshotRefused):
        unseal(RULES, text, at(), CALL)


def test_a_body_with_a_signature_of_another_key_is_refused() -> None:
    """A forger without the key cannot sign."""
    body = json.loads(SEALED[64:]) | {"call": ["pay", {}]}
    forged = seal(Rules(key="x" * 32), HELD, at())[:64] + json.dumps(body, sort_keys=True)
    with pytest.raises(SnapshotRefused, match="changed, or signed with another key"):
        unseal(RULES, forged, at())


def test_shared_part_of_snapshots_is_stored_once_and_restored() -> None:
    """It is stored once after the first line, and a snapshot without it is refused."""
    inner = {"engine": "e", "state": "in", "base": "b" * 5_000, "kept": {}}
    beside = {"held": {"frames": [dict(inner)]}}
    outer = {"engine": "e", "state": "out", "base": "b" * 5_000, "kept": {"results": beside}}
    sealed = seal(RULES, SuspendedCall("refund", {"order": "o1"}, (outer, inner)), at())
    own, shared = sealed.split("\n")
    assert shared == "b" * 5_000
    assert len(own) < 1_000
    assert unseal(RULES, sealed, at(), CALL) == [outer, inner]
    for broken in (own, f"{own}\n{shared[1:]}"):
        with pytest.raises(SnapshotRefused, match="not whole"):
            unseal(RULES, broken, at(), CALL)


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 300))
def test_packed_bytes_are_restored_exactly(new: bytes, base: bytes, place: int) -> None:
    """Any changed, added or removed text is restored byte for byte."""
    for data in (new, base + new, base[:place] + new + base[place:], base[place:] + base[:place]):
        for other in (base, base * 3, b""):
            assert unpack(pack(data, other), other) == data


def test_nearly_equal_bytes_pack_small() -> None:
    """A copy with two changes packs into a few bytes."""
    base = random.Random(1).randbytes(50_000)
    data = base[:100] + b"new" + base[100:40_000] + b"more" + base[40_500:]
    assert len(pack(data, base)) < 100
    with pytest.raises(ValueError, match="incorrect header"):
        unpack(b"nothing of ours", base)
