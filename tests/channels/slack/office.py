"""An office that asks people in Slack, and the payloads that Slack sends."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from builders import make_call, opened
from channels.slack.limits import faults_of_ack
from channels.slack.workspace import TEAM, Workspace, fast_channel
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.route import Router
from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.web import SlackWeb
from signoff.core.approvals.approval import Approval, Kind
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import VirtualClock

Json = dict[str, Any]

MARA_AT, CLEO_AT, RILEY_AT = "U0MARA", "U0CLEO", "U0RILEY"


@dataclass
class Office:
    """A ledger that asks people in Slack."""

    ledger: Ledger
    clock: VirtualClock
    decider: Decider
    workspace: Workspace
    web: SlackWeb
    handler: SlackHandler
    directory: Directory
    policy: Policy
    inbox: InboxSettings = field(default_factory=InboxSettings)

    async def open(
        self,
        *,
        hint: str = "",
        template: JsonValue = None,
        kind: Kind = Kind.CONFIRMATION,
        args: Json | None = None,
        tool: str = "reimburse",
        deliver: bool = True,
    ) -> Approval:
        """Open an approval, route it, and deliver its cards."""
        call = make_call(tool, **(args or {}))
        approval = await opened(self.decider, call, hint=hint, template=template, kind=kind)
        await self.route()
        if deliver:
            await self.deliver()
        return await self.ledger.approval(approval.id)

    def staff(self, *people: Person, queues: Iterable[Queue] = ()) -> None:
        """Use other people."""
        self.directory = Directory(people, queues=queues)
        self.decider = Decider(self.ledger, self.directory)
        identities = Identities(self.web, self.directory)
        self.handler = SlackHandler(self.decider, self.web, identities, patience=60)

    async def route(self) -> None:
        """Run the stage `route`."""
        router = Router(
            self.ledger,
            policies=[self.policy],
            fallback=Fallback(ask=("cleo",)),
            directory=self.directory,
            channels=("email", "slack"),
        )
        await router.drain()

    async def deliver(self) -> int:
        """Run the Slack delivery."""
        channel = fast_channel(self.web, self.ledger)
        delivery = Delivery(self.ledger, channel, directory=self.directory, inbox=self.inbox)
        return await delivery.drain()

    def card(self, user: str = MARA_AT) -> Json:
        """Return the first message of a conversation."""
        return self.workspace.cards(f"D{user[1:]}" if user.startswith("U") else user)[0]

    async def press(self, action: str, *, user: str = MARA_AT, **more: Any) -> Any:
        """Press a button of a card, and return the acknowledgement."""
        return await self.handler.handle(self.click(action, user=user, **more))

    def click(
        self, action: str, *, user: str = MARA_AT, card: Json | None = None, **more: Any
    ) -> Json:
        """Return Slack's payload for a press on a card's button."""
        return click_on(card or self.card(), action, user=user, **more)

    async def choose(self, text: str, *, user: str = MARA_AT, card: Json | None = None) -> Any:
        """Select an entry in a card's menu, and return the acknowledgement."""
        return await self.handler.handle(choice_in(card or self.card(user), text, user=user))

    async def submit(self, values: Json, *, user: str = MARA_AT, view: Json | None = None) -> Any:
        """Submit the last modal, and return the acknowledgement, if Slack accepts it."""
        submitted = view or self.workspace.views[-1]
        ack = await self.handler.handle(view_submission(submitted, values, user))
        assert faults_of_ack(ack, submitted) == []
        return ack


def click_on(card: Json, action: str, *, user: str = MARA_AT, **more: Any) -> Json:
    """Return Slack's payload for a press on a card's button."""
    buttons = next(one for one in card["blocks"] if one["type"] == "actions")["elements"]
    button = next(one for one in buttons if one["action_id"] == f"signoff.{action}")
    return block_actions(button, card, user=user, **more)


def choice_in(card: Json, text: str, *, user: str = MARA_AT) -> Json:
    """Return Slack's payload for a selection in a card's menu.

    https://docs.slack.dev/reference/block-kit/block-elements/overflow-menu-element
    """
    elements = next(one for one in card["blocks"] if one["type"] == "actions")["elements"]
    menu = next(one for one in elements if one["type"] == "overflow")
    option = next(one for one in menu["options"] if one["text"]["text"] == text)
    sent = block_actions({**menu, "text": None}, card, user=user)
    (action,) = sent["actions"]
    del action["text"], action["value"]
    action |= {"type": "overflow", "selected_option": option}
    sent["message"]["metadata"] = card.get("metadata")
    return sent


def block_actions(
    button: Json, message: Json, *, user: str, team: str = TEAM, at: str = ""
) -> Json:
    """Return the payload of a click as the documentation shows it."""
    return {
        "type": "block_actions",
        "user": {"id": user, "username": "x", "name": "x", "team_id": team},
        "api_app_id": "A0APP",
        "token": "legacy",
        "container": {
            "type": "message",
            "message_ts": message["ts"],
            "channel_id": message["channel"],
        },
        "trigger_id": f"trigger.{time.monotonic_ns()}",
        "team": {"id": TEAM, "domain": "example"},
        "enterprise": None,
        "is_enterprise_install": False,
        "channel": {"id": message["channel"], "name": "directmessage"},
        "message": {"type": "message", "ts": message["ts"], "blocks": message["blocks"]},
        "state": {"values": {}},
        "response_url": "https://hooks.slack.example/actions/1",
        "actions": [
            {
                "action_id": button["action_id"],
                "block_id": "b",
                "text": button["text"],
                "value": button.get("value", ""),
                "type": "button",
                "action_ts": at or str(time.monotonic_ns()),
            }
        ],
    }


def view_submission(view: Json, values: Json, user: str, *, team: str = TEAM) -> Json:
    """Return the payload of a submitted modal; values by block id, as the inputs hold them."""
    state = {block: {"value": element} for block, element in values.items()}
    return {
        "type": "view_submission",
        "team": {"id": TEAM, "domain": "example"},
        "user": {"id": user, "username": "x", "name": "x", "team_id": team},
        "api_app_id": "A0APP",
        "trigger_id": "t",
        "view": {
            "id": view.get("id", f"V{time.monotonic_ns()}"),
            "type": "modal",
            "callback_id": view["callback_id"],
            "private_metadata": view.get("private_metadata", ""),
            "state": {"values": state},
        },
    }
