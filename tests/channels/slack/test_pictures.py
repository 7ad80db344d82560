"""The documentation's pictures are drawn from real messages."""

from __future__ import annotations

import importlib.util
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from builders import NOON
from signoff.channels.form_fields import fields
from signoff.channels.preview import message
from signoff.channels.samples import PEOPLE, samples
from signoff.channels.slack.outbound import blocks, views
from signoff.channels.slack.references import Reference
from signoff.core.cards.card import card

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = samples(NOON)


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    """Return docs/pictures.py, a script."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain_texts(part: Any) -> list[str]:
    """Return every plain text below a block of a message or a modal."""
    if isinstance(part, list):
        return [text for one in part for text in plain_texts(one)]
    if not isinstance(part, dict):
        return []
    own = [part["text"]] if part.get("type") == "plain_text" else []
    inner = [value for key, value in part.items() if key not in {"confirm", "options"}]
    return own + [text for one in inner for text in plain_texts(one)]


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_picture_has_all_that_is_sent(kind: str, drawing: ModuleType) -> None:
    """Each text of a card and of its modal is in its picture."""
    approval = SAMPLES[kind]
    sent = message(approval, PEOPLE, channel="slack", now=NOON)
    card_sent = [block.to_dict() for block in blocks.opening(sent)[1]]
    about = Reference(approval=approval.id, digest=approval.digest)
    view = views.approve_view(card(approval, PEOPLE), about, fields(approval)).to_dict()

    drawn = [(card_sent, drawing.message_html(card_sent)), (view, drawing.modal_html(view))]

    for made, html in drawn:
        assert [text for text in plain_texts(made) if escape(text) not in html] == []


def test_unknown_block_raises_an_error(drawing: ModuleType) -> None:
    """An unknown block raises an error and is not left out."""
    with pytest.raises(ValueError, match="no picture of a block 'video'"):
        drawing.message_html([{"type": "video"}])


def test_the_pictures_of_the_documentation_are_small_and_there(drawing: ModuleType) -> None:
    """Each picture of the script is in docs/images and under 100 kB."""
    for name in (*drawing.pictures(), *drawing.mail_pictures()):
        assert 0 < (ROOT / "docs" / "images" / f"{name}.png").stat().st_size < 100_000
