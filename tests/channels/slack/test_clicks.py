"""The effects of a click and of a submitted modal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import JsonValue

from builders import present
from channels.slack.office import CLEO_AT, MARA_AT, RILEY_AT, Office, block_actions
from signoff.channels.slack.references import Reference
from signoff.core.approvals.approval import Kind, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import LedgerUnavailable, SlackPayloadUnreadable
from signoff.core.policies.policy import Policy, Risk


async def test_one_click_approves_a_call_without_fields(office: Office) -> None:
    """A call without fields is approved by the click, and the card loses its buttons."""
    approval = await office.open()
    assert await office.press("approve") is None
    decided = await office.ledger.approval(approval.id)
    assert decided.state is State.APPROVED
    assert (present(decided.decision).by, present(decided.decision).channel) == ("mara", "slack")
    await office.deliver()
    (card,) = office.workspace.cards("D0MARA")
    assert card["edits"] == 1
    assert not [block for block in card["blocks"] if block["type"] == "actions"]
    assert "Recorded: you approved reimburse" in str(card["blocks"])


async def test_a_rejection_asks_why(office: Office) -> None:
    """The model reads the reason from the modal."""
    approval = await office.open()
    await office.press("reject")
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert await office.submit({"reason": {"value": "over <b>budget</b>"}}) is None
    decided = await office.ledger.approval(approval.id)
    assert (decided.state, present(decided.decision).reason) == (
        State.REJECTED,
        "over <b>budget</b>",
    )


async def test_fields_are_filled_in_a_modal(office: Office) -> None:
    """An error appears at its field, and nothing is decided."""
    approval = await office.open(template={"approved_days": 0, "note": "", "paid": False})
    await office.press("approve")
    view = office.workspace.views[-1]
    inputs = [block for block in view["blocks"] if block["type"] == "input"]
    assert [block["element"]["type"] for block in inputs] == [
        "number_input",
        "plain_text_input",
        "radio_buttons",
        "plain_text_input",
    ]
    wrong = {"field.0": {"value": "3.5"}, "field.1": {"value": "fine"}}
    ack = await office.submit(wrong)
    assert ack["response_action"] == "errors"
    assert list(ack["errors"]) == ["field.0"]
    ack = await office.submit({"field.0": {"value": "3"}})
    assert list(ack["errors"]) == ["field.1"]
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    right = {
        "field.0": {"value": "3"},
        "field.1": {"value": "fine"},
        "field.2": {"selected_option": {"value": "yes"}},
    }
    assert await office.submit(right) is None
    decided = await office.ledger.approval(approval.id)
    assert present(decided.decision).payload == {"approved_days": 3, "note": "fine", "paid": True}


async def test_a_form_is_approved_as_it_was_sent(office: Office) -> None:
    """Deleted values do not come back, and unchanged ones keep their quotes, spaces and lines."""
    template: dict[str, JsonValue] = {
        "note": "ship it",
        "quoted": '"as is" ',
        "lines": "a\r\nb",
        "sum": 2.5,
        "day": "2026-11-21",
        "list": [1],
    }
    approval = await office.open(template=template)
    await office.press("approve")
    form: dict[str, Any] = {
        "field.0": {"value": None},
        "field.1": {"value": '"as is" '},
        "field.2": {"value": "a\nb"},
        "field.3": {"value": None},
        "field.4": {"selected_date": None},
        "field.5": {"value": " "},
    }
    ack = await office.submit(form)
    assert list(ack["errors"]) == ["field.3", "field.4", "field.5"]
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    right = {
        "field.3": {"value": "3"},
        "field.4": {"selected_date": "2026-11-22"},
        "field.5": {"value": "[]"},
    }
    assert await office.submit(form | right) is None
    decided = await office.ledger.approval(approval.id)
    assert present(decided.decision).payload == {
        **template,
        "note": "",
        "sum": 3.0,
        "day": "2026-11-22",
        "list": [],
    }


SCHEMA = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "grade": {"enum": ["A", "B"]},
        "from": {"type": "string", "format": "date"},
        "share": {"type": "number", "maximum": 1},
        "extra": {"type": "object"},
    },
    "required": ["approved", "grade", "from", "share", "extra"],
}


async def test_a_request_for_input_is_answered(office: Office) -> None:
    """Each schema property has an input, and the whole schema is checked."""
    approval = await office.open(
        kind=Kind.INPUT,
        tool="adk_request_input",
        args={"message": "Which grade?", "response_schema": SCHEMA},
    )
    await office.press("approve")
    inputs = [b for b in office.workspace.views[-1]["blocks"] if b["type"] == "input"]
    kinds = [block["element"]["type"] for block in inputs]
    assert kinds == ["static_select", "datepicker", "number_input", "plain_text_input"]
    answer = {
        "field.0": {"selected_option": {"value": "1"}},
        "field.1": {"selected_date": "2026-11-21"},
        "field.2": {"value": "2.5"},
        "field.3": {"value": '{"x": [1]}'},
    }
    ack = await office.submit(answer)
    assert list(ack["errors"]) == ["field.2"]
    await office.submit({**answer, "field.2": {"value": "0.125"}})
    decided = await office.ledger.approval(approval.id)
    assert present(decided.decision).payload == {
        "approved": True,
        "grade": "B",
        "from": "2026-11-21",
        "share": 0.125,
        "extra": {"x": [1]},
    }


@pytest.mark.parametrize(
    ("schema", "label"),
    [({"type": "boolean"}, "Approve"), ({"type": "integer"}, "Answer…"), (SCHEMA, "Answer…")],
)
async def test_only_a_button_that_opens_a_form_is_called_answer(
    office: Office, schema: JsonValue, label: str
) -> None:
    """A request for a yes or a no has no form, so its button says that one click approves."""
    args = {"message": "Ship it?", "response_schema": schema}
    approval = await office.open(kind=Kind.INPUT, tool="adk_request_input", args=args)
    elements = next(one for one in office.card()["blocks"] if one["type"] == "actions")["elements"]
    assert elements[0]["text"]["text"] == label
    await office.press("approve")
    decided = (await office.ledger.approval(approval.id)).state is State.APPROVED
    assert decided is (label == "Approve")
    assert bool(office.workspace.views) is (label == "Answer…")


GRANTS = {"who": ["mara"], "longest": "4h", "vary": ["amount"], "limit": "args.amount <= 5000"}


@pytest.mark.parametrize(
    ("office", "template", "opens"),
    [
        ({}, None, False),
        ({}, {"days": 0}, True),
        ({"reasons": ("approve",)}, None, True),
        ({"reasons": ("reject",)}, None, False),
        ({"grants": GRANTS}, None, True),
        ({"risk": "high"}, None, False),
        ({"risk": "high", "reasons": ("approve",)}, None, True),
    ],
    indirect=["office"],
)
async def test_button_says_whether_it_approves_or_opens_a_form(
    office: Office, template: JsonValue, *, opens: bool
) -> None:
    """Without dots it decides at one click, after a question if the risk is high."""
    approval = await office.open(template=template)
    elements = next(one for one in office.card()["blocks"] if one["type"] == "actions")["elements"]
    assert elements[0]["text"]["text"] == ("Approve…" if opens else "Approve")
    assert ("confirm" in elements[0]) is (office.policy.risk is Risk.HIGH and not opens)
    await office.press("approve")
    assert ((await office.ledger.approval(approval.id)).state is State.PENDING) is opens
    assert bool(office.workspace.views) is opens


@pytest.mark.parametrize("office", [{"reasons": ("approve", "reject")}], indirect=True)
@pytest.mark.parametrize("action", ["approve", "reject"])
async def test_form_demands_a_reason_that_the_policy_requires(office: Office, action: str) -> None:
    """Slack does not send the form without it, and a blank one is an error at the field."""
    approval = await office.open()
    await office.press(action)
    (reason,) = (one for one in office.workspace.views[-1]["blocks"] if one["type"] == "input")
    assert not reason["optional"]
    ack = await office.submit({"reason": {"value": " "}})
    assert "needs a reason" in ack["errors"]["reason"]
    assert await office.submit({"reason": {"value": "for the fair"}}) is None
    assert (await office.ledger.approval(approval.id)).state is not State.PENDING


@pytest.mark.parametrize(
    ("user", "words"), [(CLEO_AT, "You cannot decide"), (RILEY_AT, "You cannot decide")]
)
async def test_unasked_users_and_the_requester_cannot_decide_by_click(
    office: Office, user: str, words: str
) -> None:
    """Other people and the requester get a private message and decide nothing."""
    approval = await office.open()
    for action in ("approve", "reject", "details"):
        await office.press(action, user=user)
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert not office.workspace.views
    await office.deliver()
    assert [whisper["user"] for whisper in office.workspace.whispers] == [user] * 3
    assert words in str(office.workspace.whispers)


async def test_unknown_slack_user_cannot_decide(office: Office) -> None:
    """A Slack user who is not in the directory decides nothing."""
    approval = await office.open()
    office.workspace.add("U0ELSE", "else@example.com")
    await office.press("approve", user="U0ELSE")
    await office.deliver()
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert office.workspace.whispers[0]["user"] == "U0ELSE"


async def test_late_click_shows_who_decided_first(office: Office) -> None:
    """A late user reads who decided, and that nothing changed."""
    approval = await office.open()
    click = office.click("approve")
    await office.decider.reject(
        approval.id, present(office.directory.get("mara")), channel="cli", reason="no"
    )
    await office.handler.handle(click)
    await office.deliver()
    assert "You had already rejected reimburse" in str(office.workspace.whispers[0]["blocks"])
    assert (await office.ledger.approval(approval.id)).state is State.REJECTED


async def test_outdated_modal_submission_shows_the_current_state(office: Office) -> None:
    """A submission is judged by the current state: the modal shows what has happened."""
    approval = await office.open(template={"days": 0})
    await office.press("approve")
    await office.decider.withdraw(approval.id, by="riley", reason="not needed")
    ack = await office.submit({"field.0": {"value": "3"}})
    assert ack["response_action"] == "update"
    assert "withdrawn" in str(ack["view"]["blocks"])


async def test_repeated_payload_is_applied_once(office: Office) -> None:
    """Slack sends again what is slow: each copy is acknowledged, and nobody gets a message."""
    approval = await office.open()
    click = office.click("approve")
    assert await asyncio.gather(*(office.handler.handle(click) for _ in range(3))) == [None] * 3
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
    await office.handler.handle(click)
    await office.deliver()
    assert not office.workspace.whispers


async def test_repeated_payload_of_a_move_that_could_be_made_twice(office: Office) -> None:
    """A vote and a question of which Slack sends copies are made once, and no copy is an error."""
    office.policy = Policy(name="large", ask=("mara", "cleo"), quorum=2, within="4h")
    approval = await office.open()
    await office.press("ask")
    view = {**office.workspace.views[-1], "id": "V0SAME"}
    copies = (office.submit({"reason": {"value": "which team?"}}, view=view) for _ in range(3))
    assert "nothing was done" not in str(await asyncio.gather(*copies))
    click = office.click("approve")
    assert await asyncio.gather(*(office.handler.handle(click) for _ in range(3))) == [None] * 3
    whats = [one.what for one in await office.ledger.history(approval.id)]
    assert (whats.count(What.ASKED_BACK), whats.count(What.VOTED)) == (1, 1)


async def test_concurrent_clicks_make_one_decision(office: Office) -> None:
    """One of many clicks decides, and each of the others gets a message."""
    approval = await office.open()
    clicks = [office.click("approve", at=str(number)) for number in range(200)]
    await asyncio.gather(*(office.handler.handle(click) for click in clicks))
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
    while await office.deliver():
        pass
    assert len(office.workspace.whispers) == 199
    assert office.workspace.cards("D0MARA")[0]["edits"] == 1


async def test_a_value_of_another_approval_is_refused(office: Office) -> None:
    """If the button's value is wrong, nothing happens."""
    approval = await office.open()
    message = office.card()
    button = {"action_id": "signoff.approve", "text": {}, "value": "{}"}
    forged = [
        "",
        "junk",
        '{"approval": 1}',
        Reference(approval=approval.id, digest="0" * 16).text(),
    ]
    for value in forged:
        payload = block_actions({**button, "value": value}, message, user=MARA_AT)
        with pytest.raises(SlackPayloadUnreadable):
            await office.handler.handle(payload)
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_click_on_an_unknown_approval_gets_a_message(office: Office) -> None:
    """A card of another installation gets a message, and nothing else happens."""
    await office.open()
    button = {"action_id": "signoff.approve", "text": {}}
    value = Reference(approval="ap_aaaaaaaaaaaaaaaa", digest="0" * 16).text()
    message = office.card()
    await office.handler.handle(block_actions({**button, "value": value}, message, user=MARA_AT))
    assert "not known here" in str(office.workspace.views[-1])


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "block_actions"},
        {"type": "block_actions", "user": {"id": "U1"}, "actions": []},
        {"type": "block_actions", "user": {"id": "<@U1>"}, "actions": [{"action_id": "x"}]},
        {"type": "view_submission", "user": {"id": "U1"}},
    ],
)
async def test_malformed_payload_raises_an_error_and_changes_nothing(
    office: Office, payload: dict[str, Any]
) -> None:
    """A payload that Slack never sends raises an error and changes nothing."""
    with pytest.raises(SlackPayloadUnreadable):
        await office.handler.handle(payload)


@pytest.mark.parametrize("kind", ["view_closed", "message_action", None, 3, []])
async def test_unrelated_interactions_are_acknowledged_without_effect(
    office: Office, kind: object
) -> None:
    """Other interactions are acknowledged without an effect."""
    assert await office.handler.handle({"type": kind}) is None


async def test_audit_records_the_user_and_team_of_a_refused_click(office: Office) -> None:
    """A refused click is recorded with the ids of user and team."""
    approval = await office.open()
    await office.press("approve", user=CLEO_AT)
    events = await office.ledger.history(approval.id)
    refused = next(event for event in events if event.what is What.REFUSED_ANSWER)
    assert refused.more["user"] == CLEO_AT
    assert refused.more["team"] == "T0HOME"


async def test_modal_that_slack_does_not_open_leaves_the_card_usable(office: Office) -> None:
    """If Slack does not open the modal, the card stays and can be pressed again."""
    approval = await office.open()
    office.workspace.failures["views.open"] = ["expired_trigger_id"]
    await office.press("reject")
    assert not office.workspace.views
    await office.press("reject")
    assert len(office.workspace.views) == 1
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_click_reads_the_approval_record_once(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision uses the record that was read to judge the card."""
    approval = await office.open()
    read: list[str] = []
    for name in ("current", "approval"):
        plain = getattr(office.ledger, name)

        async def counted(one: str, plain: Any = plain) -> Any:
            read.append(one)
            return await plain(one)

        monkeypatch.setattr(office.ledger, name, counted)
    await office.press("approve")
    assert read == [approval.id]
    monkeypatch.undo()
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


@pytest.mark.parametrize("action", ["approve", "reject", "ask"])
async def test_modal_that_cannot_be_recorded_says_so_and_can_be_sent_again(
    office: Office, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """If Redis fails at the commit, the modal stays open with an error at one of its inputs."""
    approval = await office.open(template={"days": 3})
    await office.press(action)
    form = {"reason": {"value": "for the fair"}, "field.0": {"value": "3"}}

    async def away(*_args: Any, **_more: Any) -> None:
        raise LedgerUnavailable("away")

    with monkeypatch.context() as broken:
        broken.setattr(office.ledger, "commit", away)
        ack = await office.submit(form)
    assert "nothing was done" in str(ack["errors"])
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert await office.submit(form) is None
