"""Strictly parses what Slack sends when somebody presses or submits something.

https://docs.slack.dev/reference/interaction-payloads
"""

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from signoff.channels.slack.references import MORE, Receipt, read_choice
from signoff.core.base.errors import SlackPayloadUnreadable

LONGEST_ID: Final = 255

Json = dict[str, Any]
_Read = TypeVar("_Read", bound=BaseModel)


class _Part(BaseModel):
    # Slack adds keys without notice.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class _User(_Part):
    id: str = Field(min_length=2, max_length=64, pattern=r"^[A-Z0-9]+$")
    team_id: str | None = None


class _Team(_Part):
    id: str


class _Enterprise(_Part):
    id: str


class _Conversation(_Part):
    id: str = Field(max_length=64)


class _MessageMetadata(_Part):
    event_type: str = ""
    event_payload: Json = Field(default_factory=dict)


class _Message(_Part):
    ts: str = Field(max_length=64)
    metadata: _MessageMetadata | None = None


class _Option(_Part):
    value: str = Field(default="", max_length=150)


class _Action(_Part):
    action_id: str = Field(max_length=LONGEST_ID)
    value: str = Field(default="", max_length=2_000)
    selected_option: _Option | None = None
    action_ts: str = Field(default="", max_length=64)


class _Sent(_Part):
    user: _User
    team: _Team | None = None
    enterprise: _Enterprise | None = None
    is_enterprise_install: bool = False


class _BlockActions(_Sent):
    trigger_id: str = Field(default="", max_length=255)
    channel: _Conversation | None = None
    message: _Message | None = None
    view: _Part | None = None
    actions: list[_Action] = Field(min_length=1, max_length=25)


class _Shortcut(_Sent):
    callback_id: str = Field(max_length=LONGEST_ID)
    trigger_id: str = Field(min_length=1, max_length=255)


class _State(_Part):
    values: dict[str, dict[str, Any]] = Field(default_factory=dict)


class _View(_Part):
    id: str = Field(max_length=64)
    callback_id: str = Field(default="", max_length=LONGEST_ID)
    private_metadata: str = Field(default="", max_length=3_000)
    state: _State = Field(default_factory=_State)


class _ViewSubmission(_Sent):
    view: _View


@dataclass(frozen=True, slots=True)
class SlackUser:
    """The user as Slack identifies them: by ids, never by name.

    Attributes:
        user: The user's id.
        team: The id of the user's team, "" if Slack does not send it.
        enterprise: The organisation of the installation, "" outside Enterprise Grid.
    """

    user: str
    team: str
    enterprise: str = ""


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a button.

    Attributes:
        actor: Who.
        action: The action id of the button, or of the chosen menu option.
        value: The button's value.
        at: Slack's timestamp; together with the user it identifies this click.
        trigger: Opens one modal, within 3 seconds.
        message: The receipt of the card; None for a button in a modal.
        about: The approval that the message's own metadata names, "" if it has none.
        in_modal: Whether the button is in a modal; a new modal then opens on top of it.
    """

    actor: SlackUser
    action: str
    value: str
    at: str
    trigger: str
    message: Receipt | None
    about: str
    in_modal: bool = False


@dataclass(frozen=True, slots=True)
class Shortcut:
    """The choice of a global shortcut.

    Attributes:
        actor: Who.
        callback: The shortcut's callback id.
        trigger: Opens one modal, within 3 seconds.
    """

    actor: SlackUser
    callback: str
    trigger: str


@dataclass(frozen=True, slots=True)
class ViewSubmission:
    """The submission of a modal.

    Attributes:
        actor: Who.
        callback: The modal's callback id.
        view: The modal's id, which identifies this submission.
        metadata: The metadata that we put into it.
        values: ``view.state.values``.
    """

    actor: SlackUser
    callback: str
    view: str
    metadata: str
    values: dict[str, dict[str, Any]]


def read_payload(payload: Json) -> Click | Shortcut | ViewSubmission | None:
    """Return the interaction; None for one that needs no handling, such as a closed modal.

    Raises:
        SlackPayloadUnreadable: A part is missing, or differs from Slack's documentation.
    """
    match payload.get("type"):
        case "block_actions":
            return _click(_read(_BlockActions, payload))
        case "shortcut":
            chosen = _read(_Shortcut, payload)
            return Shortcut(_actor(chosen), chosen.callback_id, chosen.trigger_id)
        case "view_submission":
            sent = _read(_ViewSubmission, payload)
            view = sent.view
            return ViewSubmission(
                _actor(sent), view.callback_id, view.id, view.private_metadata, view.state.values
            )
    return None


def _click(sent: _BlockActions) -> Click:
    action, message = sent.actions[0], sent.message
    at_home = message is not None and sent.channel is not None
    metadata = message.metadata if message is not None else None
    carried = metadata.event_payload if metadata is not None else {}
    action_id, value, about = action.action_id, action.value, carried.get("approval", "")
    if action_id == MORE:
        text = action.selected_option.value if action.selected_option is not None else ""
        chosen = read_choice(text, str(carried.get("to", "")))
        # An unknown option is refused later, as an unknown button value.
        action_id, value = (chosen[0], chosen[1].text()) if chosen is not None else (MORE, "")
    return Click(
        actor=_actor(sent),
        action=action_id,
        value=value,
        at=action.action_ts,
        trigger=sent.trigger_id,
        message=Receipt(sent.channel.id, message.ts) if at_home else None,  # type: ignore[union-attr]  # at_home implies both
        about=str(about),
        in_modal=sent.view is not None,
    )


def _actor(sent: _Sent) -> SlackUser:
    # The team of the payload is that of the place: in a shared channel it proves nothing.
    return SlackUser(
        sent.user.id,
        sent.user.team_id or "",
        sent.enterprise.id if sent.enterprise is not None else "",
    )


def _read(model: type[_Read], payload: Json) -> _Read:
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SlackPayloadUnreadable(
            f"What came from Slack cannot be read: {where}: {first['msg']}. Nothing was done."
        ) from error
